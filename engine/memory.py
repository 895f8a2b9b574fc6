"""One row per remembered checksum: the snapshot of the remembered sets that a run's decisions read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.policy import LocalFacts

if TYPE_CHECKING:
    import duckdb

# Which ids live: in a complete run with a change log the seen ones, otherwise those of the index as well.
LIVING = """
CREATE OR REPLACE TEMP VIEW living_ids AS
    SELECT DISTINCT library_id, local_id FROM local
    UNION
    SELECT DISTINCT library_id, local_id FROM local_index WHERE {presumed}
"""

MEMORY = """
WITH o AS (SELECT checksum, any_value(albums) AS albums FROM observed GROUP BY checksum),
c AS (SELECT checksum, min(confirmed_at) AS confirmed_at, min_by(cause, confirmed_at) AS cause
      FROM confirmed_deleted GROUP BY checksum),
x AS (SELECT checksum, max(excluded_at) AS excluded_at FROM exclusions GROUP BY checksum),
a AS (SELECT DISTINCT checksum, true AS anchored FROM edit_anchors SEMI JOIN living_ids USING (library_id, local_id)),
r AS (SELECT DISTINCT checksum, true AS retired FROM retired),
d AS (SELECT DISTINCT checksum, true AS detached FROM detached),
i AS (SELECT checksum, min(library_id) AS indexed_in FROM local_index GROUP BY checksum),
remembered AS (
    SELECT checksum FROM o UNION SELECT checksum FROM c UNION SELECT checksum FROM x UNION SELECT checksum FROM a
    UNION SELECT checksum FROM r UNION SELECT checksum FROM d UNION SELECT checksum FROM i
),
n AS (SELECT checksum, list_sort(list_distinct(list(lower(file_name)))) AS names
      FROM names SEMI JOIN remembered USING (checksum) GROUP BY checksum)
SELECT
    checksum,
    o.albums IS NOT NULL AS observed,
    coalesce(o.albums, []) AS albums,
    c.confirmed_at,
    c.cause,
    x.excluded_at,
    coalesce(a.anchored, false) AS anchored,
    coalesce(r.retired, false) AND c.confirmed_at IS NULL AS retired,
    coalesce(d.detached, false) AS detached,
    i.indexed_in,
    coalesce(n.names, []) AS names
FROM remembered
LEFT JOIN o USING (checksum) LEFT JOIN c USING (checksum) LEFT JOIN x USING (checksum) LEFT JOIN a USING (checksum)
LEFT JOIN r USING (checksum) LEFT JOIN d USING (checksum) LEFT JOIN i USING (checksum) LEFT JOIN n USING (checksum)
ORDER BY checksum
"""


def memory(con: duckdb.DuckDBPyConnection, facts: LocalFacts) -> duckdb.DuckDBPyRelation:
    """The snapshot, as a lazy relation with the schema engine.relations.MEMORY, ordered by checksum.

    Reads the partition's tables after apply_local_changes, ``local``, and ``names`` (checksum, file_name).
    """
    presumed = not (facts.complete and facts.change_log)
    con.execute(LIVING.format(presumed="true" if presumed else "false"))
    return con.sql(MEMORY)
