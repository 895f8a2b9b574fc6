"""Of whose deletion the libraries here can tell, and of whose they cannot (docs/rules.md, rules 1.9 to 1.11).

What cannot be vouched for is *detached*: shown for review, never trashed by itself. Works in place on a partition's
tables; the other rules of section 1 are in engine.changes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

DETACH = """
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT checksum, min(library_id), $now FROM (
        SELECT checksum, library_id FROM local_index SEMI JOIN handed_over USING (library_id, local_id)
        UNION SELECT checksum, library_id FROM edit_anchors SEMI JOIN handed_over USING (library_id, local_id)
        UNION SELECT checksum, library_id FROM retired SEMI JOIN handed_over USING (library_id, local_id)
    )
    ANTI JOIN detached USING (checksum)
    GROUP BY checksum;
"""

FORGET = """
DELETE FROM {table} USING handed_over h WHERE {table}.library_id = h.library_id AND {table}.local_id = h.local_id;
"""

FILE_ONLY = """
DELETE FROM detached WHERE checksum IN (SELECT checksum FROM file_only);
INSERT INTO file_only
    SELECT DISTINCT checksum FROM local WHERE checksum IS NOT NULL AND checksum NOT IN (SELECT checksum FROM observed)
    EXCEPT SELECT checksum FROM file_only;
"""

IN_LIBRARIES = """
DELETE FROM file_only WHERE checksum IN (SELECT checksum FROM local WHERE checksum IS NOT NULL);
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT DISTINCT checksum, '', $now FROM file_only ANTI JOIN detached USING (checksum);
"""

TRASHED_HERE = """
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT t.checksum, '', max(t.trashed_at) FROM trashed_here t
    ANTI JOIN (SELECT checksum FROM local WHERE checksum IS NOT NULL) alive ON alive.checksum = t.checksum
    ANTI JOIN detached d ON d.checksum = t.checksum
    ANTI JOIN confirmed_deleted c ON c.checksum = t.checksum AND c.confirmed_at > t.trashed_at
    GROUP BY t.checksum;
"""


def hand_over(con: duckdb.DuckDBPyConnection, now: datetime) -> None:
    """Rule 1.9, for the ids in ``handed_over`` (library_id, local_id)."""
    con.execute(DETACH, {"now": now})
    for table in ("local_index", "edit_anchors", "retired"):
        con.execute(FORGET.format(table=table))


def note_file_only(con: duckdb.DuckDBPyConnection, now: datetime, *, change_log: bool) -> None:
    """Rule 1.10. Reads ``local``."""
    for statement in filter(str.strip, (IN_LIBRARIES if change_log else FILE_ONLY).split(";")):
        con.execute(statement, {"now": now} if "$now" in statement else {})


def note_trashed(con: duckdb.DuckDBPyConnection) -> None:
    """Rule 1.11. Reads ``local`` and ``trashed_here`` (checksum, trashed_at)."""
    con.execute(TRASHED_HERE)
