"""Checksums that the user protected from all runs (spec, Exclusion entry). Works while a run holds the partition.

Which candidates an exclusion drops is the engine's; how exclusions stand in the journal is exclusion_log.py's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from engine.errors import UsageError
from state.db import insert_exclusions, reading, writing
from state.exclusion_log import Exclusion, added, removed, replayed
from state.journal import append, stream
from state.lock import file_lock
from state.partition import Partition

if TYPE_CHECKING:
    import duckdb

# 20 bytes in base64: the last of the 27 digits has two bits to spare, which are zero.
CHECKSUM = re.compile(r"[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=")
# A delete request can take this long, and the exclusion waits for its end.
_LOCK_SECONDS = 150.0


def add(
    partition: Partition,
    checksums: Iterable[str],
    reason: str,
    now: datetime,
    *,
    file_names: Mapping[str, str] | None = None,
    run_id: str | None = None,
    renew: bool = False,
) -> int:
    """Protects the checksums; returns how many were not protected before. ``now`` is UTC without a zone.

    A checksum that is protected already keeps its date. With ``renew`` it gets a new one: the user saw that it was
    deleted again, and wants to keep it (docs/rules.md, section 4, line 1). When this returns, no DELETE that leaves
    afterwards has them (design, Invariants, 4). Raises UsageError for what is no checksum; then none is added.
    """
    wanted = _checked(checksums)
    names = file_names or {}
    with _locked(partition), writing(partition) as con:
        before = _among(con, wanted)
        fresh = [c for c in wanted if renew or c not in before]
        rows = [Exclusion(c, now, reason, names.get(c, "")) for c in fresh]
        if rows:
            _delete(con, fresh)
            insert_exclusions(con, rows)
            append(partition, [added(rows, now, run_id)])  # not on record: not done
    return len(set(wanted) - before)


def remove(partition: Partition, checksums: Iterable[str], now: datetime) -> int:
    """Lifts the protection; returns of how many. Raises UsageError for what is no checksum."""
    wanted = _checked(checksums)
    with _locked(partition), writing(partition) as con:
        standing = sorted(_among(con, wanted))
        if standing:
            _delete(con, standing)
            append(partition, [removed(standing, now)])
    return len(standing)


def list_exclusions(partition: Partition) -> list[Exclusion]:
    """Every exclusion, the oldest first."""
    with reading(partition) as con:
        rows = con.execute(
            "SELECT checksum, excluded_at, reason, file_name FROM exclusions ORDER BY excluded_at, checksum"
        ).fetchall()
    return [Exclusion(*row) for row in rows]


@contextlib.contextmanager
def held_exclusions(partition: Partition) -> Iterator[frozenset[str]]:
    """The excluded checksums, which cannot change inside the block: a DELETE request leaves within it.

    What the journal has counts too: the database may be one that was put back from a backup.
    An exclusion made before is in the set; one made during the block waits for its end. Keep it to one request.
    """
    with _locked(partition):
        with reading(partition) as con:
            rows = con.execute("SELECT checksum FROM exclusions").fetchall()
        recorded = replayed(line.record for line in stream(partition) if line.record is not None)
        yield frozenset(row[0] for row in rows) | {exclusion.checksum for exclusion in recorded}


def _checked(checksums: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(checksums))
    for checksum in wanted:
        if not CHECKSUM.fullmatch(checksum):
            raise UsageError(f"{checksum!r} is not a base64 SHA-1.", "A checksum has 28 characters and ends in '='.")
    return wanted


def _among(con: duckdb.DuckDBPyConnection, checksums: list[str]) -> set[str]:
    rows = con.execute(
        "SELECT checksum FROM exclusions SEMI JOIN (SELECT unnest(?) AS checksum) USING (checksum)", [checksums]
    )
    return {row[0] for row in rows.fetchall()}


def _delete(con: duckdb.DuckDBPyConnection, checksums: list[str]) -> None:
    con.execute("DELETE FROM exclusions WHERE checksum IN (SELECT unnest(?))", [checksums])


def _locked(partition: Partition) -> contextlib.AbstractContextManager[None]:
    return file_lock(partition.path / "exclusions.lock", _LOCK_SECONDS, why="a deletion is being sent")
