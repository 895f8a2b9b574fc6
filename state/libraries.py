"""The libraries registered in a partition, and what becomes of what they held when one is removed."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.vouching import hand_over
from state.runs import LIBRARIES_CHANGED, set_fact

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered library. ``config`` is JSON that only its kind understands.

    ``token`` is the change token of the last enumeration whose changes were applied, as the library gave it; None:
    there was none yet. ``snapshot`` is the number of the enumeration that the index holds, ``token_of`` that of the
    token's. Where they differ, the two do not belong together, and nothing can be told from what the index has and a
    listing lacks (spec, Token expired).
    """

    library_id: str
    kind: str
    label: str
    config: str
    added_at: datetime
    token: str | None = None
    enumerated_at: datetime | None = None
    snapshot: int = 0
    token_of: int = 0


_NUMBER, _TOKEN = "snapshot", "token"
_SNAPSHOT = """
SELECT library_id, local_id, part, file_name, size, modified_ns, file_identity, checksum, in_trash
FROM local_index WHERE library_id = $library
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
        "SELECT library_id, kind, label, config, added_at, token, enumerated_at, snapshot "
        "FROM libraries ORDER BY added_at"
    ).fetchall()
    found = []
    for library_id, kind, label, config, added_at, text, enumerated_at, number in rows:
        token, token_of = _read_token(text)
        found.append(
            Registered(library_id, kind, label, config, added_at, token, enumerated_at, int(number or 0), token_of)
        )
    return found


def remove(con: duckdb.DuckDBPyConnection, library_id: str, now: datetime) -> int:
    """Forget a library. What it alone held becomes detached: review only. Returns how many checksums that is."""
    if all(known.library_id != library_id for known in registered(con)):
        raise UsageError(
            f"No library is named “{library_id}”.", "`deletion-sync library list` shows the registered ones."
        )
    ((alone,),) = con.execute(HELD_ALONE, {"library": library_id}).fetchall()
    con.execute(
        "CREATE OR REPLACE TEMP TABLE handed_over AS "
        "SELECT library_id, local_id FROM local_index WHERE library_id = $id "
        "UNION SELECT library_id, local_id FROM edit_anchors WHERE library_id = $id "
        "UNION SELECT library_id, local_id FROM retired WHERE library_id = $id",
        {"id": library_id},
    )
    hand_over(con, now)
    con.execute("DELETE FROM libraries WHERE library_id = ?", [library_id])
    con.execute("DELETE FROM accepted_losses WHERE library_id = ?", [library_id])
    _changed(con)
    return int(alone)


def accept_losses(con: duckdb.DuckDBPyConnection, library_id: str, local_ids: list[str]) -> None:
    """A person says that these really are gone. Holds until the next run that reads the libraries whole."""
    con.execute("INSERT INTO accepted_losses SELECT ?, unnest(?)", [library_id, local_ids])


def clear_accepted_losses(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM accepted_losses")


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


def snapshot(con: duckdb.DuckDBPyConnection, library_id: str) -> pa.Table:
    """What the index holds of a library: the columns of library.protocol.ENUMERATED, albums apart."""
    return con.sql(_SNAPSHOT, params={"library": library_id}).to_arrow_table()


def save_token(con: duckdb.DuckDBPyConnection, library_id: str, token: str | None, now: datetime) -> None:
    """Save the change token taken before an enumeration, once all its changes are applied: the index is then the next
    snapshot, and the token is of it."""
    ((number,),) = con.execute(
        "UPDATE libraries SET snapshot = coalesce(snapshot, 0) + 1, enumerated_at = ? WHERE library_id = ? "
        "RETURNING snapshot",
        [now, library_id],
    ).fetchall()
    text = None if token is None else json.dumps({_NUMBER: number, _TOKEN: token})
    con.execute("UPDATE libraries SET token = ? WHERE library_id = ?", [text, library_id])


def _read_token(text: str | None) -> tuple[str | None, int]:
    """A stored token, and the number of its snapshot: 0 for one that was saved before there were numbers."""
    try:
        read = json.loads(text or "")
        return str(read[_TOKEN]), int(read[_NUMBER])
    except (ValueError, TypeError, KeyError):
        return text, 0


def save_config(con: duckdb.DuckDBPyConnection, library_id: str, config: str) -> None:
    """Replace a library's configuration."""
    con.execute("UPDATE libraries SET config = ? WHERE library_id = ?", [config, library_id])
    _changed(con)


def _changed(con: duckdb.DuckDBPyConnection) -> None:
    """A plan that was made with other libraries is not applied any more: the set of them has a name of its own."""
    set_fact(con, LIBRARIES_CHANGED, secrets.token_hex(8))
