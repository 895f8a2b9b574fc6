"""The server cache: batches in any split give the same rows, a replay drops what it did not show, damage costs time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.relations import SERVER, TIME
from state import server_cache
from state.errors import StateCorrupt, StateError
from state.home import Home
from state.partition import Partition
from state.server_cache import ServerCache
from tests.state.helpers import NOW, USER, checksum, partition_in

LATER = NOW + timedelta(hours=1)
TEXTS = ("asset_id", "checksum", "owner_id", "file_name", "live_photo_video_id", "visibility", "type", "library_id")
TIMES = ("deleted_at", "file_created_at", "local_date_time", "file_modified_at")
UPSERTS = pa.schema(
    [
        ("position", pa.int64()),
        *((name, pa.string()) for name in TEXTS),
        *((name, TIME) for name in TIMES),
        ("is_favorite", pa.bool_()),
        ("width", pa.int32()),
        ("height", pa.int32()),
    ]
)
DELETES = pa.schema([("position", pa.int64()), ("asset_id", pa.string())])

Event = tuple[int, int | None]  # asset, and the version of it that an upsert shows; None: a delete


@dataclass(frozen=True)
class Told:
    """A batch of the stream, as state sees one."""

    upserts: pa.Table
    deletes: pa.Table
    acks: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    events: int = 0


def uuid_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def shown(number: int, version: int, **changes: Any) -> dict[str, Any]:
    return {
        "asset_id": uuid_of(number), "checksum": checksum(number), "owner_id": USER, "file_name": f"{version}.jpg",
        "live_photo_video_id": None, "deleted_at": None, "visibility": "timeline", "is_favorite": False,
        "type": "image", "file_created_at": NOW, "local_date_time": NOW, "file_modified_at": NOW, "width": 1,
        "height": 1, "library_id": None, **changes,
    }  # fmt: skip


def batch(events: Sequence[Event], *, complete: bool = False, **changes: Any) -> Told:
    upserts = [
        {"position": at, **shown(number, version, **changes)}
        for at, (number, version) in enumerate(events)
        if version is not None
    ]
    deletes = [
        {"position": at, "asset_id": uuid_of(number)} for at, (number, version) in enumerate(events) if version is None
    ]
    acks = {"AssetV1": f"AssetV1|{events[-1]}"} if events else {}
    if complete:
        acks["SyncCompleteV1"] = "SyncCompleteV1|c"
    return Told(
        pa.Table.from_pylist(upserts, UPSERTS),
        pa.Table.from_pylist(deletes, DELETES),
        acks,
        complete,
        len(events) + complete,
    )


def rows(cache: ServerCache) -> dict[str, str]:
    """The file name, which is the version, by asset id."""
    path = cache.path.with_name("out.parquet")
    count = server_cache.server_rows(cache, path)
    table = pq.read_table(path)
    assert table.schema.remove_metadata() == SERVER and len(table) == count
    found = dict(zip(table["asset_id"].to_pylist(), table["file_name"].to_pylist(), strict=True))
    assert len(found) == count, "an asset has one row"
    return found


def expected(events: Sequence[Event]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, version in events:
        found.pop(uuid_of(number), None)
        if version is not None:
            found[uuid_of(number)] = f"{version}.jpg"
    return found


@contextmanager
def fresh() -> Iterator[ServerCache]:
    with TemporaryDirectory() as folder, server_cache.server_cache(partition_in(Home(Path(folder)))) as cache:
        yield cache


EVENTS = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 99)), max_size=25)


@settings(max_examples=40, deadline=None)
@given(EVENTS, EVENTS, st.lists(st.integers(0, 25), max_size=6), st.booleans())
def test_any_split_of_the_stream_into_batches_gives_the_same_cache(
    before: list[Event], events: list[Event], cuts: list[int], again: bool
) -> None:
    with fresh() as cache:
        server_cache.apply(cache, batch(before, complete=True), NOW)
        edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
        for start, end in pairwise(edges):
            server_cache.apply(cache, batch(events[start:end]), LATER)
            if again:  # a crash before the acknowledgement: the same events come again, from here or from the start
                server_cache.apply(cache, batch(events[:end]), LATER)
        server_cache.apply(cache, batch([], complete=True), LATER)
        assert rows(cache) == expected([*before, *events])
        facts = server_cache.facts(cache)
        assert facts.settled == facts.sequence and facts.complete_at == LATER


@settings(max_examples=25, deadline=None)
@given(EVENTS, EVENTS, st.integers(0, 25))
def test_a_full_replay_drops_what_it_did_not_show(before: list[Event], events: list[Event], cut: int) -> None:
    with fresh() as cache:
        server_cache.apply(cache, batch(before, complete=True), NOW)
        server_cache.begin_replay(cache)
        assert server_cache.stored_acks(cache) == {}
        server_cache.apply(cache, batch(events[:cut]), LATER)
        server_cache.apply(cache, batch(events[cut:], complete=True), LATER)
        assert rows(cache) == expected(events)
        server_cache.apply(cache, batch([(77, 1)], complete=True), LATER)
        assert rows(cache) == expected([*events, (77, 1)]), "what comes after a replay drops nothing"


def test_rows_and_acks_are_kept_together_or_not_at_all(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        server_cache.apply(cache, batch([(1, 1)], complete=True), NOW)
        broken = batch([(1, 2), (2, 2)])
        wrong = Told(broken.upserts, pa.table({"position": [5], "asset_id": ["no uuid"]}), {"AssetV1": "new"}, True, 3)
        with pytest.raises(duckdb.Error):
            server_cache.apply(cache, wrong, LATER)
        assert server_cache.stored_acks(cache)["AssetV1"] == "AssetV1|(1, 1)"
        assert rows(cache) == expected([(1, 1)])


def test_an_incomplete_stream_delivers_nothing(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        for step in ("nothing yet", "a batch", "complete", "another batch"):
            if "batch" in step:
                server_cache.apply(cache, batch([(1, 1)]), NOW)
            if step == "complete":
                server_cache.apply(cache, batch([], complete=True), NOW)
                assert rows(cache) == expected([(1, 1)])
            else:
                with pytest.raises(StateError, match="not complete"):
                    rows(cache)


def test_the_last_ack_per_type_is_kept_with_its_moment(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        assert server_cache.is_empty(cache) and not server_cache.is_stale(cache, LATER)
        server_cache.apply(cache, batch([(1, 1)], complete=True), NOW)
        server_cache.apply(cache, batch([(1, 2)]), LATER)
        assert cache.con.execute("SELECT * FROM acks ORDER BY type").fetchall() == [
            ("AssetV1", "AssetV1|(1, 2)", LATER),
            ("SyncCompleteV1", "SyncCompleteV1|c", NOW),
        ]
        assert not server_cache.is_empty(cache)
        assert not server_cache.is_stale(cache, LATER + timedelta(days=30))
        assert server_cache.is_stale(cache, LATER + timedelta(days=30, seconds=1))
        server_cache.wipe(cache)
        assert server_cache.is_empty(cache)


def test_what_a_search_listed_is_delivered_until_the_stream_says_otherwise(partition: Partition) -> None:
    listed = pa.Table.from_pylist(
        [
            {
                "asset_id": uuid_of(n), "owner_id": USER, "checksum": checksum(n), "file_name": "0.jpg",
                "visibility": "timeline", "is_trashed": n == 1, "type": "image", "captured_at": NOW,
                "is_favorite": False,
            }
            for n in (1, 2)
        ],
        SERVER,
    )  # fmt: skip
    with server_cache.server_cache(partition) as cache:
        server_cache.seed(cache, listed, NOW)
        assert not server_cache.is_empty(cache) and server_cache.stored_acks(cache) == {}
        server_cache.apply(cache, batch([(2, 5), (3, 5)], complete=True), LATER)
        assert rows(cache) == expected([(2, 5), (3, 5)])
        assert server_cache.facts(cache).seeded_at == NOW


def test_locked_and_foreign_assets_are_kept_and_not_delivered(partition: Partition) -> None:
    other = "33333333-3333-4333-8333-333333333333"
    with server_cache.server_cache(partition) as cache:
        server_cache.apply(cache, batch([(1, 1)], visibility="locked"), NOW)
        server_cache.apply(cache, batch([(2, 1)], owner_id=other), NOW)
        server_cache.apply(cache, batch([(3, 1)], deleted_at=NOW, complete=True, visibility="hidden"), NOW)
        assert rows(cache) == expected([(3, 1)])
        server_cache.apply(cache, batch([(1, 2)], complete=True), NOW)
        assert rows(cache) == expected([(3, 1), (1, 2)])


def test_two_assets_of_one_checksum_are_two_rows(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        server_cache.apply(cache, batch([(1, 1), (2, 1)], checksum=checksum(9), complete=True), NOW)
        assert len(rows(cache)) == 2
        server_cache.apply(cache, batch([(1, None)], complete=True), NOW)
        assert rows(cache) == expected([(2, 1)])


@pytest.mark.parametrize("damage", ["garbage", "cut", "another database", "another version"])
def test_a_damaged_cache_is_removed_and_begun_anew(partition: Partition, damage: str) -> None:
    with server_cache.server_cache(partition) as cache:
        server_cache.apply(cache, batch([(1, 1)], complete=True), NOW)
        path = cache.path
    if damage == "garbage":
        path.write_bytes(b"\x00garbage" * 1000)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        if damage == "another database":
            path.unlink()
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE x (y INT)" if damage == "another database" else "UPDATE facts SET value = '0'")
    with server_cache.server_cache(partition) as cache:
        assert server_cache.is_empty(cache)
        server_cache.apply(cache, batch([(2, 1)], complete=True), NOW)
        assert rows(cache) == expected([(2, 1)])
    assert not list(path.parent.glob("*damaged*")), "it is only a cache, and may be large"
    assert path.stat().st_mode & 0o777 == 0o600


def test_damage_that_shows_in_use_is_removed_then(partition: Partition) -> None:
    with pytest.raises(StateCorrupt), server_cache.server_cache(partition) as cache:
        raise StateCorrupt("It does not hold what was written to it.")
    assert not cache.path.exists()


def test_an_unknown_user_has_no_cache(home: Home) -> None:
    with pytest.raises(StateError), server_cache.server_cache(partition_in(home, None)):
        raise AssertionError


def test_the_names_in_the_file_are_frozen(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        found = cache.con.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
        assert set(found) == server_cache.COLUMNS
        assert server_cache.VERSION == "1" and server_cache.FILE == "server-cache.duckdb"
        keys = {key for (key,) in cache.con.execute("SELECT key FROM facts").fetchall()}
        assert keys == {"version", "generation", "sequence", "settled"}


def test_lesson_65_applying_a_batch_reads_no_asset_of_the_table(partition: Partition) -> None:
    with server_cache.server_cache(partition) as cache:
        cache.con.register("upserts", batch([(1, 2)]).upserts)
        plan = cache.con.execute(f"EXPLAIN {server_cache.UPSERT}", {"now": NOW, "start": 1}).fetchall()[0][1]
        assert plan.count("Scan") == 1 and "Arrow Scan" in plan
        before = server_cache.facts(cache).settled
        for number in range(3):
            server_cache.apply(cache, batch([(n, number) for n in range(100)]), NOW)
        assert server_cache.facts(cache).settled == before, "the table is gone through when the stream completes, once"
        assert cache.con.execute("SELECT count(*) FROM assets").fetchall() == [(300,)]
        server_cache.apply(cache, batch([], complete=True), NOW)
        assert cache.con.execute("SELECT count(*) FROM assets").fetchall() == [(100,)]
