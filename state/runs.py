"""The record of runs: their folders, what the last successful one saw, and whether a first one happened.

The journal (state.journal) is the audit trail; this table only answers questions that every run asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from engine.runs import run_id
from state.files import ensure_folder

if TYPE_CHECKING:
    import duckdb

FIRST_DRY_RUN = "first_dry_run_at"
FIRST_DELETE_CONFIRMED = "first_delete_confirmed_at"
HISTORY_LOST = "history_lost"
LIBRARIES_CHANGED = "libraries_changed"
STREAM_NOTICE = "stream_notice"  # why the server's change stream could not be used last


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of the ``runs`` table. Counts are None where the run did not get that far; times are UTC."""

    run_id: str
    flow: str
    way: str
    dry_run: bool
    started_at: datetime
    outcome: str
    duration_ms: int | None = None
    rail: str | None = None
    local_count: int | None = None
    server_count: int | None = None
    matched_count: int | None = None
    trashed_count: int | None = None
    plan_digest: str | None = None


COLUMNS = tuple(RunRecord.__slots__)


def create_run_folder(runs_folder: Path, now: datetime, device_id: str) -> str:
    """Make the folder of a new run and return its run id; two runs in one microsecond get two ids."""
    ensure_folder(runs_folder)
    while True:
        name = run_id(now, device_id)
        try:
            (runs_folder / name).mkdir(mode=0o700)
        except FileExistsError:
            now += timedelta(microseconds=1)
        else:
            return name


def record(con: duckdb.DuckDBPyConnection, run: RunRecord) -> None:
    """Insert the run, or replace what is recorded of it."""
    marks = ", ".join("?" for _ in COLUMNS)
    con.execute(
        f"INSERT OR REPLACE INTO runs ({', '.join(COLUMNS)}) VALUES ({marks})", [getattr(run, c) for c in COLUMNS]
    )


def runs(con: duckdb.DuckDBPyConnection, where: str = "true", parameters: tuple[object, ...] = ()) -> list[RunRecord]:
    """Recorded runs that satisfy a condition on the table's columns, newest first."""
    rows = con.execute(
        f"SELECT {', '.join(COLUMNS)} FROM runs WHERE {where} ORDER BY started_at DESC, run_id DESC", list(parameters)
    ).fetchall()
    return [RunRecord(*row) for row in rows]


def planned(con: duckdb.DuckDBPyConnection) -> list[RunRecord]:
    """Reconciliations that made a plan, newest first."""
    return runs(con, "plan_digest IS NOT NULL AND flow <> 'restore'")


def last_server_count(con: duckdb.DuckDBPyConnection) -> int | None:
    """How many server assets the last run that got through its rails saw, or None (spec, Empty-server guard)."""
    rows = con.execute(
        "SELECT server_count FROM runs WHERE server_count IS NOT NULL AND rail IS NULL ORDER BY started_at DESC LIMIT 1"
    ).fetchall()
    return int(rows[0][0]) if rows else None


def get_fact(con: duckdb.DuckDBPyConnection, key: str) -> str | None:
    """A fact of the ``meta`` table, or None."""
    rows = con.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchall()
    return str(rows[0][0]) if rows else None


def set_fact(con: duckdb.DuckDBPyConnection, key: str, value: str, *, keep_first: bool = False) -> None:
    """Write a fact; with ``keep_first`` an existing value stands."""
    con.execute(f"INSERT OR {'IGNORE' if keep_first else 'REPLACE'} INTO meta VALUES (?, ?)", [key, value])


def clear_fact(con: duckdb.DuckDBPyConnection, key: str) -> None:
    con.execute("DELETE FROM meta WHERE key = ?", [key])
