"""Of whose deletion the libraries here can tell, and of whose they cannot: the latter is a person's to judge.

A checksum that only a checksums file or an import listed is not deleted because a folder lacks it. One that an earlier
run trashed, and that is on the server again, was brought back by somebody (the server's own page, another device).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from state.journal import Record

if TYPE_CHECKING:
    import duckdb

IN_FILE = """
DELETE FROM detached WHERE checksum IN (SELECT checksum FROM file_only);
INSERT INTO file_only
    SELECT DISTINCT checksum FROM local ANTI JOIN observed USING (checksum) ANTI JOIN file_only USING (checksum);
"""

IN_LIBRARIES = """
DELETE FROM file_only WHERE checksum IN (SELECT checksum FROM local WHERE checksum IS NOT NULL);
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT checksum, '', $now FROM file_only ANTI JOIN detached USING (checksum);
"""

CAME_BACK = """
INSERT INTO detached (checksum, library_id, detached_at)
    SELECT DISTINCT checksum, '', trashed_at
    FROM (SELECT unnest($checksums) AS checksum, unnest($moments)::TIMESTAMP AS trashed_at) t
    ANTI JOIN (SELECT checksum FROM local WHERE checksum IS NOT NULL) USING (checksum)
    ANTI JOIN detached USING (checksum)
    WHERE NOT EXISTS (FROM confirmed_deleted c WHERE c.checksum = t.checksum AND c.confirmed_at > t.trashed_at)
"""


def note_listing(con: duckdb.DuckDBPyConnection, now: datetime, *, change_log: bool) -> None:
    """Before a run's changes are applied: which checksums only files have listed. Reads ``local``."""
    for statement in filter(str.strip, (IN_LIBRARIES if change_log else IN_FILE).split(";")):
        con.execute(statement, {"now": now} if "$now" in statement else {})


def note_trashed(con: duckdb.DuckDBPyConnection, records: Iterable[Record]) -> None:
    """After a run's changes are applied: what the journal last says is in the trash, unless it was deleted here since.

    Should the server have it again, it is shown for review. Reads ``local``.
    """
    trashed: dict[str, str] = {}
    for line in records:
        if line.status is None:
            continue
        for checksum in (line.checksum, line.motion_checksum):
            if checksum and line.status == "trashed":
                trashed[checksum] = line.at
            elif checksum and line.status == "restored":
                trashed.pop(checksum, None)
    if trashed:
        moments = [datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=None) for at in trashed.values()]
        con.execute(CAME_BACK, {"checksums": list(trashed), "moments": moments})
