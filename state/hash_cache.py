"""The global hash cache: what was hashed is not read again, and every file name ever seen of a content is kept.

It is keyed by content and local id, and knows no account; whose photos they are is the partition's. It is only a
cache: a damaged file is set aside and a new one begun. The store of deferred hashes in it lives in ``state.deferred``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.relations import LOCAL
from state.duck import COLUMNS_HERE, built, lock_of, opened, set_aside_database, transaction
from state.errors import StateCorrupt
from state.files import ensure_folder
from state.home import Home

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_ADVICE = "It is set aside, and every file is hashed again."

# Parts that have no checksum yet (state.deferred). last_tried_at is null, and attempts 0, for what a limit kept back.
DEFERRED = """
CREATE TABLE deferred (
    library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, part VARCHAR NOT NULL, file_name VARCHAR NOT NULL,
    size BIGINT, modified_ns BIGINT, reason VARCHAR NOT NULL, first_deferred_at TIMESTAMP NOT NULL,
    last_tried_at TIMESTAMP, attempts INTEGER NOT NULL
);
"""

# Names are frozen: tests pin them. No index: the tables are read and written in bulk.
SCHEMA = f"""
CREATE TABLE hashes (
    library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, part VARCHAR NOT NULL, checksum VARCHAR NOT NULL,
    size BIGINT, modified_ns BIGINT, file_identity VARCHAR, captured_at TIMESTAMP, content_id VARCHAR
);
CREATE TABLE names (checksum VARCHAR NOT NULL, file_name VARCHAR NOT NULL);
{DEFERRED}
"""

# From the first layout to this one: nobody hashes a terabyte again for a column.
MIGRATION = f"""
ALTER TABLE hashes ADD COLUMN content_id VARCHAR;
{DEFERRED}
"""

_FIRST = {("names", "checksum"), ("names", "file_name")} | {
    ("hashes", column)
    for column in (
        *("library_id", "local_id", "part", "checksum"),
        *("size", "modified_ns", "file_identity", "captured_at"),
    )
}
_EXPECTED = (
    _FIRST
    | {("hashes", "content_id")}
    | {
        ("deferred", column)
        for column in (
            *("library_id", "local_id", "part", "file_name", "size", "modified_ns"),
            *("reason", "first_deferred_at", "last_tried_at", "attempts"),
        )
    }
)

SAME_FILE = """(
    h.file_identity = l.file_identity
    OR split_part(h.file_identity, ':', -1) IS NOT DISTINCT FROM split_part(l.file_identity, ':', -1)
)"""

# Same size, modification date and file: the same bytes (spec, Reconciliation run, 1). The file counts because a photo
# that is moved over another one of its size and second would pass for it. A device's number may change with a mount;
# only what follows it (the inode) is compared. A part that is listed with neither size nor date was put off this
# computer by its platform, not deleted: what was hashed of it before stands.
KNOWN = f"""
h.library_id = l.library_id AND h.local_id = l.local_id AND h.part = l.part AND (
    (h.size = l.size AND h.modified_ns = l.modified_ns AND {SAME_FILE}
        AND (l.checksum IS NULL OR l.checksum = h.checksum))
    OR (l.size IS NULL AND l.modified_ns IS NULL AND l.checksum IS NULL)
)
"""

# Only what the comparison needs goes through the database, and only the row's number comes back with what it knows.
HITS = f"""
SELECT l.row, coalesce(l.checksum, h.checksum) AS checksum, h.captured_at
FROM listing l
LEFT JOIN hashes h ON {KNOWN}
WHERE coalesce(l.checksum, h.checksum) IS NOT NULL
ORDER BY l.row
"""
COMPARED = ("library_id", "local_id", "part", "size", "modified_ns", "file_identity", "checksum")

CONTENT_IDS = """
SELECT l.library_id, l.local_id, l.part, h.content_id
FROM local l LEFT JOIN hashes h USING (library_id, local_id, part, checksum)
"""

# A write that does not know the capture date of the same bytes must not wipe it.
FRESH = """
CREATE TEMP TABLE fresh AS
SELECT r.library_id, r.local_id, r.part, r.checksum, r.size, r.modified_ns,
       coalesce(r.file_identity, h.file_identity) AS file_identity,
       coalesce(r.captured_at, h.captured_at) AS captured_at, coalesce(r.content_id, h.content_id) AS content_id
FROM (
    SELECT DISTINCT ON (library_id, local_id, part) * FROM rows WHERE checksum IS NOT NULL
    ORDER BY captured_at NULLS LAST, checksum
) r
LEFT JOIN hashes h USING (library_id, local_id, part, checksum)
"""

REPLACE = """
DELETE FROM hashes USING fresh
WHERE hashes.library_id = fresh.library_id AND hashes.local_id = fresh.local_id AND hashes.part = fresh.part
"""

NO_LONGER_DEFERRED = """
DELETE FROM deferred USING fresh
WHERE deferred.library_id = fresh.library_id AND deferred.local_id = fresh.local_id AND deferred.part = fresh.part
"""

NEW_NAMES = """
INSERT INTO names
SELECT DISTINCT checksum, lower(file_name) AS file_name FROM rows
WHERE checksum IS NOT NULL AND file_name IS NOT NULL AND file_name <> ''
EXCEPT SELECT checksum, file_name FROM names
"""

NAME_LISTS = "SELECT checksum, list(file_name ORDER BY file_name) AS names FROM names"


def split(home: Home, listing: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Which rows of a listing are hashed already, and which are to be hashed.

    ``listing`` has the columns of library.protocol.ENUMERATED. The first table is LOCAL (engine.relations): a hit has
    the size and modification date of the cached entry, or its checksum comes from the library itself. The second one
    is ENUMERATED. A file that was only touched is hashed again, and its old entry stays until then.

    A part that is listed without size and date (a photo that is only in the cloud now) keeps the checksum that it had.
    That is safe: the row makes a checksum alive, which protects it, and confirms nothing. Had the part been edited
    meanwhile, it is its old bytes that are protected; the new ones were never observed under it, and what the same
    file name and capture second tell of them goes to review (docs/rules.md, section 4, line 8).
    """

    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.arange(0, listing.num_rows)

    def work(con: duckdb.DuckDBPyConnection) -> pa.Table:
        con.register("listing", listing.select(COMPARED).append_column("row", numbers))
        return con.sql(HITS).to_arrow_table()

    found = with_cache(home, work, write=False)
    rows = found["row"].combine_chunks()
    if rows.equals(numbers):
        known, unknown = listing, listing.slice(0, 0)  # as nearly always: nothing is copied
    else:
        known, unknown = listing.take(rows), listing.filter(pc.invert(pc.is_in(numbers, rows)))
    columns = {name: known[name] for name in known.column_names} | {
        "checksum": found["checksum"], "captured_at": found["captured_at"]
    }  # fmt: skip
    return pa.table([columns[name] for name in LOCAL.names], names=LOCAL.names).cast(LOCAL), unknown


def remember(home: Home, rows: pa.Table) -> None:
    """Keeps the checksums of LOCAL rows, which may have a ``content_id`` too, and adds their names.

    A row without a checksum changes nothing; a part with one is deferred no longer. A capture date or content id that
    is known is not wiped by a row of the same bytes without one (lesson 27).
    """
    import pyarrow as pa

    if "content_id" not in rows.column_names:
        rows = rows.append_column("content_id", pa.nulls(rows.num_rows, pa.string()))

    def work(con: duckdb.DuckDBPyConnection) -> None:
        con.register("rows", rows)
        con.execute(FRESH)
        con.execute(REPLACE)
        con.execute("INSERT INTO hashes BY NAME FROM fresh")
        con.execute(NO_LONGER_DEFERRED)
        con.execute(NEW_NAMES)

    with_cache(home, work, write=True)


def content_ids(home: Home, local: pa.Table) -> pa.Table:
    """``library_id``, ``local_id``, ``part`` and ``content_id`` of LOCAL rows; null: the file has none, was hashed by
    an earlier version, or has no checksum yet."""

    def work(con: duckdb.DuckDBPyConnection) -> pa.Table:
        con.register("local", local)
        return con.sql(CONTENT_IDS).to_arrow_table()

    return with_cache(home, work, write=False)


def remember_names(home: Home, rows: pa.Table) -> None:
    """Adds the names of rows that have ``checksum`` and ``file_name``, lower case. A name is never taken away."""

    def work(con: duckdb.DuckDBPyConnection) -> None:
        con.register("rows", rows)
        con.execute(NEW_NAMES)

    with_cache(home, work, write=True)


def names_for(home: Home, checksums: Iterable[str]) -> pa.Table:
    """``checksum`` and ``names`` (list, lower case, sorted) of those that have a name."""
    wanted = list(checksums)
    query = f"{NAME_LISTS} WHERE checksum IN (SELECT unnest(?)) GROUP BY checksum"
    return with_cache(home, lambda con: con.sql(query, params=[wanted]).to_arrow_table(), write=False)


def export_names(home: Home, path: Path) -> None:
    """Writes ``checksum`` and ``names`` of every content to a Parquet file."""
    query = f"{NAME_LISTS} GROUP BY checksum"
    with_cache(home, lambda con: con.sql(query).write_parquet(str(path), compression="zstd"), write=False)
    path.chmod(0o600)


def cached_checksums(home: Home) -> pa.Table:
    """The distinct checksums of the cache, one column ``checksum`` (spec, item 10: the Indexed statistic)."""
    query = "SELECT DISTINCT checksum FROM hashes"
    return with_cache(home, lambda con: con.sql(query).to_arrow_table(), write=False)


def wipe(home: Home) -> None:
    """Forgets every hash, and what was deferred (spec, item 12). The names stay: they protect photos whose bytes
    changed."""
    with_cache(home, lambda con: con.execute("DELETE FROM hashes; DELETE FROM deferred"), write=True)


def with_cache(home: Home, work: Callable[[duckdb.DuckDBPyConnection], _T], *, write: bool) -> _T:
    """Does the work in one transaction; where the file turns out to be damaged, in a new one. For this package."""
    path = home.hash_cache
    ensure_folder(home.root)
    if not path.exists():
        _begin_anew(path, None)
    seen = path.stat().st_ino
    try:
        try:
            return _in_transaction(path, work, write)
        except _OldLayout:
            _in_transaction(path, lambda con: None, write=True)
            return _in_transaction(path, work, write)
    except StateCorrupt:
        _begin_anew(path, seen)
        return _in_transaction(path, work, write)


class _OldLayout(Exception):
    """The file has the first layout, and cannot be changed while it is open for reading."""


def _in_transaction(path: Path, work: Callable[[duckdb.DuckDBPyConnection], _T], write: bool) -> _T:
    with lock_of(path, shared=not write), opened(path, _ADVICE, read_only=not write) as con, transaction(con):
        layout = set(con.execute(COLUMNS_HERE).fetchall())
        if layout == _FIRST and write:
            con.execute(MIGRATION)
        elif layout == _FIRST:
            raise _OldLayout
        elif layout != _EXPECTED:
            raise StateCorrupt(f"{path} is not a hash cache of this program.", _ADVICE)
        return work(con)


def _begin_anew(path: Path, damaged: int | None) -> None:
    """Makes a new file, unless another process was faster. ``damaged`` is the inode of the one to set aside."""
    with lock_of(path, shared=False):
        if path.exists():
            if path.stat().st_ino != damaged:
                return
            _log.warning("The hash cache was damaged and is set aside as %s.", set_aside_database(path).name)
        with built(path) as con, transaction(con):
            con.execute(SCHEMA)
