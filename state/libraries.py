"""The libraries registered in a partition, and what becomes of what they held when one is removed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from engine.errors import UsageError
from state.runs import LIBRARIES_CHANGED, set_fact

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered library. ``config`` is JSON that only its kind understands.

    ``token`` is the change token of the last enumeration whose changes were applied; None: there was none yet.
    """

    library_id: str
    kind: str
    label: str
    config: str
    added_at: datetime
    token: str | None = None
    enumerated_at: datetime | None = None


# What the removed library held is neither alive nor deleted: a person looks at it (docs/rules.md, line 4). What another
# library holds too is alive at its next enumeration, and detached no more; its index may be old and proves nothing.
DETACH = """
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT DISTINCT checksum, $library, $now FROM (
        SELECT checksum FROM local_index WHERE library_id = $library
        UNION SELECT checksum FROM edit_anchors WHERE library_id = $library
        UNION SELECT checksum FROM retired WHERE library_id = $library
    )
    ANTI JOIN detached USING (checksum)
"""

HELD_ALONE = """
SELECT count(DISTINCT checksum) FROM local_index
    ANTI JOIN (SELECT checksum FROM local_index WHERE library_id <> $library) USING (checksum)
    WHERE library_id = $library
"""


def add(con: duckdb.DuckDBPyConnection, library: Registered) -> None:
    """Register a library. Raises UsageError when its id is taken."""
    if any(known.library_id == library.library_id for known in registered(con)):
        raise UsageError(f"A library named “{library.library_id}” is registered already.", "Choose another --name.")
    con.execute(
        "INSERT INTO libraries (library_id, kind, label, config, added_at) VALUES (?, ?, ?, ?, ?)",
        [library.library_id, library.kind, library.label, library.config, library.added_at],
    )
    _changed(con)


def registered(con: duckdb.DuckDBPyConnection) -> list[Registered]:
    """Every registered library, in the order they were added."""
    rows = con.execute(
        "SELECT library_id, kind, label, config, added_at, token, enumerated_at FROM libraries ORDER BY added_at"
    ).fetchall()
    return [Registered(*row) for row in rows]


def remove(con: duckdb.DuckDBPyConnection, library_id: str, now: datetime) -> int:
    """Forget a library. What it alone held becomes detached: review only. Returns how many checksums that is."""
    if all(known.library_id != library_id for known in registered(con)):
        raise UsageError(
            f"No library is named “{library_id}”.", "`deletion-sync library list` shows the registered ones."
        )
    ((alone,),) = con.execute(HELD_ALONE, {"library": library_id}).fetchall()
    con.execute(DETACH, {"library": library_id, "now": now})
    for table in ("local_index", "edit_anchors", "retired", "libraries"):
        con.execute(f"DELETE FROM {table} WHERE library_id = ?", [library_id])
    _changed(con)
    return int(alone)


HAND_OVER = """
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT DISTINCT checksum, $library, $now FROM (
        SELECT checksum, local_id FROM local_index WHERE library_id = $library
        UNION SELECT checksum, local_id FROM edit_anchors WHERE library_id = $library
    )
    ANTI JOIN detached USING (checksum)
    WHERE list_contains($ids, local_id)
"""


def hand_over(con: duckdb.DuckDBPyConnection, library_id: str, local_ids: list[str], now: datetime) -> None:
    """Ids that the library holds and lists no more, because others may delete them: not gone, but not vouched for.

    What they held becomes detached (review only), before the run's changes could take it for a deletion.
    """
    if not local_ids:
        return
    con.execute(HAND_OVER, {"library": library_id, "now": now, "ids": local_ids})
    for table in ("local_index", "edit_anchors", "retired"):
        con.execute(
            f"DELETE FROM {table} WHERE library_id = $library AND list_contains($ids, local_id)",
            {"library": library_id, "ids": local_ids},
        )


def indexed_among(con: duckdb.DuckDBPyConnection, library_id: str, local_ids: frozenset[str]) -> list[str]:
    """Which of the ids the index of a library has."""
    if not local_ids:
        return []
    rows = con.execute(
        "SELECT DISTINCT local_id FROM local_index WHERE library_id = ? AND list_contains(?, local_id) ORDER BY ALL",
        [library_id, sorted(local_ids)],
    ).fetchall()
    return [row[0] for row in rows]


def indexed_count(con: duckdb.DuckDBPyConnection, library_id: str) -> int:
    """How many parts a library held when it was enumerated last."""
    ((count,),) = con.execute("SELECT count(*) FROM local_index WHERE library_id = ?", [library_id]).fetchall()
    return int(count)


def save_token(con: duckdb.DuckDBPyConnection, library_id: str, token: str | None, now: datetime) -> None:
    """Save the change token taken before an enumeration, once all its changes are applied."""
    con.execute(
        "UPDATE libraries SET token = ?, enumerated_at = ? WHERE library_id = ?",
        [token, now, library_id],
    )


def save_config(con: duckdb.DuckDBPyConnection, library_id: str, config: str) -> None:
    """Replace a library's configuration."""
    con.execute("UPDATE libraries SET config = ? WHERE library_id = ?", [config, library_id])
    _changed(con)


def _changed(con: duckdb.DuckDBPyConnection) -> None:
    """A plan that was made with other libraries is not applied any more: the set of them has a name of its own."""
    set_fact(con, LIBRARIES_CHANGED, secrets.token_hex(8))
