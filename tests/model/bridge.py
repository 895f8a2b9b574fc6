"""Carries a world of the model into DuckDB, lets the engine work on it, and reads the outcome back.

No rule lives here. Every call leaves the connection's tables as it found them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.changes import apply_local_changes
from engine.collapse import losses
from engine.decide import classify, diff, matched, scope_filter
from engine.memory import memory
from engine.policy import LocalFacts, Loss, Policy
from engine.relations import CANDIDATES, DECISION, LOCAL, MEMORY, SERVER
from tests.model.world import (
    NOTHING_BESIDE,
    Beside,
    Confirmed,
    Decision,
    Id,
    LocalRow,
    Observed,
    Remembered,
    Retired,
    Scene,
    ServerAsset,
    State,
)

SCHEMA = Path(__file__).parents[2] / "state" / "schema.sql"
BEFORE = datetime(2020, 1, 1)  # noqa: DTZ001 - the state's timestamps carry no zone


@dataclass(frozen=True, slots=True)
class Outcome:
    """What sections 2 to 4 gave: asset ids of the candidates before and after the scope filter, and the decisions."""

    candidates: list[str]
    scoped: list[str]
    decisions: list[Decision]
    matched: int


def open_database() -> duckdb.DuckDBPyConnection:
    """An empty partition in memory, with tables for the relations that the steps hand each other."""
    con = duckdb.connect(config={"threads": 1})
    con.execute(SCHEMA.read_text())
    relations = (("local", LOCAL), ("server", SERVER), ("memory", MEMORY), ("candidates", CANDIDATES))
    for name, schema in (*relations, ("scoped", CANDIDATES)):
        con.register("empty", schema.empty_table())
        con.execute(f"CREATE TABLE {name} AS FROM empty")
        con.unregister("empty")
    con.execute("CREATE TABLE names (checksum VARCHAR, file_name VARCHAR)")
    con.execute("CREATE TABLE handed_over (library_id VARCHAR, local_id VARCHAR)")
    con.execute("CREATE TABLE trashed_here (checksum VARCHAR, trashed_at TIMESTAMP)")
    return con


@contextmanager
def scratch(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction that is always rolled back."""
    con.begin()
    try:
        yield
    finally:
        con.rollback()


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        values = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
        con.execute(f"INSERT INTO {table} VALUES {values}", [value for row in rows for value in row])


def _local(row: LocalRow) -> tuple[Any, ...]:
    identity = f"{row.library_id}:{row.local_id}:{row.part}"
    place = (row.library_id, row.local_id, row.part, row.checksum)
    return (*place, row.file_name, row.size, 1, identity, row.captured_at, sorted(row.albums), row.in_trash)


def load_state(con: duckdb.DuckDBPyConnection, state: State) -> None:
    insert(con, "observed", [(c, sorted(o.albums), o.first_observed_at) for c, o in state.observed.items()])
    insert(con, "confirmed_deleted", [(c, entry.at, entry.cause) for c, entry in state.confirmed.items()])
    insert(con, "edit_anchors", [(*i, checksum) for i, anchors in state.anchors.items() for checksum in anchors])
    insert(con, "retired", [(r.checksum, r.library_id, r.local_id, r.run_id) for r in state.retired])
    insert(con, "exclusions", [(c, at, "", "") for c, at in state.exclusions.items()])
    insert(con, "detached", [(c, "old", BEFORE) for c in state.detached])
    insert(con, "local_index", [_local(row) for row in state.index])
    insert(con, "file_only", [(c,) for c in state.file_only])


def load_rows(con: duckdb.DuckDBPyConnection, rows: Iterable[LocalRow]) -> None:
    insert(con, "local", [_local(row) for row in rows])


def load_server(con: duckdb.DuckDBPyConnection, server: Iterable[ServerAsset]) -> None:
    insert(
        con,
        "server",
        [
            (
                *(a.asset_id, a.owner_id, a.checksum, a.file_name, a.live_photo_video_id, a.visibility, a.is_trashed),
                *("IMAGE", a.library_id, a.captured_at, a.local_captured_at, False),
            )
            for a in server
        ],
    )


def load_memory(con: duckdb.DuckDBPyConnection, known: dict[str, Remembered]) -> None:
    insert(
        con,
        "memory",
        [
            (
                *(c, m.observed, sorted(m.albums), m.confirmed_at, m.cause, m.excluded_at, m.anchored, m.retired),
                *(m.detached, "L1" if m.indexed else None, sorted(m.names)),
            )
            for c, m in known.items()
            if m != Remembered()  # of what nothing is remembered there is no row
        ],
    )


def _unique(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    assert len({row[0] for row in rows}) == len(rows), f"a checksum occurs twice: {rows}"
    return rows


def _set(values: Sequence[str]) -> frozenset[str]:
    assert len(set(values)) == len(values), f"a value occurs twice: {values}"
    return frozenset(values)


def read_state(con: duckdb.DuckDBPyConnection) -> State:
    """The tables as the model's state. Raises AssertionError where a table says something twice."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        return con.execute(query).fetchall()

    anchors: dict[Id, list[str]] = {}
    for library_id, local_id, checksum in rows("SELECT library_id, local_id, checksum FROM edit_anchors"):
        anchors.setdefault((library_id, local_id), []).append(checksum)
    index = rows(
        "SELECT library_id, local_id, part, checksum, file_name, captured_at, albums, size, in_trash, modified_ns,"
        " file_identity FROM local_index"
    )
    assert len({row[:3] for row in index}) == len(index), f"a part is indexed twice: {index}"
    assert all(row[9:] == (1, ":".join(row[:3])) for row in index)
    return State(
        observed={
            c: Observed(_set(albums), at)
            for c, albums, at in _unique(rows("SELECT checksum, albums, first_observed_at FROM observed"))
        },
        confirmed={
            c: Confirmed(at, cause)
            for c, at, cause in _unique(rows("SELECT checksum, confirmed_at, cause FROM confirmed_deleted"))
        },
        anchors={local_id: _set(checksums) for local_id, checksums in anchors.items()},
        retired=frozenset(Retired(*row) for row in rows("SELECT checksum, library_id, local_id, run_id FROM retired")),
        exclusions=dict(_unique(rows("SELECT checksum, excluded_at FROM exclusions"))),
        detached=frozenset(row[0] for row in _unique(rows("SELECT checksum FROM detached"))),
        index=frozenset(
            LocalRow(row[0], row[1], row[2], row[3], row[4], row[5], _set(row[6]), row[7], row[8]) for row in index
        ),
        file_only=frozenset(row[0] for row in _unique(rows("SELECT checksum FROM file_only"))),
    )


def _columns(relation: duckdb.DuckDBPyRelation, schema: pa.Schema) -> None:
    assert list(relation.columns) == schema.names


def read_memory(relation: duckdb.DuckDBPyRelation) -> dict[str, Remembered]:
    _columns(relation, MEMORY)
    return {
        r[0]: Remembered(
            r[1], _set(r[2] or []), r[3], r[4], r[5], r[6], r[7], r[8], r[9] is not None, _set(r[10] or [])
        )
        for r in _unique(relation.fetchall())
    }


def merge(
    con: duckdb.DuckDBPyConnection,
    state: State,
    rows: Iterable[LocalRow],
    facts: LocalFacts,
    names: Iterable[tuple[str, str]] = (),
    beside: Beside = NOTHING_BESIDE,
) -> tuple[State, dict[str, Remembered]]:
    """Section 1 by the engine: the state afterwards, and what is then remembered."""
    with scratch(con):
        load_state(con, state)
        load_rows(con, rows)
        insert(con, "names", list(names))
        insert(con, "handed_over", sorted(beside.handed_over))
        insert(con, "trashed_here", list(beside.trashed_here.items()))
        apply_local_changes(con, facts)
        return read_state(con), read_memory(memory(con, facts))


def count_losses(con: duckdb.DuckDBPyConnection, scene: Scene, accepted: set[Id]) -> tuple[Loss, ...]:
    """What the rail `collapse` counts, by the engine."""
    with scratch(con):
        load_state(con, scene.state)
        load_rows(con, scene.rows)
        insert(con, "handed_over", sorted(scene.beside.handed_over))
        insert(con, "accepted_losses", sorted(accepted))
        return losses(con)


def decide(
    con: duckdb.DuckDBPyConnection,
    known: dict[str, Remembered],
    rows: Iterable[LocalRow],
    server: Iterable[ServerAsset],
    policy: Policy,
) -> Outcome:
    """Sections 2 to 4 by the engine."""
    with scratch(con):
        load_memory(con, known)
        load_rows(con, rows)
        load_server(con, server)
        found = diff(con, policy)
        _columns(found, CANDIDATES)
        found.insert_into("candidates")
        kept = scope_filter(con, policy)
        _columns(kept, CANDIDATES)
        kept.insert_into("scoped")
        decided = classify(con, policy)
        _columns(decided, DECISION)
        ids = [con.execute(f"SELECT asset_id FROM {t} ORDER BY ALL").fetchall() for t in ("candidates", "scoped")]
        return Outcome(
            candidates=[row[0] for row in ids[0]],
            scoped=[row[0] for row in ids[1]],
            decisions=sorted(
                (Decision(r[0], r[1], r[7], r[8], *r[9:]) for r in decided.fetchall()), key=lambda d: d.asset_id
            ),
            matched=matched(con, policy),
        )
