"""Runs that ask the server for its changes only: signed in, signed out, expired, cut, too new; always the same plan."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.main import run
from server.simulator.spoiling import NOT_JSON, StreamFault
from state import session_store
from state.db import writing
from state.partition import Partition
from state.runs import STREAM_NOTICE, set_fact
from tasks.opening import find_partition
from tasks.summary import Summary
from tests.kept import Made, kept_world
from tests.world import World, small_world

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module", params=["2.7.5", "3.1.0"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with kept_world(tmp_path_factory.mktemp("made"), furnish, version=request.param) as again:
        yield again


def furnish(world: World) -> None:
    world.simulator.users[world.user_id] = replace(world.simulator.users[world.user_id], password=PASSWORD)
    world.all_backed_up("IMG_{}.JPG", 10)
    world.live_photo("LIVE")
    world.change_settings(thresholdFloor=100)
    world.reconcile()


def sign_in(monkeypatch: pytest.MonkeyPatch, email: str = "alice@example.com", password: str = PASSWORD) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n"))
    return run(["login", "--email", email, "--password-stdin"])


def partition() -> Partition:
    return find_partition()[1]


def fetched(summary: Summary) -> dict[str, object]:
    found: dict[str, object] = json.loads((partition().runs / summary.run_id / "fetch.json").read_text())
    return found


def digest_by_search(world: World) -> str | None:
    world.change_settings(useIncrementalServerSync=False)
    digest = world.reconcile().digest
    world.change_settings(useIncrementalServerSync=True)
    return digest


def test_after_a_login_runs_read_the_stream_and_plan_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign_in(monkeypatch) == 0
    assert PASSWORD not in "".join(capsys.readouterr())
    world.reconcile()
    world.remove("IMG_1.JPG", "LIVE.HEIC", "LIVE.MOV")
    world.reconcile()
    world.pass_days(15)
    streamed = world.reconcile()
    assert fetched(streamed)["from"] == "stream"
    assert streamed.counts["to_trash"] == 3
    assert streamed.digest == digest_by_search(world)
    world.apply(streamed)
    assert world.trashed() == {"IMG_1.JPG", "LIVE.HEIC", "LIVE.MOV"}
    assert world.reconcile().outcome == "nothing to do"


def test_an_asset_that_changed_since_the_stream_is_looked_at_before_it_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(monkeypatch)
    world.remove("IMG_1.JPG", "IMG_2.JPG")
    world.reconcile()
    world.pass_days(15)
    plan = world.reconcile()
    world.simulator.change_asset(world.ids["IMG_1.JPG"], visibility="locked")
    assert world.apply(plan).counts["trashed"] == 1
    assert world.trashed() == {"IMG_2.JPG"}


@pytest.mark.parametrize(
    "fault",
    [
        StreamFault(cut_after_lines=3),
        StreamFault(cut_after_bytes=500),
        StreamFault(no_complete=True),
        StreamFault(insert={2: NOT_JSON}),
    ],
)
def test_a_stream_that_fails_is_replaced_by_a_search_in_the_same_run_and_the_run_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: StreamFault, capsys: pytest.CaptureFixture[str]
) -> None:
    sign_in(monkeypatch)
    world.remove("IMG_1.JPG")
    world.simulator.faults.add_stream(fault)
    after = world.reconcile()
    assert fetched(after)["from"] == "search" and after.counts["held"] == 1
    assert any("Listed by search" in note for note in after.notes)
    assert run(["status"]) == 0 and "Slower runs" in capsys.readouterr().out
    again = world.reconcile()
    assert fetched(again)["from"] == "stream" and not any("search" in note for note in again.notes)
    assert run(["status"]) == 0 and "Slower runs" not in capsys.readouterr().out


@pytest.mark.parametrize("status", [400, 403, 500, 502])
def test_a_refusal_of_any_kind_leads_to_a_search(world: World, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    sign_in(monkeypatch)
    world.simulator.faults.add("POST", "/api/sync/stream", status=status, times=9)
    after = world.reconcile()
    assert fetched(after)["from"] == "search" and any("Listed by search" in note for note in after.notes)


def test_lesson_35_an_expired_session_is_said_once_and_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(monkeypatch)
    world.reconcile()
    world.simulator.revoke_sessions(world.user_id)
    first, second = world.reconcile(), world.reconcile()
    assert any("deletion-sync login" in note for note in first.notes)
    assert session_store.get(partition()) is None
    assert not any("search" in note for note in second.notes)
    assert fetched(first)["from"] == fetched(second)["from"] == "search"
    sign_in(monkeypatch)
    assert fetched(world.reconcile())["from"] == "stream"


def test_logout_ends_the_session_here_and_on_the_server(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sign_in(monkeypatch)
    world.reconcile()
    assert run(["logout"]) == 0
    assert session_store.get(partition()) is None
    assert not world.simulator.sessions
    assert fetched(world.reconcile())["from"] == "search"
    assert run(["logout"]) == 0 and "no session" in capsys.readouterr().out


def test_a_wrong_password_and_another_account_are_refused_and_leave_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.simulator.add_user("Bob", "bob@example.com", PASSWORD)
    assert sign_in(monkeypatch, password="wrong") == 1
    assert sign_in(monkeypatch, email="bob@example.com") == 1
    said = "".join(capsys.readouterr())
    assert "e-mail and password" in said and "another account" in said
    assert session_store.get(partition()) is None
    assert not world.simulator.sessions


def test_the_token_is_in_no_file_but_its_own_and_the_password_in_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(monkeypatch)
    stored = session_store.get(partition())
    assert stored is not None
    world.reconcile()
    world.simulator.faults.add("POST", "/api/sync/stream", status=500, times=9)
    world.reconcile()
    token = stored.token.get_secret_value().encode()
    for path in world.home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert PASSWORD.encode() not in content, path
            assert (token in content) == (path.name == session_store.FILE), path
    assert (partition().path / session_store.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("version", "said"), [("1.143.0", "from 2.0 on"), ("4.0.0", "known up to 3.1")])
def test_a_server_outside_the_known_versions_is_searched_with_an_advisory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        furnish(world)
        sign_in(monkeypatch)
        major, minor, patch = version.split(".")
        body = {"major": int(major), "minor": int(minor), "patch": int(patch)}
        world.simulator.faults.add("GET", "/api/server/version", status=200, body=body, times=5)
        after = world.reconcile()
        assert fetched(after)["from"] == "search" and any(said in note for note in after.notes)


def test_a_real_run_from_the_stream_reads_what_it_trashed_as_trashed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(monkeypatch)
    world.remove("IMG_1.JPG")
    world.reconcile()
    world.pass_days(15)
    done = world.apply(world.reconcile())
    world.restore(done.run_id)
    world.pass_days(30)
    after = world.reconcile()
    assert fetched(after)["from"] == "stream" and after.counts["delete"] == 0 and not world.trashed()


def test_status_and_verify_tell_whether_runs_are_faster_and_how_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(word: str) -> None:
        for command in ("status", "verify"):
            capsys.readouterr()
            run([command])
            (line,) = [
                line for line in capsys.readouterr().out.splitlines() if line.startswith(("Faster runs", "Session "))
            ]
            assert word in line, command
            run([command, "--json"])
            assert word in json.loads(capsys.readouterr().out)["faster_runs"]

    with small_world(tmp_path, monkeypatch) as world:
        world.simulator.users[world.user_id] = replace(world.simulator.users[world.user_id], password=PASSWORD)
        told("deletion-sync login")
        sign_in(monkeypatch)
        told("signed in as alice@example.com")
        (partition().path / session_store.FILE).write_text("rubbish")
        told("not possible now")
        with writing(partition()) as con:
            set_fact(con, STREAM_NOTICE, "it broke")
        assert run(["status"]) == 0 and "Slower runs" in capsys.readouterr().out
        assert run(["settings", "set", "useIncrementalServerSync", "false"]) == 0
        told("switched off")
        assert run(["status"]) == 0 and "Slower runs" not in capsys.readouterr().out


def test_sign_out_ends_the_session_on_the_server_too_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.simulator.users[world.user_id] = replace(world.simulator.users[world.user_id], password=PASSWORD)
        sign_in(monkeypatch)
        assert run(["sign-out", "--yes"]) == 0 and not world.simulator.sessions
        sign_in(monkeypatch)
        world.simulator.faults.add("POST", "/api/auth/logout", status=500)
        assert run(["sign-out", "--yes"]) == 0 and len(world.simulator.sessions) == 1
        assert session_store.get(partition()) is None
