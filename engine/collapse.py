"""How much of each library its listing lost since the last one (docs/rules.md, section 5, rail `collapse`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.policy import Loss

if TYPE_CHECKING:
    import duckdb

LOST = """
WITH held AS (
    SELECT library_id, local_id,
        -- A motion video that is left is no photo that is left.
        coalesce(bool_or(here) FILTER (part NOT IN ('motion', 'original_motion')), bool_or(here)) AS alive
    FROM (SELECT *, checksum IN (SELECT checksum FROM local WHERE checksum IS NOT NULL) AS here FROM local_index)
    GROUP BY library_id, local_id HAVING bool_or(in_trash IS NOT TRUE)
),
lost AS (
    SELECT library_id, local_id FROM held
    ANTI JOIN (SELECT DISTINCT library_id, local_id FROM local) USING (library_id, local_id)
    ANTI JOIN handed_over USING (library_id, local_id)
    WHERE NOT alive
)
"""

LOSSES = f"""{LOST}
SELECT h.library_id, count(*), count(l.local_id), count(a.local_id)
FROM held h LEFT JOIN lost l USING (library_id, local_id)
LEFT JOIN (SELECT DISTINCT library_id, local_id FROM accepted_losses) a
    ON a.library_id = l.library_id AND a.local_id = l.local_id
GROUP BY h.library_id HAVING count(l.local_id) > 0 ORDER BY h.library_id
"""


LOST_FILES = f"""{LOST}
SELECT i.local_id, any_value(i.file_name) FROM local_index i SEMI JOIN lost USING (library_id, local_id)
WHERE i.library_id = $library GROUP BY i.local_id ORDER BY i.local_id
"""


def losses(con: duckdb.DuckDBPyConnection) -> tuple[Loss, ...]:
    """What each library lost, and how much of that a person accepted as meant.

    Reads ``local``, ``local_index`` (before the run's changes), ``handed_over`` and ``accepted_losses``.
    """
    return tuple(Loss(*row) for row in con.execute(LOSSES).fetchall())


def lost_files(con: duckdb.DuckDBPyConnection, library_id: str) -> list[tuple[str, str]]:
    """Local id and a file name of each id that the library lost. Reads what ``losses`` reads."""
    return con.execute(LOST_FILES, {"library": library_id}).fetchall()
