"""One sync of the server cache, against the simulated server on a real socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from engine.relations import SERVER
from server.session import login, logout
from server.simulator.spoiling import NOT_JSON, UNKNOWN_TYPE, WITHOUT_ACK, WRONG_DATA, StreamFault
from server.stream import SyncStream
from server.stream_errors import (
    ResetAgain,
    SessionExpired,
    StreamBroken,
    StreamDataError,
    StreamForeign,
    StreamIncomplete,
    StreamUnavailable,
    StreamUnknown,
    SyncError,
)
from server.stream_types import asset_types
from state import server_cache
from state.errors import StateError
from state.home import Home
from state.partition import Partition, activate
from tasks.server_changes import Outcome, sync
from tests.server.client_support import BOTH, World, world

NOW = datetime.fromisoformat("2026-03-01T12:00:00")


@dataclass
class Side:
    """A partition whose cache follows a simulated server, one event a batch unless told otherwise."""

    world: World
    partition: Partition
    token: SecretStr
    folder: Path
    now: datetime = NOW
    block_bytes: int = 1
    read_timeout: float = 60.0

    def sync(self) -> Outcome:
        with (
            SyncStream(
                self.world.url,
                self.token,
                sleep=self.world.waits.append,
                block_bytes=self.block_bytes,
                read_timeout=self.read_timeout,
            ) as stream,
            server_cache.server_cache(self.partition) as cache,
        ):
            types = asset_types(self.world.server.version())
            return sync(stream, cache, self.search, types, lambda: self.now)

    def search(self) -> pa.Table:
        return self.world.server.fetch_assets(self.world.user)

    def rows(self) -> list[dict[str, Any]]:
        path = self.folder / "server.parquet"
        with server_cache.server_cache(self.partition) as cache:
            server_cache.server_rows(cache, path)
        table = pq.read_table(path)
        assert table.schema.remove_metadata() == SERVER
        return sorted(table.to_pylist(), key=lambda row: str(row["asset_id"]))

    def listed(self) -> list[dict[str, Any]]:
        return sorted(self.search().to_pylist(), key=lambda row: str(row["asset_id"]))

    def same(self) -> bool:
        """Whether the cache delivers what the search does, to the last value (invariant 11)."""
        return self.rows() == self.listed()

    def acks_differ(self) -> bool:
        with (
            SyncStream(self.world.url, self.token) as stream,
            server_cache.server_cache(self.partition) as cache,
        ):
            return stream.acks() != server_cache.stored_acks(cache)


@contextmanager
def side(folder: Path, version: str = "3.1.0") -> Iterator[Side]:
    with world(version) as found:
        partition = activate(Home(folder / "home"), found.url, found.user, lambda line: None)
        yield Side(found, partition, SecretStr(found.sim.add_session(found.user)), folder)


def _lived(here: Side) -> list[str]:
    """Assets of every kind, and what happens to them."""
    sim, user = here.world.sim, here.world.user
    ids = here.world.add("IMG_", 5)
    motion = sim.add_asset(user, visibility="hidden", file_name="é\u2028.MOV", type="VIDEO", checksum=_checksum("m"))
    sim.add_asset(user, live_photo_video_id=motion, file_name="LIVE ☀.HEIC", checksum=_checksum("l"))
    sim.add_asset(user, visibility="archive", file_name="a", checksum=_checksum("a"), is_favorite=True)
    sim.add_asset(user, visibility="locked", file_name="k", checksum=_checksum("k"))
    return ids


def _checksum(text: str) -> str:
    from tests.server.client_support import checksum

    return checksum(text)


@BOTH
def test_the_cache_delivers_what_the_search_does_through_a_life_of_changes(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        ids = _lived(here)
        assert here.sync().seeded
        assert here.same() and len(here.rows()) == 8
        here.world.server.trash_units([(ids[0],), (ids[1],)])
        assert not here.sync().seeded
        assert here.same() and sum(row["is_trashed"] for row in here.rows()) == 2
        here.world.server.restore_assets([ids[0]])
        here.world.sim.purge(ids[1])
        here.world.sim.change_asset(ids[2], visibility="archive", is_favorite=True)
        here.world.sim.change_asset(ids[3], visibility="locked")
        here.world.add("new", 2)
        assert here.sync().events == 7  # six changes and the complete
        assert here.same() and len(here.rows()) == 8
        assert here.sync().events == 1 and here.same()


@BOTH
def test_what_changes_while_the_cache_is_seeded_is_in_it(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        ids = _lived(here)
        listing = here.search()
        here.world.sim.purge(ids[0])
        here.world.add("late", 1)
        here.search = lambda: listing  # type: ignore[method-assign]
        assert here.sync().seeded
        del here.search
        assert here.same()


@BOTH
def test_a_password_gives_the_session_and_signing_out_ends_it(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        user = here.world.sim.add_user("Bo", "bo@example.com", "a pass word")
        session = login(here.world.url, "bo@example.com", SecretStr("a pass word"))
        assert (session.user_id, session.email, session.name) == (user, "bo@example.com", "Bo")
        with SyncStream(here.world.url, session.token) as stream:
            assert stream.acks() == {}
            logout(here.world.url, session.token)
            with pytest.raises(SessionExpired) as refused:
                stream.acks()
            assert refused.value.status == 401 and refused.value.body
        logout(here.world.url, session.token)


def test_lesson_35_a_revoked_session_is_said_once_and_not_retried(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.sync()
        here.world.sim.revoke_sessions(here.world.user)
        before = len(here.world.sim.requests)
        with pytest.raises(SessionExpired):
            here.sync()
        asked = [r.path for r in list(here.world.sim.requests)[before:] if "sync" in r.path]
        assert len(asked) == 1 and here.world.waits == []


@BOTH
def test_lesson_44_a_reset_wipes_first_then_acknowledges_then_begins_at_the_start(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        ids = _lived(here)
        here.sync()
        here.world.sim.purge(ids[0])
        here.world.sim.changes.deletions.clear()  # older than what the stream tells
        here.world.sim.demand_sync_reset(here.world.user)
        before = len(here.world.sim.requests)
        outcome = here.sync()
        assert outcome.reset and not outcome.seeded
        assert here.same() and ids[0] not in {row["asset_id"] for row in here.rows()}
        asked = [(r.method, r.path) for r in list(here.world.sim.requests)[before:] if "sync" in r.path]
        stream, ack = ("POST", "/api/sync/stream"), ("POST", "/api/sync/ack")
        assert asked[:4] == [("GET", "/api/sync/ack"), stream, ack, stream]


def test_a_second_reset_in_one_run_is_not_followed(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.sync()
        reset = StreamFault(insert={0: b'{"type":"SyncResetV1","data":{},"ack":"SyncResetV1|reset"}'})
        here.world.sim.faults.add_stream(reset, times=2)
        before = len(here.world.sim.requests)
        with pytest.raises(ResetAgain):
            here.sync()
        asked = [r.path for r in list(here.world.sim.requests)[before:] if "stream" in r.path]
        assert len(asked) == 2
        assert here.sync().seeded and here.same()


def test_lesson_44_a_stream_cut_short_is_no_basis_and_the_next_sync_goes_on(tmp_path: Path) -> None:
    faults: list[tuple[StreamFault, type[SyncError]]] = [
        (StreamFault(no_complete=True), StreamIncomplete),
        (StreamFault(cut_after_lines=4), StreamUnavailable),
        (StreamFault(cut_after_bytes=500), StreamUnavailable),
        (StreamFault(insert={3: NOT_JSON}), StreamBroken),
        (StreamFault(insert={3: WRONG_DATA}), StreamDataError),
    ]
    for number, (fault, kind) in enumerate(faults):
        with side(tmp_path / str(number)) as here:
            _lived(here)
            here.world.sim.faults.add_stream(fault)
            with pytest.raises(kind):
                here.sync()
            with pytest.raises(StateError, match="not complete"):
                here.rows()
            outcome = here.sync()
            assert not outcome.seeded and here.same(), fault
            assert outcome.events < 10, "what came before the fault did not come again"


def test_a_server_that_hangs_is_left_after_the_read_timeout(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.read_timeout = 0.3
        here.world.sim.faults.add_stream(StreamFault(hang_after_lines=3))
        with pytest.raises(StreamUnavailable):
            here.sync()


def test_lesson_40_a_server_that_fails_at_any_request_leaves_nothing_wrong_behind(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        here.sync()
        for number in range(1, 5):
            here.world.sim.purge(ids[number])
            here.world.add(f"more{number}", 1)
            here.world.sim.faults.add("*", "/api/sync", status=500, after=number - 1, times=20)
            with pytest.raises(StreamUnavailable):
                here.sync()
            here.world.sim.faults.clear()
            here.sync()
            assert here.same()


@BOTH
def test_what_the_client_does_not_know_changes_nothing(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        _lived(here)
        here.world.sim.faults.add_stream(StreamFault(insert={0: b"", 2: UNKNOWN_TYPE, 4: WITHOUT_ACK}))
        here.sync()
        assert here.same()
        here.world.add("next", 1)
        here.sync()
        assert here.same()


@BOTH
@pytest.mark.parametrize("kind", ["AssetV9", "AssetDeleteV2"])
def test_assets_told_of_in_an_unknown_form_make_the_stream_no_basis(tmp_path: Path, version: str, kind: str) -> None:
    line = f'{{"type":"{kind}","data":{{}},"ack":"{kind}|01a1fb7e-0000-7000-8000-000000000000"}}'.encode()
    with side(tmp_path, version) as here:
        _lived(here)
        here.world.sim.faults.add_stream(StreamFault(insert={-1: line}))
        with pytest.raises(StreamUnknown, match=kind):
            here.sync()
        with pytest.raises(StateError, match="not complete"):
            here.rows()
        assert not any(kind in str(ack) for ack in here.world.sim.changes.checkpoints.values())
        here.sync()
        assert here.same()


def test_a_cursor_that_the_server_cannot_read_is_begun_anew_by_the_next_sync(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        here.sync()
        here.world.sim.purge(ids[0])
        with server_cache.server_cache(here.partition) as cache:
            cache.con.execute("UPDATE acks SET ack = 'AssetV2|no position' WHERE type = 'AssetV2'")
        with pytest.raises(StreamUnavailable) as refused:
            here.sync()
        assert refused.value.status == 500
        assert not here.sync().seeded
        assert here.same() and not here.acks_differ()


def test_a_position_that_the_server_refuses_is_begun_anew_at_once(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        here.sync()
        here.world.sim.purge(ids[0])
        here.world.sim.faults.add("POST", "/api/sync/ack", status=400)
        with server_cache.server_cache(here.partition) as cache:
            cache.con.execute("UPDATE acks SET ack = 'AssetV2|other' WHERE type = 'AssetV2'")
        here.sync()
        assert here.same() and not here.acks_differ()


def test_a_new_session_goes_on_where_the_cache_is(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.sync()
        here.world.add("next", 1)
        here.token = SecretStr(here.world.sim.add_session(here.world.user))
        assert here.sync().events == 2
        assert here.same() and not here.acks_differ()


def test_a_cache_from_a_backup_moves_the_cursor_back_to_what_it_holds(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        here.sync()
        kept = (here.partition.path / server_cache.FILE).read_bytes()
        here.world.sim.purge(ids[0])
        here.world.add("next", 1)
        here.sync()
        (here.partition.path / server_cache.FILE).write_bytes(kept)
        assert here.sync().events == 3
        assert here.same()


def test_a_cursor_that_rested_for_a_month_is_not_trusted(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        here.world.sim.faults.add_stream(StreamFault(cut_after_lines=4))  # no complete, so the server sees no age
        with pytest.raises(StreamUnavailable):
            here.sync()
        here.world.sim.purge(ids[0])
        here.world.sim.changes.deletions.clear()
        here.now += timedelta(days=31)
        here.sync()
        assert here.same()


def test_another_accounts_session_fills_no_cache(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        other = here.world.sim.add_user("Bo", "bo@example.com")
        here.world.sim.add_asset(other, file_name="b", checksum=_checksum("b"))
        here.token = SecretStr(here.world.sim.add_session(other))
        with pytest.raises(StreamForeign):
            here.sync()
        with server_cache.server_cache(here.partition) as cache:
            assert server_cache.stored_acks(cache) == {}


def test_nothing_is_acknowledged_after_an_error(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.world.sim.faults.add_stream(StreamFault(insert={3: WRONG_DATA}))
        with pytest.raises(StreamDataError):
            here.sync()
        asked = [r.path for r in here.world.sim.requests if "sync" in r.path]
        assert asked.count("/api/sync/stream") == 1
        assert asked[asked.index("/api/sync/stream") :].count("/api/sync/ack") == 3
        assert not here.acks_differ()


def test_the_batch_of_the_stream_is_what_the_cache_takes() -> None:
    from server.stream_parse import Batch

    assert {field.name for field in dataclasses.fields(Batch)} >= {"upserts", "deletes", "acks", "complete", "events"}


def test_a_batch_is_durable_before_it_is_acknowledged(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.world.sim.faults.add("POST", "/api/sync/ack", status=500, times=9)
        with pytest.raises(StreamUnavailable):
            here.sync()
        with server_cache.server_cache(here.partition) as cache:
            assert server_cache.stored_acks(cache)
