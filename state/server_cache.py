"""The server-asset cache of a partition: what the change stream told, and how far it was read (spec, item 15).

It is only a cache: a damaged file, or one of another version, is removed and a new one begun. What the stream says
is read elsewhere. Every change of a batch is appended, whatever the table's size (lesson 65); what it supersedes is
removed once, when the stream is complete.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.relations import SERVER
from state.duck import COLUMNS_HERE, built, lock_of, opened, transaction
from state.errors import StateCorrupt, StateError, StateUnwritable
from state.files import ensure_folder, writing_to
from state.partition import Partition

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

FILE = "server-cache.duckdb"
VERSION = "1"
ROW_GROUP = 122_880
MEMORY_LIMIT = "96MB"  # beyond it DuckDB uses the disk
# Deletions older than 31 days are no longer in the stream: a cursor that rested for so long may have missed some.
STALE_AFTER = timedelta(days=30)
_log = logging.getLogger(__name__)
_ADVICE = "It is a cache, and is filled again from the server."

# Names are frozen: tests pin them. No index: rows are appended, looked up and removed in bulk. ``sequence`` numbers the
# events in the order in which they were applied; of several rows of an asset the last one stands. deleted_at is null
# for what a search listed, which does not tell it.
SCHEMA = """
CREATE TABLE assets (
    asset_id UUID NOT NULL, checksum VARCHAR NOT NULL, owner_id VARCHAR NOT NULL, file_name VARCHAR NOT NULL,
    live_photo_video_id UUID, deleted_at TIMESTAMP, is_trashed BOOLEAN NOT NULL, visibility VARCHAR NOT NULL,
    is_favorite BOOLEAN NOT NULL, type VARCHAR NOT NULL, file_created_at TIMESTAMP, local_date_time TIMESTAMP,
    file_modified_at TIMESTAMP, width INTEGER, height INTEGER, library_id VARCHAR,
    last_updated_at TIMESTAMP NOT NULL, sequence BIGINT NOT NULL
);
CREATE TABLE tombstones (asset_id UUID NOT NULL, sequence BIGINT NOT NULL);
CREATE TABLE acks (type VARCHAR PRIMARY KEY, ack VARCHAR NOT NULL, saved_at TIMESTAMP NOT NULL);
CREATE TABLE facts (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
"""

COLUMNS = {
    *(("assets", column) for column in ("asset_id", "checksum", "owner_id", "file_name", "live_photo_video_id")),
    *(("assets", column) for column in ("deleted_at", "is_trashed", "visibility", "is_favorite", "type")),
    *(("assets", column) for column in ("file_created_at", "local_date_time", "file_modified_at", "width", "height")),
    *(("assets", column) for column in ("library_id", "last_updated_at", "sequence")),
    *(("tombstones", column) for column in ("asset_id", "sequence")),
    *(("acks", column) for column in ("type", "ack", "saved_at")),
    *(("facts", column) for column in ("key", "value")),
}

UPSERT = """
INSERT INTO assets
SELECT asset_id, checksum, owner_id, file_name, live_photo_video_id, deleted_at, deleted_at IS NOT NULL, visibility,
       is_favorite, type, file_created_at, local_date_time, file_modified_at, width, height, library_id, $now,
       $start + position
FROM upserts
"""

SEED = """
INSERT INTO assets
SELECT asset_id, checksum, owner_id, file_name, live_photo_video_id, NULL, is_trashed, visibility,
       is_favorite, type, captured_at, local_captured_at, NULL, NULL, NULL, library_id, $now,
       $start + row_number() OVER () - 1
FROM listed
"""

# The last word on each asset that was spoken of since the last time, and what it supersedes.
LATEST = """
CREATE OR REPLACE TEMP TABLE latest AS
SELECT asset_id, max(sequence) AS sequence
FROM (SELECT asset_id, sequence FROM assets WHERE sequence >= $settled UNION ALL FROM tombstones)
GROUP BY asset_id
"""
SUPERSEDED = """
DELETE FROM assets USING latest
WHERE assets.asset_id = latest.asset_id AND assets.sequence < latest.sequence
"""

ROWS = """
SELECT asset_id::VARCHAR AS asset_id, owner_id, checksum, file_name,
       live_photo_video_id::VARCHAR AS live_photo_video_id, visibility, is_trashed, type, library_id,
       file_created_at AS captured_at, local_date_time AS local_captured_at, is_favorite
FROM assets
WHERE owner_id = $owner AND visibility <> 'locked'
"""

# What the server counts too: untrashed assets in timeline and archive, whatever library they are in.
COUNTS = """
SELECT count(*) FILTER (type = 'image'), count(*) FILTER (type = 'video'), count(*)
FROM assets
WHERE owner_id = $owner AND NOT is_trashed AND visibility IN ('timeline', 'archive')
"""


class Changes(Protocol):
    """A batch of the stream: upserts and deletes with their ``position`` from 0 to ``events`` - 1, and the last
    acknowledgement per entity type. ``complete``: the stream ended with it."""

    @property
    def upserts(self) -> pa.Table: ...

    @property
    def deletes(self) -> pa.Table: ...

    @property
    def acks(self) -> Mapping[str, str]: ...

    @property
    def complete(self) -> bool: ...

    @property
    def events(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """``generation`` counts the full replays. ``replay_from``: the sequence at which one that is not complete began.

    ``settled``: up to there, superseded rows are removed. Moments are UTC without a zone.
    """

    seeded_at: datetime | None
    complete_at: datetime | None
    generation: int
    replay_from: int | None
    sequence: int
    settled: int


@dataclass(frozen=True, slots=True)
class ServerCache:
    """An open cache. It is one process's alone until it is closed."""

    path: Path
    owner_id: str
    con: duckdb.DuckDBPyConnection


@contextlib.contextmanager
def server_cache(partition: Partition) -> Iterator[ServerCache]:
    """The partition's cache, made if missing, and nobody else's until the block ends.

    A file that cannot be opened, or is of another version, is removed and a new one begun, which the log says. Whatever
    DuckDB stumbles over in use is a StateError; after damage the file is removed. Raises StateError, and PartitionBusy
    after 10 seconds.
    """
    import duckdb

    if partition.user_id is None:
        raise StateError("It is not known yet whose photos these are.", "Run `deletion-sync verify` first.")
    path = partition.path / FILE
    ensure_folder(partition.path)
    with lock_of(path, shared=False):
        if path.exists() and not _sound(path):
            _remove(path)
            _log.warning("The server cache could not be used and is begun anew from the server: %s.", path.name)
        try:
            if not path.exists():
                with built(path) as con, transaction(con):
                    con.execute(SCHEMA)
                    _note(con, version=VERSION, generation=0, sequence=0, settled=0)
            with opened(path, _ADVICE, read_only=False, memory_limit=MEMORY_LIMIT) as con:
                yield ServerCache(path, partition.user_id, con)
        except StateCorrupt:
            _remove(path)
            raise
        except duckdb.Error as error:
            if isinstance(error, duckdb.InterruptException) or "KeyboardInterrupt" in str(error):
                raise  # Ctrl-C is no error of the cache's
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                _remove(path)
            raise StateError(f"{path} cannot be used now ({type(error).__name__}).", _ADVICE) from error


def facts(cache: ServerCache) -> Facts:
    """What the cache knows of itself."""
    return _facts(cache.con)


def is_empty(cache: ServerCache) -> bool:
    """Whether there is nothing to go on from: neither rows nor acknowledgements (spec, item 15.1)."""
    return not _any(cache.con, "assets") and not _any(cache.con, "acks")


def stored_acks(cache: ServerCache) -> dict[str, str]:
    """The last acknowledgement per entity type whose events are in the cache."""
    return dict(cache.con.execute("SELECT type, ack FROM acks ORDER BY type").fetchall())


def is_stale(cache: ServerCache, now: datetime) -> bool:
    """Whether the cursor was last moved so long ago that deletions since may no longer be in the stream."""
    ((moved,),) = cache.con.execute("SELECT max(saved_at) FROM acks").fetchall()
    return moved is not None and now - moved > STALE_AFTER


def seed(cache: ServerCache, listed: pa.Table, now: datetime) -> None:
    """Begin with what a search listed (engine.relations.SERVER), and expect a full stream, which has the last word."""
    with transaction(cache.con):
        known = _facts(cache.con)
        _forget(cache.con)
        cache.con.register("listed", listed.select(SERVER.names))
        cache.con.execute(SEED, {"now": now, "start": known.sequence})
        cache.con.unregister("listed")
        _note(cache.con, seeded_at=now, sequence=known.sequence + len(listed))
        _begin_replay(cache.con)


def begin_replay(cache: ServerCache) -> None:
    """Forget the cursor and expect a full stream: rows that it does not show are dropped when it is complete."""
    with transaction(cache.con):
        _begin_replay(cache.con)


def wipe(cache: ServerCache) -> None:
    """Forget every row and acknowledgement: the server asked for it (SyncResetV1). A full stream follows."""
    with transaction(cache.con):
        _forget(cache.con)
        _begin_replay(cache.con)


def apply(cache: ServerCache, batch: Changes, now: datetime) -> None:
    """A batch, with its acknowledgements, in one transaction: all of it is durable, or none.

    Applying events again that were applied before ends in the same rows. With the batch that completes the stream,
    superseded rows go, and those that a full replay did not show (spec, item 15.3 to 15.5).
    """
    con = cache.con
    with transaction(con):
        known = _facts(con)
        if len(batch.upserts):
            con.register("upserts", batch.upserts)
            con.execute(UPSERT, {"now": now, "start": known.sequence})
            con.unregister("upserts")
        if len(batch.deletes):
            con.register("deletes", batch.deletes)
            con.execute(
                "INSERT INTO tombstones SELECT asset_id, $start + position FROM deletes", {"start": known.sequence}
            )
            con.unregister("deletes")
        for kind, ack in batch.acks.items():
            con.execute("INSERT OR REPLACE INTO acks VALUES (?, ?, ?)", [kind, ack, now])
        _note(con, sequence=known.sequence + batch.events)
        if batch.complete:
            _finish(con)
            _note(con, complete_at=now)
        else:
            _drop(con, "complete_at")


def server_rows(cache: ServerCache, path: Path) -> int:
    """Write engine.relations.SERVER as Parquet and return the number of rows: own ones, trashed ones too, locked ones
    never, as the search delivers them (spec, item 15.6 and 15.7). Raises StateError unless the last stream completed.
    """
    if _facts(cache.con).complete_at is None:
        raise StateError("The server cache is not complete.", "List by search instead.")
    import pyarrow.parquet as pq

    # In the order of the events, so that an unchanged cache gives the same bytes.
    found = cache.con.sql(ROWS, params={"owner": cache.owner_id}).to_arrow_reader(ROW_GROUP)
    rows = 0
    with writing_to(path), pq.ParquetWriter(path, SERVER, compression="zstd") as parquet:
        for group in found:
            parquet.write_batch(group.cast(SERVER))
            rows += len(group)
    path.chmod(0o600)
    return rows


def counts(cache: ServerCache) -> tuple[int, int, int]:
    """Images, videos, and assets of any type that are untrashed and in timeline or archive, as the server counts."""
    ((images, videos, total),) = cache.con.execute(COUNTS, {"owner": cache.owner_id}).fetchall()
    return images, videos, total


def _finish(con: duckdb.DuckDBPyConnection) -> None:
    """The end of a stream: one row per asset, and after a full replay only those that it showed."""
    known = _facts(con)
    if known.sequence > known.settled:
        con.execute(LATEST, {"settled": known.settled})
        con.execute(SUPERSEDED)
        con.execute("DROP TABLE latest")
        con.execute("DELETE FROM tombstones")
    if known.replay_from is not None:
        con.execute("DELETE FROM assets WHERE sequence < ?", [known.replay_from])
        _drop(con, "replay_from")
    _note(con, settled=known.sequence)


def _begin_replay(con: duckdb.DuckDBPyConnection) -> None:
    known = _facts(con)
    con.execute("DELETE FROM acks")
    _drop(con, "complete_at")
    _note(con, replay_from=known.sequence, generation=known.generation + 1)


def _forget(con: duckdb.DuckDBPyConnection) -> None:
    for table in ("assets", "tombstones", "acks"):
        con.execute(f"DELETE FROM {table}")
    for key in ("seeded_at", "complete_at"):
        _drop(con, key)


def _facts(con: duckdb.DuckDBPyConnection) -> Facts:
    found = dict(con.execute("SELECT key, value FROM facts").fetchall())

    def moment(key: str) -> datetime | None:
        return datetime.fromisoformat(found[key]) if key in found else None

    return Facts(
        moment("seeded_at"),
        moment("complete_at"),
        int(found["generation"]),
        int(found["replay_from"]) if "replay_from" in found else None,
        int(found["sequence"]),
        int(found["settled"]),
    )


def _note(con: duckdb.DuckDBPyConnection, **values: object) -> None:
    for key, value in values.items():
        text = value.isoformat() if isinstance(value, datetime) else str(value)
        con.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", [key, text])


def _drop(con: duckdb.DuckDBPyConnection, key: str) -> None:
    con.execute("DELETE FROM facts WHERE key = ?", [key])


def _any(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    return bool(con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())


def _sound(path: Path) -> bool:
    """Whether the file opens, and is a cache of this version. Raises StateUnwritable for a full disk."""
    import duckdb

    try:
        with opened(path, _ADVICE, read_only=False) as con:
            found = con.execute("SELECT value FROM facts WHERE key = 'version'").fetchall()
            columns = con.execute(COLUMNS_HERE).fetchall()
    except StateUnwritable:
        raise
    except (StateError, duckdb.Error):
        return False
    return found == [(VERSION,)] and set(columns) == COLUMNS


def _remove(path: Path) -> None:
    """With its write-ahead log, which must not be replayed into the next one. Raises StateUnwritable."""
    with writing_to(path):
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
