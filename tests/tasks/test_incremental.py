"""Whatever a search can do without makes a run list by search, and say why; an interruption is none of it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import SecretStr

from engine.errors import DeletionSyncError
from server.errors import ServerError
from server.session import Session
from state import duck, server_cache, session_store
from state.db import reading
from state.home import Home
from state.runs import STREAM_NOTICE, get_fact
from state.session_store import StoredSession
from tasks import clock, incremental
from tasks.context import Context
from tasks.incremental import Streamed, write_from_stream
from tasks.refs import RunRef
from tests.tasks.test_server_changes import Side, _lived, side

STUCK_KEYRING = """
kept = {}
class Backend:
    def get_password(self, service, name): return kept.get(name)
    def set_password(self, service, name, text): kept[name] = text
    def delete_password(self, service, name): raise RuntimeError("it does not let go")
def get_keyring(): return Backend()
"""


def run(here: Side, **settings: Any) -> Streamed:
    home = Home(here.folder / "home")
    facts = {"settings": settings, "user_id": here.world.user, "server": {"version": "3.1.0"}}
    context = Context(RunRef(str(home.root), here.partition.name, "a-run"), home, here.partition, here.folder, facts)
    return write_from_stream(context, here.world.server, here.folder / "server.parquet")


def notice(here: Side) -> str | None:
    with reading(here.partition) as con:
        return get_fact(con, STREAM_NOTICE)


def sign_in(here: Side) -> None:
    session_store.put(here.partition, StoredSession(here.world.user, "ann@example.com", here.token))


def searched(here: Side, said: str) -> str:
    """Asserts that a run lists by search, in one note that says so, and that `status` shows the same."""
    found = run(here)
    assert found.rows is None and len(found.notes) == 1 and said in found.notes[0]
    shown = notice(here)
    assert shown is not None and shown in found.notes[0]
    return found.notes[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    """A signed-in side whose cache followed the server once."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with side(tmp_path) as found:
        _lived(found)
        sign_in(found)
        assert run(found).rows == 8
        yield found


def test_lesson_49_a_keyring_that_keeps_an_expired_session_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "keyring.py").write_text(STUCK_KEYRING)
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    with side(tmp_path) as here:
        sign_in(here)
        here.world.sim.revoke_sessions(here.world.user)
        searched(here, "does not know the session")
    sys.modules.pop("keyring")


def test_an_expired_session_is_asked_for_in_one_sentence(here: Side) -> None:
    here.world.sim.revoke_sessions(here.world.user)
    assert searched(here, "deletion-sync login").lower().count("sign in") == 1


def test_a_cache_that_another_command_uses_is_not_waited_for_in_vain(
    here: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "WAIT_SECONDS", 0.1)
    with server_cache.server_cache(here.partition):
        searched(here, "in use")
    assert run(here).rows == 8


@pytest.mark.parametrize("token", ["", " ", "a\nb", "a\x00b", "é", "two words"])
def test_a_stored_token_that_can_be_none_stops_no_run_and_is_not_told(here: Side, token: str) -> None:
    stored = {"user_id": here.world.user, "email": "", "token": token}
    (here.partition.path / session_store.FILE).write_text(json.dumps(stored))
    said = searched(here, "deletion-sync login")
    assert token == " " or not token or token not in said
    assert incremental.sign_off(here.partition) is False
    assert session_store.get(here.partition) is None


def test_too_little_memory_for_the_cache_stops_no_run(here: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_cache, "MEMORY_LIMIT", "1KB")
    searched(here, "OutOfMemory")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert run(here).rows == 8


def test_a_cache_file_of_rubbish_is_begun_anew_in_the_same_run_and_said_once(
    here: Side, caplog: pytest.LogCaptureFixture
) -> None:
    (here.partition.path / server_cache.FILE).write_bytes(b"\x00rubbish" * 1000)
    with caplog.at_level(logging.WARNING):
        assert run(here).rows == run(here).rows == 8
    assert caplog.text.count("begun anew") == 1
    assert not list(here.partition.path.glob("*damaged*"))


def test_damage_that_shows_in_use_costs_one_run_its_speed(here: Side) -> None:
    path = here.partition.path / server_cache.FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:16384] + bytes(byte ^ 0xFF for byte in whole[16384:]))  # its three headers are sound
    found = [run(here), run(here)]
    assert [one.rows for one in found] in ([None, 8], [8, 8])


def test_a_cache_that_can_be_no_file_stops_no_run(here: Side) -> None:
    path = here.partition.path / server_cache.FILE
    path.unlink()
    path.mkdir()
    searched(here, server_cache.FILE)


def test_whatever_duckdb_says_in_use_is_ours_but_an_interruption_is_not(here: Side) -> None:
    path = here.partition.path / server_cache.FILE
    for wrong, gone in (
        (duckdb.OutOfMemoryException("x"), False),
        (duckdb.IOException("x"), False),
        (duckdb.FatalException("x"), True),
    ):
        with pytest.raises(DeletionSyncError), server_cache.server_cache(here.partition):
            raise wrong
        assert path.exists() is not gone
    for interruption in (duckdb.InterruptException("x"), duckdb.InvalidInputException("... KeyboardInterrupt")):
        with pytest.raises(type(interruption)), server_cache.server_cache(here.partition):
            raise interruption


def test_an_interruption_is_no_reason_to_search(here: Side) -> None:
    def interrupted() -> datetime:
        raise KeyboardInterrupt

    with clock.clock_of(interrupted), pytest.raises(KeyboardInterrupt):
        run(here)
    assert run(here).rows == 8


def test_what_the_search_needs_too_is_the_runs_own_error(here: Side) -> None:
    here.world.sim.faults.add("GET", "/api/assets/statistics", status=500, times=9)
    with pytest.raises(ServerError):
        run(here)


def test_lesson_87_a_run_whose_cache_has_parted_from_the_server_lists_by_search(here: Side) -> None:
    body = {"images": 90, "videos": 0, "total": 90}
    here.world.sim.faults.add("GET", "/api/assets/statistics", status=200, body=body, times=None)
    searched(here, "The server counts 90 photos and videos")
    here.world.sim.faults.clear()
    assert run(here).rows == 8 and notice(here) is None


def test_a_poisoned_cursor_costs_one_run_its_speed(here: Side) -> None:
    with server_cache.server_cache(here.partition) as cache:
        cache.con.execute("UPDATE acks SET ack = 'SyncCompleteV1|no position' WHERE type = 'SyncCompleteV1'")
    searched(here, "500")
    assert run(here).rows == 8


def given(here: Side) -> Session:
    return Session(SecretStr(here.world.sim.add_session(here.world.user)), here.world.user, "ann@example.com", "Ann")


def test_a_login_ends_the_session_that_it_replaces(here: Side) -> None:
    new = given(here)
    incremental.sign_in(here.partition, new)
    assert set(here.world.sim.sessions) == {new.token.get_secret_value()}
    assert run(here).rows == 8
    incremental.sign_in(here.partition, new)
    assert len(here.world.sim.sessions) == 1, "the same one again is not ended"


def test_a_login_is_kept_whether_or_not_the_former_session_can_be_ended(
    here: Side, caplog: pytest.LogCaptureFixture
) -> None:
    here.world.sim.faults.add("POST", "/api/auth/logout", status=500)
    incremental.sign_in(here.partition, given(here))
    assert len(here.world.sim.sessions) == 2 and "could not be ended" in caplog.text
    (here.partition.path / session_store.FILE).write_text("rubbish")
    incremental.sign_in(here.partition, given(here))
    assert run(here).rows == 8


def test_the_notice_goes_with_the_session_and_with_the_setting(here: Side) -> None:
    here.world.sim.faults.add("POST", "/api/sync/stream", status=502, times=2)
    searched(here, "502")
    incremental.sign_off(here.partition)
    assert notice(here) is None and not here.world.sim.sessions
    incremental.sign_in(here.partition, given(here))
    searched(here, "502")
    assert run(here, useIncrementalServerSync=False) == Streamed() and notice(here) is None


def test_a_session_is_ended_on_the_server_as_well_as_may_be(here: Side) -> None:
    here.world.sim.faults.add("POST", "/api/auth/logout", status=500)
    incremental.end_session(here.partition)
    assert len(here.world.sim.sessions) == 1
    incremental.end_session(here.partition)
    assert not here.world.sim.sessions
    session_store.clear(here.partition)
    incremental.end_session(here.partition)
    (here.partition.path / session_store.FILE).write_text("rubbish")
    incremental.end_session(here.partition)
