"""What `up` is made of, piece by piece: definitions, accounts, environment, ports, log, leftovers, service files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cli.up import _going_on
from deployments import accounts, definitions, lifeline, ports, processes, running
from deployments.accounts import Account
from deployments.log import Log, followed, last, older
from deployments.place import DEFINITIONS, LIFELINE, Place, environment, without_credentials
from engine.errors import PartitionBusy, UsageError
from state.home import Home
from state.lock import partition_lock
from state.partition import activate
from tests.deployments.upping import until
from tests.free_ports import free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Home(tmp_path / "home"))


def test_the_prefect_yaml_of_the_project_folder_is_the_one_that_up_deploys() -> None:
    assert (ROOT / "prefect.yaml").resolve() == DEFINITIONS.resolve()


def test_an_installed_wheel_brings_the_definitions_along(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        assert found.read("deployments/prefect.yaml") == DEFINITIONS.read_bytes()
        assert "deployments/worker.py" in found.namelist()


def test_every_deployment_names_a_flow_that_takes_its_parameters() -> None:
    from prefect.flows import load_flow_from_entrypoint

    for entry in yaml.safe_load(DEFINITIONS.read_text())["deployments"]:
        flow: Any = load_flow_from_entrypoint(entry["entrypoint"])
        assert set(entry["parameters"]) <= set(flow.parameters.properties), entry["name"]
        assert entry["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}


def test_a_further_account_has_deployments_of_its_own_for_its_partition(tmp_path: Path) -> None:
    known = [Account(tmp_path / "me"), Account(tmp_path / "anna", "https_photos__anna", "anna")]
    entries = {
        entry["name"]: entry
        for entry in yaml.safe_load(definitions.written(tmp_path, known).read_text())["deployments"]
    }
    assert list(entries) == definitions.names(known)
    assert set(entries) == {
        *("incremental", "full", "apply", "restore"),
        *("incremental-anna", "full-anna", "apply-anna", "restore-anna"),
    }
    assert entries["incremental"]["parameters"]["partition"] == "default"
    mine, annas = entries["incremental"], entries["incremental-anna"]
    assert annas["parameters"] == {**mine["parameters"], "partition": "https_photos__anna"}
    assert annas["schedules"] == mine["schedules"]


def test_the_accounts_are_read_as_they_were_written(tmp_path: Path) -> None:
    known = [Account(tmp_path / "me"), Account(tmp_path / "anna", "https_photos__anna", "anna")]
    accounts.save(tmp_path / "accounts.json", known)
    read = accounts.load(tmp_path / "accounts.json")
    assert read == known


def test_a_key_in_the_environment_does_not_stand_for_several_accounts(tmp_path: Path) -> None:
    given = {"SERVER_URL": "https://photos.example", "SERVER_API_KEY": "secret-key"}
    assert accounts.checked_credentials(tmp_path, given, alone=True).server_url == "https://photos.example"
    with pytest.raises(UsageError) as error:
        accounts.checked_credentials(tmp_path, given, alone=False)
    assert "secret-key" not in str(error.value)


def test_the_environment_has_no_setting_of_prefect_but_ours(place: Place) -> None:
    given = {
        "PREFECT_API_URL": "https://elsewhere", "prefect_api_key": "x", "Prefect_Profile": "cloud", "LANG": "C",
        "SERVER_API_KEY": "key", "no_proxy": "example.org", "PATH": "/bin",
    }  # fmt: skip
    made = environment(place, 4205, given)
    ours = {name: value for name, value in made.items() if name.upper().startswith("PREFECT")}
    assert "https://elsewhere" not in ours.values() and not {"prefect_api_key", "Prefect_Profile"} & set(ours)
    assert (ours["PREFECT_API_URL"], ours["PREFECT_HOME"]) == ("http://127.0.0.1:4205/api", str(place.prefect))
    assert (made["LANG"], made["DO_NOT_TRACK"]) == ("C", "1")
    assert made["NO_PROXY"] == made["no_proxy"] == "example.org,127.0.0.1,localhost"
    assert made["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert made["SERVER_API_KEY"] == "key" and "SERVER_API_KEY" not in without_credentials(made)


def test_a_port_that_is_taken_is_refused_where_it_was_asked_for_and_else_passed_over() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert not ports.is_free(port)
        with pytest.raises(UsageError, match=f"Port {port} is taken"):
            ports.listening(port)
    with ports.listening(port) as held:
        assert held.getsockname() == ("127.0.0.1", port)


def test_the_usual_port_is_passed_over_where_it_is_taken() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", ports.USUAL))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        with ports.listening(None) as held:
            assert held.getsockname()[1] > ports.USUAL


def test_a_port_is_held_from_when_it_is_chosen_so_nobody_else_is_taken_for_the_server() -> None:
    with ports.listening(None) as first, ports.listening(None) as second:
        port = first.getsockname()[1]
        assert port != second.getsockname()[1]
        assert not ports.is_free(port)
        with socket.create_connection(("127.0.0.1", port)):
            pass  # whoever asks while the server starts waits for it
    assert ports.is_free(port)


def test_only_one_up_has_a_home_and_the_other_is_told_which(place: Place) -> None:
    assert running.now_running(place) is None
    with running.alone(place):
        mine = running.Running(os.getpid(), "2026-03-01T12:00:00Z", "http://127.0.0.1:4200", "/somewhere", {})
        running.save(place, mine)
        assert running.now_running(place) == mine
        with pytest.raises(PartitionBusy, match=f"pid {os.getpid()}.*12:00 UTC.*4200"), running.alone(place):
            pass
    assert running.now_running(place) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', "\x00"])
def test_what_ran_before_may_have_written_nothing_readable(place: Place, content: str) -> None:
    place.root.mkdir(parents=True)
    place.running.write_text(content)
    assert running.load(place) is None


def test_a_follower_of_the_lifeline_ends_when_its_holder_does(tmp_path: Path) -> None:
    path = tmp_path / "lifeline"
    ended, late = threading.Event(), threading.Event()
    with lifeline.held(path):
        lifeline.follow({LIFELINE: str(path)}, ended.set)
        assert not ended.wait(0.2)
    assert ended.wait(60)
    lifeline.follow({LIFELINE: str(path)}, late.set)
    assert late.wait(60), "whoever comes when nobody holds it any more ends at once"


def test_a_process_that_up_did_not_start_follows_no_lifeline() -> None:
    lifeline.follow({}, lambda: pytest.fail("it ended"))


def test_a_leftover_is_ended_and_a_number_that_is_somebody_elses_is_not() -> None:
    wait = "import sys; sys.stdin.read()"
    options = {"stdin": subprocess.PIPE, "start_new_session": True}
    with (
        subprocess.Popen([sys.executable, "-c", wait, "-m", "deployments.worker"], **options) as ours,  # type: ignore[call-overload]
        subprocess.Popen([sys.executable, "-c", wait, "notes/deployments.txt"], **options) as others,  # type: ignore[call-overload]
    ):
        assert processes.end_leftovers([ours.pid, others.pid, 0, 999_999_999]) == [ours.pid]
        assert ours.wait(60) == -9
        assert others.poll() is None
        assert not processes.end_group(others.pid, 60, again=others.poll)
        others.wait(60)


def test_a_group_that_ignores_sigterm_is_killed_after_its_time() -> None:
    stubborn = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", stubborn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"on\n"
        assert processes.end_group(child.pid, 0.3, again=child.poll)
        assert child.wait(60) == -9


def test_the_log_begins_anew_when_it_is_full_and_a_follower_goes_along(tmp_path: Path) -> None:
    log = Log(tmp_path / "up.log", largest=300)
    log.write("up", "long before")
    log.write("up", "before")
    seen: list[str] = []
    looking, written = threading.Event(), threading.Event()

    def ended() -> bool:
        looking.set()
        return written.wait(0.01)

    def follow() -> None:
        for line in followed(log.path, 1, ended):
            seen.append(line)

    reader = threading.Thread(target=follow)
    reader.start()
    assert looking.wait(60)
    for number in range(20):
        log.write("worker", f"line {number}\x1b[31m")
        until(lambda number=number: len(seen) > number + 1, "the follower")  # type: ignore[misc]
    written.set()
    reader.join(60)
    assert [line.split()[-1] for line in seen] == ["before", *(f"{number}\x1b[31m" for number in range(20))]
    assert older(log.path).exists() and log.path.stat().st_size <= 300 + 60
    assert len(last(log.path, 3)) == 3 and last(log.path, 0) == []
    assert log.path.stat().st_mode & 0o077 == 0


def test_the_time_zone_is_that_of_tz_or_of_the_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, name in (("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", "UTC")):
        monkeypatch.setenv("TZ", given)
        assert definitions.local_timezone() == name
    monkeypatch.delenv("TZ")
    assert definitions.local_timezone()


def test_the_compose_file_publishes_no_port_and_mounts_the_photos_read_only() -> None:
    service = yaml.safe_load((ROOT / "deployments/compose.yaml").read_text())["services"]["deletion-sync"]
    assert "ports" not in service
    assert all(volume.endswith(":ro") for volume in service["volumes"] if not volume.startswith("state:"))
    assert (ROOT / "deployments" / service["build"]["context"] / service["build"]["dockerfile"]).exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_service_file(tmp_path: Path) -> None:
    text = (ROOT / "deployments/deletion-sync.service").read_text()
    unit = tmp_path / "deletion-sync.service"
    unit.write_text(text.replace("%h/.local/bin/deletion-sync", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_down_knows_the_runs_that_are_on_also_where_something_is_wrong_with_an_account(place: Place) -> None:
    users = [f"{number:08}-0000-4000-8000-000000000000" for number in range(3)]
    found = [activate(place.home, "https://photos.example", user, lambda _: None) for user in users]
    found[0].run_lock.mkdir(parents=True)
    with partition_lock(found[1], "reconcile"):
        assert _going_on(place) == ["reconcile"]
        (found[2].path / "partition.json").write_text("{")
        assert _going_on(place) == []
