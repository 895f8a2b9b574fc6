"""Which still and which video are one Live Photo, by the identifier that both carry. Nothing here reads a file.

The first choice, by stem in one folder, is made while a folder is listed, in ``library.live_photos``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.database import database
from library.media_types import VIDEO_EXTENSIONS

if TYPE_CHECKING:
    import duckdb

MOVED = pa.schema(
    [
        ("library_id", pa.string()),
        ("listed_id", pa.string()),
        ("local_id", pa.string()),
        ("listed_part", pa.string()),
        ("part", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Paired:
    """``local``: the rows, regrouped, in the places where they were. ``moved``: one row (MOVED) for each of them whose
    local id is not the one it was listed under; the library itself knows the file by ``listed_id`` and ``listed_part``.
    """

    local: pa.Table
    moved: pa.Table


def pair_by_content(local: pa.Table, identifiers: pa.Table, library_ids: Collection[str]) -> Paired:
    """Regroup rows (engine.relations.LOCAL) of folder-like libraries by content identifier (spec, item 5.2).

    ``identifiers``: library_id, local_id, part, content_id (null or empty: none known), at most one row a part, ids and
    parts as listed. Only rows of ``library_ids`` take part: their local ids are relative paths, and a motion video is
    listed in the folder of its still.

    1. A pair of one stem stays a pair unless the identifiers of both halves are known and differ. Then the video is
       an asset of its own: part 'primary', its own path as local id.
    2. A still and a video of one library that carry the same identifier, and of which neither is in a pair, are one
       wherever they lie: the video takes the still's local id and the part 'motion'.
    3. Among copies the nearest go together: same folder and stem, same folder, then the deepest folder that holds
       both, there too with the same stem first. A still and a video pair only where no other free still or video of
       that identifier is as near; what cannot be told apart stays as it is.
    4. What lies in a trash pairs only with what lies in a trash.
    """
    import pyarrow.compute as pc

    with database() as con:
        _register(con, local, identifiers, library_ids)
        con.execute(_APART).execute(_UNPAIRED)
        _match(con)
        changes = con.sql(_CHANGES).to_arrow_table()
    if not changes.num_rows:
        return Paired(local, MOVED.empty_table())
    rows = changes.column("row")
    chosen = pc.is_in(pa.arange(0, local.num_rows), rows.combine_chunks())
    regrouped = local
    for name in ("local_id", "part"):
        place = local.schema.get_field_index(name)
        values = pc.replace_with_mask(
            local.column(name).combine_chunks(), chosen, changes.column(name).combine_chunks()
        )
        regrouped = regrouped.set_column(place, local.schema.field(name), values)
    return Paired(regrouped, changes.select(MOVED.names).cast(MOVED))


def _register(
    con: duckdb.DuckDBPyConnection, local: pa.Table, identifiers: pa.Table, library_ids: Collection[str]
) -> None:
    columns = ["library_id", "local_id", "part", "file_name", "in_trash"]
    con.register("listed", local.select(columns).append_column("row", pa.arange(0, local.num_rows)))
    con.register("identifiers", identifiers)
    con.register("taking_part", pa.table({"library_id": pa.array(sorted(library_ids), pa.string())}))
    con.register("video_types", pa.table({"extension": pa.array(VIDEO_EXTENSIONS, pa.string())}))


# Assets of which a half is in no pair, and its identifier is known: a primary without a motion video, and (rule 1) both
# halves where they differ.
_APART = """
    CREATE TEMP TABLE apart AS
    SELECT max(l.row) FILTER (l.part = 'primary') AS first_row, max(l.row) FILTER (l.part = 'motion') AS motion_row,
           max(nullif(i.content_id, '')) FILTER (l.part = 'primary') AS first_id,
           max(nullif(i.content_id, '')) FILTER (l.part = 'motion') AS motion_id
    FROM listed l LEFT JOIN identifiers i USING (library_id, local_id, part)
    WHERE l.library_id IN (SELECT library_id FROM taking_part)
    GROUP BY l.library_id, l.local_id
    HAVING motion_row IS NULL AND first_id IS NOT NULL OR first_id <> motion_id;
"""

# Rule 2: those halves where a still and a video have one identifier (rule 4: and lie on one side).
_UNPAIRED = """
    CREATE TEMP TABLE unpaired AS
    WITH halves AS (
        SELECT first_row AS row, first_id AS content_id, false AS is_motion FROM apart
        UNION ALL
        SELECT motion_row, motion_id, true FROM apart WHERE motion_row IS NOT NULL
    ), free AS (
        SELECT row, library_id, in_trash IS TRUE AS in_trash, content_id, file_name, local_id,
               is_motion OR lower(split_part(file_name, '.', -1)) IN (SELECT extension FROM video_types) AS is_video
        FROM halves JOIN listed USING (row)
    ), both_kinds AS (
        SELECT library_id, in_trash, content_id FROM free
        GROUP BY ALL HAVING bool_or(is_video) AND NOT bool_and(is_video)
    )
    SELECT row, library_id, in_trash, content_id, is_video,
           string_split(local_id, '/')[:-2] AS folders,
           lower(regexp_replace(file_name, '[.][^.]*$', '')) AS stem
    FROM free SEMI JOIN both_kinds USING (library_id, in_trash, content_id);
    CREATE TEMP TABLE pairs (still BIGINT, video BIGINT);
"""

# One round of rule 3: {near} is what a still and a video must share.
_ROUND = """
    INSERT INTO pairs
    SELECT max(row) FILTER (NOT is_video), max(row) FILTER (is_video)
    FROM unpaired
    GROUP BY library_id, in_trash, content_id, {near}
    HAVING count(*) = 2 AND count(*) FILTER (is_video) = 1;
    DELETE FROM unpaired WHERE row IN (SELECT still FROM pairs UNION ALL SELECT video FROM pairs);
"""

_CHANGES = """
    SELECT l.row, l.library_id, l.local_id AS listed_id, l.part AS listed_part,
           CASE WHEN p.still IS NULL
                THEN left(l.local_id, length(l.local_id) - length(split_part(l.local_id, '/', -1))) || l.file_name
                ELSE still.local_id END AS local_id,
           CASE WHEN p.still IS NULL THEN 'primary' ELSE 'motion' END AS part
    FROM listed l
    LEFT JOIN pairs p ON p.video = l.row
    LEFT JOIN listed still ON still.row = p.still
    WHERE p.still IS NOT NULL OR l.row IN (SELECT motion_row FROM apart)
    ORDER BY l.row
"""


def _match(con: duckdb.DuckDBPyConnection) -> None:
    """Rule 3, nearest first. Where no identifier is open, which is nearly always, it ends at once."""
    deepest = con.sql("SELECT max(len(folders)) FROM unpaired").fetchall()[0][0]
    if deepest is None:
        return
    for near in ("folders", *(f"folders[:{depth}]" for depth in range(deepest, -1, -1))):
        con.execute(_ROUND.format(near=f"{near}, stem"))
        con.execute(_ROUND.format(near=near))
