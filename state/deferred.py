"""The store of deferred hashes: parts that have no checksum yet, and why. It is global, in the hash cache's file.

When a part is deferred is decided in ``tasks.hash``. An entry goes when its part is hashed (state.hash_cache.remember).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from engine.deferral import FAILED, Reason
from state.hash_cache import with_cache
from state.home import Home

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_FAILED = ", ".join(f"'{code}'" for code in sorted(FAILED))

# An attempt counts for the same size and date only: other bytes deserve as many.
RECORD = f"""
CREATE TEMP TABLE noted AS
SELECT r.library_id, r.local_id, r.part, r.file_name, r.size, r.modified_ns, r.reason,
       coalesce(d.first_deferred_at, $now) AS first_deferred_at,
       CASE WHEN r.reason IN ({_FAILED}) THEN $now ELSE d.last_tried_at END AS last_tried_at,
       CASE WHEN d.size IS NOT DISTINCT FROM r.size AND d.modified_ns IS NOT DISTINCT FROM r.modified_ns
            THEN coalesce(d.attempts, 0) ELSE 0 END + (r.reason IN ({_FAILED}))::INTEGER AS attempts
FROM (SELECT DISTINCT ON (library_id, local_id, part) * FROM rows) r
LEFT JOIN deferred d USING (library_id, local_id, part);
DELETE FROM deferred USING noted n
WHERE deferred.library_id = n.library_id AND deferred.local_id = n.local_id AND deferred.part = n.part;
INSERT INTO deferred BY NAME FROM noted;
DROP TABLE noted;
"""

SWEEP = """
DELETE FROM deferred d
WHERE d.library_id IN (SELECT unnest(?)) AND NOT EXISTS (
    FROM waiting w WHERE w.library_id = d.library_id AND w.local_id = d.local_id AND w.part = d.part
)
"""

# Trying to open what could not be read costs nothing, and repairing its permissions changes neither size nor date.
GIVEN_UP = f"""
SELECT w.library_id, w.local_id, w.part, d.reason
FROM wanted w JOIN deferred d USING (library_id, local_id, part)
WHERE d.reason <> '{Reason.UNREADABLE}' AND d.attempts >= ?
  AND d.size IS NOT DISTINCT FROM w.size AND d.modified_ns IS NOT DISTINCT FROM w.modified_ns
"""


def record(home: Home, rows: pa.Table, now: datetime) -> None:
    """Notes parts that could not be hashed, at once (lessons 28 and 29).

    ``rows`` has library_id, local_id, part, file_name, size, modified_ns and ``reason`` (engine.deferral.Reason).
    ``now`` is UTC without a zone. A part that is known keeps its first date; what a limit kept back is no attempt.
    """

    def work(con: duckdb.DuckDBPyConnection) -> None:
        con.register("rows", rows)
        for statement in RECORD.split(";")[:-1]:
            con.execute(statement, {"now": now} if "$now" in statement else None)

    with_cache(home, work, write=True)


def sweep(home: Home, libraries: Iterable[str], waiting: pa.Table) -> None:
    """Forgets what waits no longer in libraries that were listed whole: it is gone, or has a checksum.

    ``waiting`` holds the listed parts without a checksum (library_id, local_id, part).
    """
    whole = list(libraries)

    def work(con: duckdb.DuckDBPyConnection) -> None:
        con.register("waiting", waiting)
        con.execute(SWEEP, [whole])

    if whole and deferred(home, whole).num_rows:
        with_cache(home, work, write=True)


def given_up(home: Home, wanted: pa.Table, retries: int) -> pa.Table:
    """The rows of ``wanted`` (ENUMERATED) that failed ``retries`` times or more at the size and date that they have:
    library_id, local_id, part, reason. What merely cannot be read is never given up."""

    def work(con: duckdb.DuckDBPyConnection) -> pa.Table:
        con.register("wanted", wanted)
        return con.sql(GIVEN_UP, params=[retries]).to_arrow_table()

    return with_cache(home, work, write=False)


def deferred(home: Home, libraries: Iterable[str]) -> pa.Table:
    """What waits in these libraries, newest facts first: library_id, local_id, part, file_name, size in bytes,
    modified_ns, reason, first_deferred_at, last_tried_at (UTC; null: never tried) and attempts."""
    query = """
    FROM deferred WHERE library_id IN (SELECT unnest(?))
    ORDER BY coalesce(last_tried_at, first_deferred_at) DESC, library_id, local_id, part
    """
    return with_cache(home, lambda con: con.sql(query, params=[list(libraries)]).to_arrow_table(), write=False)
