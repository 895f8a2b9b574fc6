"""A partition's database: made from schema.sql, migrated, opened for one step at a time. Rules are elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from state.duck import built, lock_of, opened, transaction
from state.errors import StateCorrupt, StateTooNew
from state.exclusion_log import ADDED, REMOVED, Exclusion, replayed
from state.files import ensure_folder
from state.journal import Record, stream
from state.partition import Partition
from state.runs import HISTORY_LOST

if TYPE_CHECKING:
    import duckdb

SCHEMA_VERSION = 2
# The SQL that leads from each version to the next.
MIGRATIONS: Mapping[int, str] = {
    1: """
    CREATE TABLE IF NOT EXISTS file_only (checksum VARCHAR NOT NULL);
    CREATE TABLE accepted_losses (library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL);
    ALTER TABLE local_index ADD COLUMN in_trash BOOLEAN DEFAULT false;
    ALTER TABLE libraries ADD COLUMN snapshot BIGINT DEFAULT 0;
    """,
}

_SCHEMA = Path(__file__).with_name("schema.sql")
_ADVICE = (
    "Move it out of that folder and run it again: your exclusions come back from the journal, and the next run counts "
    "as a first run."
)


@contextlib.contextmanager
def reading(partition: Partition) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to the partition's database, which is made if missing. Times are UTC.

    Readers admit each other; a writer waits for them, so keep it short, and never write inside it.
    Raises StateCorrupt, StateTooNew, StateUnreadable, StateUnwritable; PartitionBusy after 10 seconds.
    """
    if partition.database.exists():
        with (
            lock_of(partition.database, shared=True),
            opened(partition.database, _ADVICE, read_only=True) as con,
        ):
            if _version(con, partition) == SCHEMA_VERSION:
                yield con
                return
    with writing(partition):
        pass  # makes or migrates it
    with reading(partition) as con:
        yield con


@contextlib.contextmanager
def writing(partition: Partition) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in one transaction: committed when the block ends well, else rolled back. Errors as reading."""
    with lock_of(partition.database, shared=False):
        if not partition.database.exists():
            _create(partition)
        with opened(partition.database, _ADVICE, read_only=False) as con, transaction(con):
            migrate(con, _version(con, partition), SCHEMA_VERSION, MIGRATIONS)
            yield con


def migrate(con: duckdb.DuckDBPyConnection, found: int, target: int, steps: Mapping[int, str]) -> None:
    """Leads a database from version ``found`` to ``target``. The caller holds a transaction."""
    for version in range(found, target):
        con.execute(steps[version])
        con.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", [str(version + 1)])


def _create(partition: Partition) -> None:
    """A fresh database. Beside a journal it is a rebuilt one: exclusions return, the rest is known to be lost."""
    ensure_folder(partition.path)
    decisions: list[Record] = []
    ran = False
    for line in stream(partition):
        if line.record is not None:
            ran = ran or line.record.run_id is not None
            if line.record.decision in (ADDED, REMOVED):
                decisions.append(line.record)
    with built(partition.database) as con, transaction(con):
        con.execute(_SCHEMA.read_text(encoding="utf-8"))
        con.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])
        insert_exclusions(con, replayed(decisions))
        if ran:
            con.execute("INSERT INTO meta VALUES (?, 'the database was rebuilt')", [HISTORY_LOST])


def replay_exclusions(con: duckdb.DuckDBPyConnection, records: Iterable[Record]) -> None:
    """Add the exclusions that stand in the journal and are missing here: the file may have come from a backup."""
    known = {row[0] for row in con.execute("SELECT checksum FROM exclusions").fetchall()}
    insert_exclusions(con, [found for found in replayed(records) if found.checksum not in known])


def insert_exclusions(con: duckdb.DuckDBPyConnection, exclusions: list[Exclusion]) -> None:
    """Adds rows to ``exclusions``; the caller knows that none of the checksums is there."""
    import pyarrow as pa

    if not exclusions:
        return
    rows = pa.table(
        {
            "checksum": [e.checksum for e in exclusions],
            "excluded_at": pa.array([e.excluded_at for e in exclusions], pa.timestamp("us")),
            "reason": [e.reason for e in exclusions],
            "file_name": [e.file_name for e in exclusions],
        }
    )
    con.register("new_exclusions", rows)
    con.execute("INSERT INTO exclusions SELECT checksum, excluded_at, reason, file_name FROM new_exclusions")
    con.unregister("new_exclusions")


def _version(con: duckdb.DuckDBPyConnection, partition: Partition) -> int:
    import duckdb

    try:
        # fetchall: a result that is not read to its end keeps the connection from being used otherwise.
        rows = con.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
        version = int(rows[0][0])
    except (duckdb.CatalogException, IndexError, ValueError):
        raise StateCorrupt(f"{partition.database} is not a database of this program.", _ADVICE) from None
    if version > SCHEMA_VERSION:
        raise StateTooNew(
            f"{partition.database} has the schema version {version}; this program knows {SCHEMA_VERSION}.",
            "Update deletion-sync, and run it again.",
        )
    return version
