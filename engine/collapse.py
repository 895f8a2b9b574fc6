"""How much of each library its listing lost since the last one (docs/rules.md, section 5, rail `collapse`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.policy import Loss

if TYPE_CHECKING:
    import duckdb

LOST = """
WITH held AS (
    SELECT library_id, local_id, bool_or(checksum IN (SELECT checksum FROM local WHERE checksum IS NOT NULL)) AS alive
    FROM local_index
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
SELECT h.library_id, count(*), count(l.local_id)
FROM held h LEFT JOIN lost l USING (library_id, local_id)
GROUP BY h.library_id HAVING count(l.local_id) > 0 ORDER BY h.library_id
"""


LOST_FILES = f"""{LOST}
SELECT i.local_id, any_value(i.file_name) FROM local_index i SEMI JOIN lost USING (library_id, local_id)
WHERE i.library_id = $library GROUP BY i.local_id ORDER BY i.local_id
"""


def losses(con: duckdb.DuckDBPyConnection, accepted: Mapping[str, int]) -> tuple[Loss, ...]:
    """What each library lost. Reads ``local``, ``local_index`` (before the run's changes) and ``handed_over``.

    ``accepted``: by library id, the loss that a person said is meant.
    """
    rows = con.execute(LOSSES).fetchall()
    return tuple(Loss(library, held, lost, accepted.get(library, 0)) for library, held, lost in rows)


def lost_files(con: duckdb.DuckDBPyConnection, library_id: str) -> list[tuple[str, str]]:
    """Local id and a file name of each id that the library lost. Reads what ``losses`` reads."""
    return con.execute(LOST_FILES, {"library": library_id}).fetchall()
