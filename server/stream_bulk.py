"""A block of the change stream read as a whole, by DuckDB: only one in which nothing is out of the ordinary.

What is said of a block with anything odd in it is server.stream_parse's, which reads it line by line.
"""

from __future__ import annotations

import functools
import tempfile
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from server.stream_types import ASSETS, DELETE

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY_LIMIT = "128MB"
MAX_LINE_BYTES = 2**20  # a longer line is odd; DuckDB's buffers are a multiple of it

UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
CHECKSUM = "^[A-Za-z0-9+/]{27}=$"

# Columns of numbers and truth values are read as the JSON that they are, because DuckDB would take "1" for 1. The other
# way round it takes 1 for "1", so a text that could have been something else is odd.
_COLUMNS = """{
    type: 'VARCHAR', ack: 'VARCHAR', data: 'STRUCT(
        id VARCHAR, checksum VARCHAR, "ownerId" VARCHAR, "originalFileName" VARCHAR, "livePhotoVideoId" VARCHAR,
        "deletedAt" VARCHAR, visibility VARCHAR, "isFavorite" JSON, type VARCHAR, "fileCreatedAt" VARCHAR,
        "localDateTime" VARCHAR, "fileModifiedAt" VARCHAR, width JSON, height JSON, "libraryId" VARCHAR,
        "assetId" VARCHAR)'
}"""
_MACROS = rf"""
CREATE MACRO is_text(x) AS NOT regexp_matches(x, '^([\[{{]|(true|false|[-+0-9.eE]+|[-+]?(?i:nan|inf|infinity))$)');
CREATE MACRO is_uuid(x) AS regexp_matches(lower(x), '{UUID}');
CREATE MACRO is_moment(x) AS x LIKE '____-__-__T__:__:__.___Z';
CREATE MACRO is_whole(x) AS regexp_matches(x::VARCHAR, '^[0-9]{{1,9}}$');
"""
_EVENTS = f"""
WITH events AS (
    SELECT type AS kind, ack, data AS d,
           ack IS NOT NULL AND kind IN {ASSETS} AS shows,
           ack IS NOT NULL AND kind = '{DELETE}' AS ends
    FROM read_json($path, format = 'newline_delimited', columns = {_COLUMNS}, compression = 'none',
                   maximum_object_size = {MAX_LINE_BYTES})
)
SELECT kind AS type, ack, shows, ends,
       lower(d.id) AS asset_id, d.checksum, lower(d."ownerId") AS owner_id, d."originalFileName" AS file_name,
       lower(d."livePhotoVideoId") AS live_photo_video_id, d."deletedAt"::TIMESTAMP AS deleted_at, d.visibility,
       coalesce(d."isFavorite"::VARCHAR = 'true', false) AS is_favorite, lower(d.type) AS asset_type,
       d."fileCreatedAt"::TIMESTAMP AS file_created_at, d."localDateTime"::TIMESTAMP AS local_date_time,
       d."fileModifiedAt"::TIMESTAMP AS file_modified_at, d.width::VARCHAR::INTEGER AS width,
       d.height::VARCHAR::INTEGER AS height, d."libraryId" AS library_id, lower(d."assetId") AS ended_id,
       coalesce(
           is_text(kind) AND coalesce(is_text(ack), true)
           AND (NOT shows OR (
               is_uuid(d.id) AND is_uuid(d."ownerId") AND coalesce(is_uuid(d."livePhotoVideoId"), true)
               AND CASE WHEN d."libraryId" IS NULL THEN regexp_matches(d.checksum, '{CHECKSUM}')
                        ELSE is_text(d."libraryId") AND is_text(d.checksum) END
               AND is_text(d."originalFileName") AND is_text(d.type)
               AND d.visibility IN ('timeline', 'hidden', 'archive', 'locked')
               AND coalesce(is_moment(d."deletedAt"), true) AND coalesce(is_moment(d."fileCreatedAt"), true)
               AND coalesce(is_moment(d."localDateTime"), true) AND coalesce(is_moment(d."fileModifiedAt"), true)
               AND coalesce(d."isFavorite"::VARCHAR IN ('true', 'false'), true)
               AND coalesce(is_whole(d.width), true) AND coalesce(is_whole(d.height), true)))
           AND (NOT ends OR is_uuid(d."assetId")),
           false) AS fine
FROM events
"""


def read(block: bytes, lines: int) -> pa.Table | None:
    """One row per line that is not blank, in order; None: something in the block is odd, or it cannot be read so here.

    Columns: ``type`` and ``ack``; ``shows`` or ``ends`` for an asset event or a delete that has an ack; what the first
    says, under the names of server.stream_parse.UPSERTS but ``asset_type``; ``ended_id``, which the second names.
    """
    import duckdb

    try:
        # It has no name, so nothing is left of it however this process ends.
        with tempfile.TemporaryFile(prefix="deletion-sync-", buffering=0) as file, _database().cursor() as con:
            file.write(block)
            found = con.sql(_EVENTS, params={"path": f"/dev/fd/{file.fileno()}"}).to_arrow_table()
    except (duckdb.Error, OSError):
        return None
    if not pc.all(found["fine"], min_count=0).as_py():
        return None
    if len(found) != lines and len(found) != sum(1 for line in block.split(b"\n") if line.strip()):
        return None
    return found


def let_go() -> None:
    """Give back the memory of the database that blocks are read with."""
    _database.cache_clear()


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """An empty one in memory, kept until it is let go: to make it takes longer than a block does."""
    import duckdb

    con = duckdb.connect(config={"memory_limit": MEMORY_LIMIT, "temp_directory": "", "threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET enable_progress_bar = false")
    con.execute(_MACROS)
    return con
