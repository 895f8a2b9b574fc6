"""A real `up`, once for most of these tests: they go through its life in the order in which they stand."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments import ports, supervisor
from deployments.log import Log
from tasks.opening import find_partition
from tests.cli.program import now, photos
from tests.deployments.upping import (
    PATIENCE,
    PROGRAM,
    ZONE,
    Up,
    api_of,
    ended_run,
    environment,
    group,
    made_missed,
    planned,
    program,
    run_of,
    until,
    upped,
)
from tests.flows.test_two_ways import ROOT, STEPS
from tests.world import World, small_world

NAMES = {"incremental", "full", "apply", "restore"}


@dataclass
class Stage:
    """The world, and the `up` that is on. ``key``: the photo server's API key; ``first``: the first run's id."""

    world: World
    directory: Path
    user: Path
    key: str
    stack: ExitStack
    up: Up = field(init=False)
    first: str = ""

    def start(self, **changes: str) -> Up:
        """`up`, ready, where everything around it tries to lead it astray."""
        elsewhere = "http://127.0.0.1:9/api"
        self.up = self.stack.enter_context(
            upped(
                self.world.home, self.directory, HOME=str(self.user), PREFECT_API_URL=elsewhere,
                PREFECT_HOME=str(self.user / "prefect"), prefect_server_database_connection_url="sqlite:////nowhere/x",
                PREFECT_SERVER_ANALYTICS_ENABLED="true", HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9",
                **changes,
            )
        )  # fmt: skip
        self.up.told("Ready")
        return self.up

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return program(self.world.home, self.directory, *arguments)

    def groups(self) -> list[str]:
        return [line for part in self.up.running["parts"].values() for line in group(part["pid"])]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("up")
    with pytest.MonkeyPatch.context() as monkeypatch, small_world(root, monkeypatch) as world, ExitStack() as stack:
        world.now = now()
        photos(world)
        directory, user, key = root / "work", root / "user", os.environ["SERVER_API_KEY"]
        lines = [f"SERVER_URL={world.url}", f"SERVER_API_KEY={key}", "PREFECT_API_URL=http://127.0.0.1:9/api"]
        (directory / ".env").write_text("\n".join(lines))
        (directory / ".env").chmod(0o600)
        (directory / "tasks.py").write_text("raise SystemExit('the wrong module')\n")
        (directory / "prefect.toml").write_text('[api]\nurl = "http://127.0.0.1:9/api"\n')
        found = Stage(world, directory, user, key, stack)
        found.start(SERVER_API_KEY=key)
        yield found


def test_it_says_when_it_is_ready_and_where_the_ui_is(stage: Stage) -> None:
    assert stage.up.url in stage.up.told("Ready")
    assert httpx.get(f"{stage.up.url}/api/health", trust_env=False, timeout=60).json() is True


def test_the_deployments_of_prefect_yaml_are_there(stage: Stage) -> None:
    with api_of(stage.up.url) as api:
        found = {row["name"]: row for row in api.post("/deployments/filter", json={}).json()}
    assert set(found) == NAMES
    for row in found.values():
        assert row["description"] and row["tags"] and row["parameters"]["partition"] == "default"
        assert row["global_concurrency_limit"]["limit"] == 1
        assert row["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        assert all(shown["description"] for shown in row["parameter_openapi_schema"]["properties"].values())
    assert found["incremental"]["parameters"]["time_budget_seconds"] == 30
    schedules = {name: [s["schedule"]["cron"] for s in row["schedules"]] for name, row in found.items()}
    assert schedules == {"incremental": ["10 */4 * * *"], "full": ["30 3 * * *"], "apply": [], "restore": []}


def test_prefect_deploy_all_in_the_project_folder_asks_nothing_and_deploys_the_same(
    stage: Stage, tmp_path: Path
) -> None:
    def seen() -> Any:
        with api_of(stage.up.url) as api:
            rows = api.post("/deployments/filter", json={}).json()
        kept = ("name", "entrypoint", "parameters", "tags", "description", "concurrency_options", "job_variables")
        zones = {row["name"]: [s["schedule"] for s in row["schedules"]] for row in rows}
        return sorted(({key: row[key] for key in kept} for row in rows), key=lambda row: row["name"]), zones

    before = seen()
    done = subprocess.run(
        [PROGRAM.with_name("prefect"), "--no-prompt", "deploy", "--all"], cwd=ROOT, stdin=subprocess.DEVNULL,
        env=environment(tmp_path, {"PREFECT_API_URL": f"{stage.up.url}/api", "PREFECT_HOME": str(tmp_path)}),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen() == before


def test_a_full_run_goes_through_the_worker_and_its_steps_have_their_names(stage: Stage) -> None:
    stage.world.now = now()
    with api_of(stage.up.url) as api:
        stage.first = run_of(api, "reconcile/full", dry_run=True)["id"]
        run = ended_run(api, stage.first)
        assert (run["state_type"], run["state"]["message"]) == ("COMPLETED", "nothing to do")

        def steps() -> Any:
            rows = api.post("/task_runs/filter", json={"sort": "EXPECTED_START_TIME_ASC"}).json()
            return rows if len(rows) == len(STEPS) and all(row["state_type"] == "COMPLETED" for row in rows) else None

        assert [row["name"].rsplit("-", 1)[0] for row in until(steps, "the steps")] == STEPS
    assert stage.world.simulator.mutations() == []


def test_the_runs_of_an_account_share_a_limit_of_one(stage: Stage) -> None:
    with api_of(stage.up.url) as api:
        limits = api.post("/v2/concurrency_limits/filter", json={}).json()
    (shared,) = [row for row in limits if row["name"].startswith("deletion-sync ")]
    assert shared["limit"] == 1 and stage.world.user_id not in shared["name"]


def test_no_file_of_prefect_or_of_up_holds_the_key(stage: Stage) -> None:
    files = [
        path for path in (*stage.world.home.glob("prefect/**/*"), *stage.world.home.glob("up/*")) if path.is_file()
    ]
    assert {"prefect.db", "up.log"} <= {path.name for path in files}
    assert all(stage.key.encode() not in path.read_bytes() for path in files)
    server, worker = (Path(f"/proc/{stage.up.pid(name)}/environ") for name in ("server", "worker"))
    if server.exists():  # not on macOS
        assert stage.key.encode() in worker.read_bytes() and stage.key.encode() not in server.read_bytes()


def test_nothing_of_the_persons_own_prefect_is_read_or_written(stage: Stage) -> None:
    """The fixture set PREFECT_* in the environment, in .env and in prefect.toml, and a proxy; a run has succeeded."""
    assert not stage.user.exists()
    assert (stage.world.home / "prefect" / "prefect.db").exists()
    assert sorted(path.name for path in stage.directory.iterdir()) == [".env", "prefect.toml", "tasks.py"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:4200"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Prefect-Csrf-Token": "guessed"}, 403),
    ],
)
def test_only_its_own_pages_and_programs_of_this_computer_can_ask_it(
    stage: Stage, headers: dict[str, str], status: int
) -> None:
    with api_of(stage.up.url) as api:
        assert api.post("/deployments/filter", json={}, headers=headers).status_code == status


def test_a_foreign_page_learns_nothing_by_reading_and_opens_no_websocket(stage: Stage) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": "https://evil.example",
    }  # fmt: skip
    for path, headers in (
        ("/api/csrf-token?client=x", {"Origin": "https://evil.example"}),
        ("/", {"Host": "rebound.example"}),
        ("/api/events/out", upgrade),
    ):
        assert httpx.get(f"{stage.up.url}{path}", headers=headers, trust_env=False, timeout=60).status_code == 403
    answer = httpx.get(f"{stage.up.url}/api/health", headers={"Origin": stage.up.url}, trust_env=False, timeout=60)
    assert answer.headers["access-control-allow-origin"] == stage.up.url


@pytest.mark.parametrize("path", ["/", "/v2", "/v2/", "/runs", "/api/health", "/docs", "/nothing/here"])
def test_no_page_may_load_anything_from_elsewhere(stage: Stage, path: str) -> None:
    answer = httpx.get(f"{stage.up.url}{path}", headers={"Accept": "text/html"}, trust_env=False, timeout=60)
    policy = answer.headers["content-security-policy"]
    sources = {source for rule in policy.split("; ") for source in rule.split()[1:]}
    own = stage.up.url.replace("http:", "ws:")
    assert sources == {"'self'", "'unsafe-inline'", "'unsafe-eval'", "'none'", "data:", "blob:", own}
    assert "default-src 'self'" in policy and "script-src 'self' 'unsafe-eval'" in policy.split("; ")


def test_both_uis_are_served_and_localhost_leads_to_them(stage: Stage) -> None:
    page = {"Accept": "text/html"}
    for path in ("/", "/v2/"):
        assert (
            "<title>Prefect"
            in httpx.get(f"{stage.up.url}{path}", headers=page, trust_env=False, timeout=60, follow_redirects=True).text
        )
    port = httpx.URL(stage.up.url).port
    answer = httpx.get(
        f"{stage.up.url}/runs?a=b", headers={**page, "Host": f"localhost:{port}"}, trust_env=False, timeout=60
    )
    assert (answer.status_code, answer.headers["location"]) == (307, f"{stage.up.url}/runs?a=b")
    settings = httpx.get(f"{stage.up.url}/ui-settings", trust_env=False, timeout=60).json()
    assert (settings["api_url"], settings["csrf_enabled"]) == (f"{stage.up.url}/api", True)


def test_no_other_computer_can_reach_it(stage: Stage) -> None:
    port = httpx.URL(stage.up.url).port
    assert port is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it only tells which address would be used
        address = probe.getsockname()[0]
    with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):
        pass


def test_a_second_up_is_refused_and_told_who_runs(stage: Stage) -> None:
    second = stage.run("up")
    assert second.returncode == 11
    assert str(stage.up.process.pid) in second.stderr and stage.up.url in second.stderr
    assert stage.up.process.poll() is None


def test_check_tells_that_it_works(stage: Stage) -> None:
    def well() -> Any:
        found = stage.run("up", "--check", "--json")
        return None if found.returncode else json.loads(found.stdout)

    findings = until(well, "a check that finds all well")  # the server plans the next runs some seconds after the start
    assert {name for name, finding in findings.items() if not finding["well"]} == set()
    assert set(findings) == {"up", "server", "worker", "deployments", "schedules"}


def test_the_next_runs_are_planned_in_the_time_zone_of_this_computer(stage: Stage) -> None:
    with api_of(stage.up.url) as api:
        until(lambda: planned(api) or None, "the next runs")
        rows = api.post("/deployments/filter", json={}).json()
    zones = {schedule["schedule"]["timezone"] for row in rows for schedule in row["schedules"]}
    assert zones == {ZONE}


def test_logs_shows_what_was_said_and_follows(stage: Stage) -> None:
    worker = stage.up.pid("worker")
    until(lambda: not any("flow_run" in command for command in group(worker)), "the end of the run's process")
    shown = stage.run("logs", "--lines", "500")
    assert shown.returncode == 0 and "Ready after" in shown.stdout and " worker " in shown.stdout
    assert "leaked" not in shown.stdout, "a process that ends tells nothing of its own insides"
    assert stage.run("logs", "--lines", "0").stdout == ""
    with subprocess.Popen(
        [PROGRAM, "logs", "-f", "--lines", "1"], cwd=stage.directory, env=environment(stage.world.home),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as following:  # fmt: skip
        assert following.stdout is not None
        following.stdout.readline()
        Log(stage.world.home / "up" / "up.log").write("test", "a new line")
        assert any(b"test   a new line" in line for line in following.stdout)
        following.kill()


def test_a_worker_that_is_killed_is_started_again_and_its_run_is_ended_and_told(stage: Stage) -> None:
    former = stage.up.pid("worker")
    with api_of(stage.up.url) as api:
        run_id = run_of(api, "reconcile/full", dry_run=True)["id"]
        until(lambda: any("flow_run" in command for command in group(former)), "the run's process")
        os.kill(former, signal.SIGKILL)
        stage.up.told("The worker ended by SIGKILL")
        until(lambda: group(former) == [], "the end of the run's process")
        assert stage.up.ready_again("worker", former) != former
        run = api.get(f"/flow_runs/{run_id}").json()
    assert (run["state_type"], "cut off" in run["state"]["message"]) == ("CRASHED", True)


def test_a_server_that_is_killed_is_started_again_and_knows_its_runs(stage: Stage) -> None:
    former = stage.up.pid("server")
    os.kill(former, signal.SIGKILL)
    assert "in 1 s" in stage.up.told("The server ended by SIGKILL")
    port = int(stage.up.url.rpartition(":")[2])
    assert not ports.is_free(port), "nobody else can be taken for it meanwhile: the worker does what it says"
    stage.up.ready_again("server", former)
    stage.up.told("Ready again")
    with api_of(stage.up.url) as api:
        assert api.get(f"/flow_runs/{stage.first}").json()["state_type"] == "COMPLETED"


def test_after_kill_9_of_up_nothing_is_left_and_the_next_up_finds_its_runs(stage: Stage) -> None:
    stage.world.simulator.faults.add("GET", "/api/server", delay=300, times=None)  # the run does not end by itself
    with api_of(stage.up.url) as api:
        incremental = api.get("/deployments/name/reconcile/incremental").json()
        of = {"deployments": {"id": {"any_": [incremental["id"]]}}}
        until(lambda: len(planned(api, **of)) > 2, "the next runs")
        full = api.get("/deployments/name/reconcile/full").json()
        schedule = full["schedules"][0]["id"]
        api.patch(f"/deployments/{full['id']}/schedules/{schedule}", json={"active": False}).raise_for_status()
        cut_off = run_of(api, "reconcile/full", dry_run=True)["id"]
        until(lambda: api.get(f"/flow_runs/{cut_off}").json()["state_type"] in ("PENDING", "RUNNING"), "the run")
    parts = stage.up.running["parts"]
    stage.up.process.kill()
    stage.up.process.wait()
    until(lambda: not stage.groups(), "the end of server, worker and run")
    stage.world.simulator.faults.clear()
    assert stage.run("up", "--check").returncode == 1
    missed = made_missed(stage.world.home, incremental["id"])
    stage.world.now = now()
    up = stage.start()
    assert all(up.pid(name) != parts[name]["pid"] for name in parts)
    with api_of(up.url) as api:
        assert api.get(f"/flow_runs/{stage.first}").json()["state_type"] == "COMPLETED"
        run = api.get(f"/flow_runs/{cut_off}").json()
        assert (run["state_type"], "cut off" in run["state"]["message"]) == ("CRASHED", True)
        rows = api.get(f"/deployments/{full['id']}").json()["schedules"]
        assert [row["active"] for row in rows] == [False], "what a person switched off stays off"
        answers = [api.get(f"/flow_runs/{run_id}") for run_id in missed]
        kept = [answer.json() for answer in answers if answer.status_code == 200]
        assert len(missed) > 2 and len(kept) == 1, "of the missed runs one is made up for"
        assert ended_run(api, kept[0]["id"])["state"]["message"] == "nothing to do"


def test_down_ends_everything_within_10_seconds_also_while_a_run_is_on(stage: Stage) -> None:
    stage.world.simulator.faults.add("GET", "/api/server", delay=300, times=None)
    before = (lock := find_partition()[1].run_lock).read_bytes()
    with api_of(stage.up.url) as api:
        run_of(api, "reconcile/incremental")
        # Not by `holder`, which takes the lock for a moment: the run that begins would be refused.
        until(lambda: lock.read_bytes() not in (b"", before), "the run")
    assert stage.groups()
    began, ended = time.monotonic(), stage.run("down")
    assert ended.returncode == 0 and ended.stderr.startswith(
        "Down.\nA run (reconcile) was going on. If it was cut off,"
    )
    # What it waits for the processes is less than 10 s; a busy machine starts `down` itself slowly.
    assert supervisor._WORKER_SECONDS + supervisor._SERVER_SECONDS < 10 and time.monotonic() - began < 60
    assert stage.up.process.wait(PATIENCE) == 0
    until(lambda: stage.up.lines[-1] == "Stopped." and stage.groups() == [], "its last line, and the end of all")
    assert stage.run("up", "--check").returncode == 1
    again = stage.run("down")
    assert (again.returncode, again.stderr) == (0, "deletion-sync is not up.\n")


def test_without_credentials_it_does_not_start(tmp_path: Path) -> None:
    refused = program(tmp_path / "home", tmp_path, "up")
    assert refused.returncode == 2 and "SERVER_URL" in refused.stderr and str(tmp_path / ".env") in refused.stderr


def test_a_module_that_would_stand_in_for_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "cli", "up"], cwd=tmp_path, env=environment(tmp_path / "home"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and str(tmp_path / "tasks.py") in done.stderr
