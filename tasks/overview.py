"""What `status` shows of a partition: one reading of everything remembered. Nothing is asked of the server.

Every number has its one definition here (lesson 72).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from state import hash_cache, journal, settings_file
from state.db import reading
from state.errors import StateError
from state.home import Home
from state.libraries import registered
from state.lock import holder
from state.partition import Partition
from state.runs import (
    FIRST_DELETE_CONFIRMED,
    FIRST_DRY_RUN,
    HISTORY_LOST,
    STREAM_NOTICE,
    RunRecord,
    get_fact,
    planned,
    runs,
)
from tasks.settle import open_lines

if TYPE_CHECKING:
    import duckdb

MASS_OFFLOAD = 50  # spec, item 14

INDEXED = "SELECT count(*) FROM cached SEMI JOIN observed USING (checksum)"

QUARANTINE = """
SELECT count(*) AS confirmed,
       count(*) FILTER (confirmed_at + to_days($days::INTEGER) > $now) AS held,
       min(confirmed_at + to_days($days::INTEGER)) FILTER (confirmed_at + to_days($days::INTEGER) > $now) AS next_due
FROM confirmed_deleted ANTI JOIN exclusions USING (checksum)
"""

# One run stamps everything that it confirms with the moment at which it began.
OFFLOADS = """
SELECT confirmed_at, count(*) AS confirmed
FROM confirmed_deleted ANTI JOIN exclusions USING (checksum) ANTI JOIN trashed USING (checksum)
WHERE cause <> 'retired'
GROUP BY confirmed_at HAVING count(*) >= $least ORDER BY confirmed_at DESC
"""

OFFLOADED = f"""
SELECT checksum FROM confirmed_deleted
ANTI JOIN exclusions USING (checksum) ANTI JOIN trashed USING (checksum)
SEMI JOIN ({OFFLOADS}) AS offloads USING (confirmed_at)
WHERE cause <> 'retired' ORDER BY checksum
"""


@dataclass(frozen=True, slots=True)
class Offload:
    """Many deletions that one sync confirmed at once, neither protected nor trashed since (spec, item 14)."""

    confirmed_at: datetime
    confirmed: int


@dataclass(frozen=True, slots=True)
class LibraryLine:
    """One registered library. ``enumerated_at`` None: never yet."""

    name: str
    kind: str
    enumerated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the partition's database says. ``held`` of the ``confirmed`` are in quarantine; protected ones count in
    neither. Times are UTC without a zone."""

    observed: int
    confirmed: int
    held: int
    next_due: datetime | None
    exclusions: int
    libraries: tuple[LibraryLine, ...]
    last_run: RunRecord | None
    last_plan: RunRecord | None
    last_plan_applied: bool
    first_dry_run_at: str | None
    first_delete_confirmed_at: str | None
    history_lost: str | None
    stream_notice: str | None  # why the change stream could not be used last
    offloads: tuple[Offload, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """``indexed`` is the Indexed statistic (spec, item 10). ``remembered`` is None where the database cannot be
    read; then ``indexed`` is the plain count of the hash cache, and ``problem`` says why."""

    partition: str
    server_url: str
    user_id: str | None
    indexed: int
    remembered: Remembered | None
    problem: str
    interrupted: dict[str, int]
    in_use_by: str


def overview(home: Home, partition: Partition, now: datetime) -> Overview:
    """Read the partition. ``now`` is UTC without a zone. Raises SettingsError, StateError (of the hash cache)."""
    lines = journal.read(partition).records
    days = settings_file.load(partition).quarantineDays
    cached = hash_cache.cached_checksums(home)
    remembered: Remembered | None = None
    indexed, problem = cached.num_rows, ""
    try:
        with reading(partition) as con:
            con.register("cached", cached)
            indexed = _number(con, INDEXED)
            _register_trashed(con, lines)
            remembered = _remembered(con, journal.finished(lines), days, now)
    except StateError as error:
        problem = str(error)
    used = holder(partition)
    return Overview(
        partition=partition.name,
        server_url=partition.server_url,
        user_id=partition.user_id,
        indexed=indexed,
        remembered=remembered,
        problem=problem,
        interrupted={run_id: len(lines) for run_id, lines in open_lines(partition).items()},
        in_use_by="" if used is None else used.what,
    )


def offloaded(partition: Partition) -> list[str]:
    """The checksums of every mass offload that ``overview`` shows: what one action protects (spec, item 14)."""
    with reading(partition) as con:
        _register_trashed(con, journal.read(partition).records)
        return [checksum for (checksum,) in con.execute(OFFLOADED, {"least": MASS_OFFLOAD}).fetchall()]


def _register_trashed(con: duckdb.DuckDBPyConnection, lines: Sequence[journal.Record]) -> None:
    """The relation ``trashed``: checksums that the journal knows in the trash."""
    import pyarrow as pa

    found = {
        checksum
        for assets in journal.fold(lines).values()
        for line in assets.values()
        if line.status == "trashed"
        for checksum in (line.checksum, line.motion_checksum)
    }
    con.register("trashed", pa.table({"checksum": pa.array(list(found), pa.string())}))


def _remembered(con: duckdb.DuckDBPyConnection, applied: set[str], days: int, now: datetime) -> Remembered:
    confirmed, held, next_due = _row(con, QUARANTINE, {"days": days, "now": now})
    offloads = con.execute(OFFLOADS, {"least": MASS_OFFLOAD}).fetchall()
    newest = runs(con)
    plans = planned(con)
    return Remembered(
        observed=_number(con, "SELECT count(*) FROM observed"),
        confirmed=confirmed,
        held=held,
        next_due=next_due,
        exclusions=_number(con, "SELECT count(*) FROM exclusions"),
        libraries=tuple(LibraryLine(row.label, row.kind, row.enumerated_at) for row in registered(con)),
        last_run=newest[0] if newest else None,
        last_plan=plans[0] if plans else None,
        last_plan_applied=bool(plans) and plans[0].run_id in applied,
        first_dry_run_at=get_fact(con, FIRST_DRY_RUN),
        first_delete_confirmed_at=get_fact(con, FIRST_DELETE_CONFIRMED),
        history_lost=get_fact(con, HISTORY_LOST),
        stream_notice=get_fact(con, STREAM_NOTICE),
        offloads=tuple(Offload(*row) for row in offloads),
    )


def _row(con: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> tuple[Any, ...]:
    rows = con.execute(query, parameters).fetchall()
    return tuple(rows[0])


def _number(con: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(_row(con, query, {})[0])
