"""What `diagnose` computes of the server's assets: counts per visibility, and whether Live Photos are whole.

Nothing is changed, and nothing here decides what is trashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.database import database

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from server.client import PhotoServer

COUNTS = """
SELECT visibility, count(*) FILTER (NOT is_trashed), count(*) FILTER (is_trashed)
FROM server GROUP BY visibility ORDER BY visibility
"""

# A still whose motion video the listing does not have.
DANGLING = """
SELECT s.asset_id, s.file_name, s.live_photo_video_id FROM server s
ANTI JOIN server v ON v.asset_id = s.live_photo_video_id
WHERE s.live_photo_video_id IS NOT NULL ORDER BY s.file_name, s.asset_id
"""

# A hidden asset that no still links to.
ORPHANED = """
SELECT v.asset_id, v.file_name, NULL FROM server v
ANTI JOIN server s ON s.live_photo_video_id = v.asset_id
WHERE v.visibility = 'hidden' ORDER BY v.file_name, v.asset_id
"""

# The still is trashed and its video is not, though no other untrashed still needs it.
STILL_TRASHED = """
SELECT s.asset_id, s.file_name, v.asset_id FROM server s
JOIN server v ON v.asset_id = s.live_photo_video_id
ANTI JOIN (SELECT live_photo_video_id FROM server WHERE NOT is_trashed) other
    ON other.live_photo_video_id = v.asset_id
WHERE s.is_trashed AND NOT v.is_trashed ORDER BY s.file_name, s.asset_id
"""

VIDEO_TRASHED = """
SELECT s.asset_id, s.file_name, v.asset_id FROM server s
JOIN server v ON v.asset_id = s.live_photo_video_id
WHERE v.is_trashed AND NOT s.is_trashed ORDER BY s.file_name, s.asset_id
"""


@dataclass(frozen=True, slots=True)
class Count:
    """Assets of one visibility."""

    visibility: str
    untrashed: int
    trashed: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One asset that something is wrong with, and the motion video in question, if there is one."""

    asset_id: str
    file_name: str
    video_id: str | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Dangling: a still links to a video that does not exist. Orphaned: no still links to a hidden asset. The other
    two: one half of a Live Photo is in the trash and the other is not."""

    counts: tuple[Count, ...]
    dangling: tuple[Finding, ...]
    orphaned: tuple[Finding, ...]
    still_trashed: tuple[Finding, ...]
    video_trashed: tuple[Finding, ...]


def diagnose(assets: pa.Table) -> Diagnosis:
    """The diagnosis of a listing (engine.relations.SERVER) (spec, Command-line tool: diagnose)."""
    with database() as con:
        con.register("server", assets)
        return Diagnosis(
            tuple(Count(*row) for row in con.execute(COUNTS).fetchall()),
            _found(con, DANGLING),
            _found(con, ORPHANED),
            _found(con, STILL_TRASHED),
            _found(con, VIDEO_TRASHED),
        )


def really_dangling(server: PhotoServer, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Those whose video the server does not show by its id either: a listing is no proof of absence.

    Raises ServerError.
    """
    states = server.assets_by_id(sorted({x.video_id for x in found if x.video_id is not None}))
    return tuple(x for x in found if states.get(x.video_id or "") is None)


def _found(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Finding, ...]:
    return tuple(Finding(*row) for row in con.execute(query).fetchall())
