"""Notices that the database was put back from an older copy: its clocks would count days that it did not see.

A count of merged runs is kept twice, in the database and in a file beside it; the file is written after the commit.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from state.db import writing
from state.files import read_bytes, write_atomic
from state.libraries import clear_accepted_losses
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, FIRST_DRY_RUN, HISTORY_LOST, clear_fact, get_fact, set_fact

if TYPE_CHECKING:
    import duckdb

MERGES = "merges"  # the fact, and the key in the file
FILE = "merges.json"


def count_merge(con: duckdb.DuckDBPyConnection) -> int:
    """Count one more merged run, in the caller's transaction; returns the number for ``mark``."""
    number = _counted(con) + 1
    set_fact(con, MERGES, str(number))
    return number


def mark(partition: Partition, number: int) -> None:
    """Keep the number beside the database, once it is committed. Raises StateUnwritable."""
    write_atomic(partition.path / FILE, json.dumps({MERGES: number}).encode())


def heed(partition: Partition, now: datetime) -> bool:
    """Whether the database is older than what was merged last. Then every quarantine begins anew, at ``now`` (UTC
    without a zone), and the next run counts as a first one (docs/rules.md, section 5).

    A file that cannot be understood counts as newer: it was written whole, so something else changed it.
    """
    kept = read_bytes(partition.path / FILE)
    if kept is None:
        return False
    number = _number(kept)
    with writing(partition) as con:
        known = _counted(con)
        if number is not None and number <= known:
            return False
        con.execute("UPDATE confirmed_deleted SET confirmed_at = $now", {"now": now})
        clear_accepted_losses(con)  # they were of another time
        clear_fact(con, FIRST_DRY_RUN)
        clear_fact(con, FIRST_DELETE_CONFIRMED)
        set_fact(con, HISTORY_LOST, "the database was put back from an older copy")
        set_fact(con, MERGES, str(max(known, number or 0)))
    mark(partition, max(known, number or 0))
    return True


def _counted(con: duckdb.DuckDBPyConnection) -> int:
    return int(get_fact(con, MERGES) or 0)


def _number(content: bytes) -> int | None:
    try:
        number = json.loads(content)[MERGES]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) and 0 <= number < 2**53 else None
