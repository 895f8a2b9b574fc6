"""Notices that the database was put back from an older copy: its clocks would count days that it did not see.

A count of merged runs is kept in the database, in a file beside it and in one of the home; the files are written after
the commit. A home that is put back as a whole cannot be told from one that nothing happened to.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
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
PUT_BACK = "the database was put back from an older copy"  # what HISTORY_LOST then says


def count_merge(con: duckdb.DuckDBPyConnection) -> int:
    """Count one more merged run, in the caller's transaction; returns the number for ``mark``."""
    number = _counted(con) + 1
    set_fact(con, MERGES, str(number))
    return number


def mark(partition: Partition, number: int) -> None:
    """Keep the number beside the database and in the home, once it is committed. Raises StateUnwritable."""
    for path in _places(partition):
        write_atomic(path, json.dumps({MERGES: number}).encode())


def heed(partition: Partition, now: datetime) -> bool:
    """Whether the database is older than what was merged last. Then every quarantine begins anew, at ``now`` (UTC
    without a zone), and the next run counts as a first one (docs/rules.md, section 6).

    A mark that is gone or cannot be understood counts as newer: it was written whole, so something else changed it.
    """
    marks = [read_bytes(path) for path in _places(partition)]
    numbers = [None if content is None else _number(content) for content in marks]
    with writing(partition) as con:
        known = _counted(con)
        # One merge may be without marks: the run ended between its commit and them.
        if all(content is None for content in marks) and known <= 1:
            return False
        if all(number is not None and number <= known for number in numbers):
            return False
        con.execute("UPDATE confirmed_deleted SET confirmed_at = $now", {"now": now})
        clear_accepted_losses(con)  # they were of another time
        clear_fact(con, FIRST_DRY_RUN)
        clear_fact(con, FIRST_DELETE_CONFIRMED)
        set_fact(con, HISTORY_LOST, PUT_BACK)
        newest = max(known, *(number or 0 for number in numbers))
        set_fact(con, MERGES, str(newest))
    mark(partition, newest)
    return True


def _places(partition: Partition) -> tuple[Path, Path]:
    """Beside the database, and where a partition that is put back as a whole does not reach."""
    return partition.path / FILE, partition.path.parents[1] / "merges" / f"{partition.name}.json"


def _counted(con: duckdb.DuckDBPyConnection) -> int:
    return int(get_fact(con, MERGES) or 0)


def _number(content: bytes) -> int | None:
    try:
        number = json.loads(content)[MERGES]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) and number >= 0 else None
