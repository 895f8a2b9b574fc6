"""What differs between two listings of one library, in bulk. What a platform's own change log adds is its library's."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from engine.database import database
from library.protocol import CHANGED

_COLUMNS = ("local_id", "part", "file_name", "size", "modified_ns", "file_identity", "checksum", "in_trash")

# As the hash cache compares files: a device's number may change with a mount, so only what follows it counts.
_ANOTHER_FILE = """
    (k.file_identity IS DISTINCT FROM n.file_identity
     AND split_part(k.file_identity, ':', -1) IS DISTINCT FROM split_part(n.file_identity, ':', -1))
"""

# One row a part that one listing lacks or that is not the same in both; everything after looks at these alone.
_DIFFERING = f"""
CREATE TEMP TABLE differing AS
    SELECT coalesce(k.local_id, n.local_id) AS local_id,
           k.local_id IS NOT NULL AS was, n.local_id IS NOT NULL AS is_now,
           k.size IS DISTINCT FROM n.size OR k.modified_ns IS DISTINCT FROM n.modified_ns OR {_ANOTHER_FILE} AS other,
           coalesce(k.in_trash, false) <> coalesce(n.in_trash, false) AS other_place
    FROM known k FULL JOIN fresh n ON k.local_id = n.local_id AND k.part = n.part
    WHERE NOT was OR NOT is_now OR other OR other_place;
CREATE TEMP TABLE touched AS SELECT DISTINCT local_id FROM differing;
CREATE TEMP TABLE parts AS
    SELECT *, true AS before FROM known SEMI JOIN touched USING (local_id)
    UNION ALL
    SELECT *, false FROM fresh SEMI JOIN touched USING (local_id);
"""

# A motion video is listed with its still or alone, as what is known of the pair at that time says. It is the same file
# wherever it is counted, so that alone is no change.
_REGROUPED = """
CREATE TEMP TABLE regrouped AS
    SELECT b.local_id AS old_id, b.part AS old_part, a.local_id AS new_id, a.part AS new_part
    FROM parts b JOIN parts a USING (file_name, size, modified_ns, file_identity)
    WHERE b.before AND NOT a.before AND (b.part = 'motion' OR a.part = 'motion')
          AND (b.local_id <> a.local_id OR b.part <> a.part);
DELETE FROM parts USING regrouped r WHERE before AND local_id = r.old_id AND part = r.old_part;
DELETE FROM parts USING regrouped r WHERE NOT before AND local_id = r.new_id AND part = r.new_part;
"""

_IDS = """
CREATE TEMP TABLE ids AS
    SELECT local_id, before, bool_and(coalesce(in_trash, false)) AS in_trash,
        CASE WHEN count(*) = count(checksum) THEN list_sort(list(part || ' ' || checksum)) END AS content,
        CASE WHEN count(*) = count(file) THEN list_sort(list(part || ' ' || file)) END AS files
    FROM (SELECT *, split_part(file_identity, ':', -1) || ' ' || size || ' ' || modified_ns AS file FROM parts)
    GROUP BY local_id, before;
CREATE TEMP TABLE vanished AS
    SELECT * FROM ids WHERE before AND local_id NOT IN (SELECT local_id FROM ids WHERE NOT before);
CREATE TEMP TABLE arrived AS
    SELECT * FROM ids WHERE NOT before AND local_id NOT IN (SELECT local_id FROM ids WHERE before);
CREATE TEMP TABLE moves (former_id VARCHAR, local_id VARCHAR);
"""

# {same}: what makes a vanished and an arrived id one asset, if each is the only one with it.
_MOVES = """
INSERT INTO moves
    SELECT min(v.local_id), min(a.local_id) FROM vanished v JOIN arrived a USING ({same})
    WHERE {where} AND v.local_id NOT IN (SELECT former_id FROM moves)
          AND a.local_id NOT IN (SELECT local_id FROM moves)
    GROUP BY {same} HAVING count(*) = 1;
"""
_BY_CONTENT = _MOVES.format(same="content", where="true")
_BY_FILE = _MOVES.format(same="files", where="(v.content IS NULL OR a.content IS NULL)")

_CHANGES = """
WITH pairs AS (
    SELECT local_id, local_id AS former_id FROM ids GROUP BY local_id HAVING count(*) = 2
    UNION ALL SELECT local_id, former_id FROM moves
), both_sides AS (
    SELECT p.local_id, p.former_id,
        CASE WHEN n.in_trash AND NOT k.in_trash THEN 'trashed'
             WHEN k.in_trash AND NOT n.in_trash THEN 'restored'
             WHEN p.local_id <> p.former_id THEN 'moved'
             WHEN p.local_id IN (SELECT local_id FROM differing WHERE other) AND k.files IS DISTINCT FROM n.files
             THEN 'updated' END AS change
    FROM pairs p
    JOIN ids k ON k.before AND k.local_id = p.former_id
    JOIN ids n ON NOT n.before AND n.local_id = p.local_id
)
SELECT local_id, change, CASE WHEN former_id <> local_id THEN former_id END AS former_id
FROM both_sides WHERE change IS NOT NULL
UNION ALL
SELECT local_id, 'deleted', NULL FROM vanished WHERE local_id NOT IN (SELECT former_id FROM moves)
UNION ALL
SELECT local_id, 'inserted', NULL FROM arrived WHERE local_id NOT IN (SELECT local_id FROM moves)
ORDER BY local_id, change
"""


def difference(known: pa.Table, now: pa.Table) -> pa.Table:
    """CHANGED rows that lead from one listing to the other; both have at least the columns of ENUMERATED.

    A vanished and a new id are a move when they are the only ones with the same bytes, where both listings know the
    checksums, or with the same files (inode, size and time) otherwise. A part counts as another file as the hash cache
    decides: by size, modification time and inode.
    """
    with database() as con:
        con.register("known", known.select(_COLUMNS))
        con.register("fresh", now.select(_COLUMNS))
        for script in (_DIFFERING, _REGROUPED, _IDS, _BY_CONTENT, _BY_FILE):
            con.execute(script)
        return con.sql(_CHANGES).to_arrow_table().cast(CHANGED)


def with_withheld(changes: pa.Table, withheld: Collection[str] | pa.Array) -> pa.Table:
    """The same CHANGED rows; of the deleted ids, those that the library holds still are 'withheld'."""
    ids = withheld if isinstance(withheld, pa.Array) else pa.array(sorted(withheld), pa.string())
    is_withheld = pc.and_(pc.equal(changes["change"], "deleted"), pc.is_in(changes["local_id"], ids))
    return changes.set_column(1, CHANGED.field("change"), pc.if_else(is_withheld, "withheld", changes["change"]))


def with_updated(changes: pa.Table, touched: Collection[str], known: pa.Table, now: pa.Table) -> pa.Table:
    """The CHANGED rows and, as 'updated', every touched id of both listings that they do not have."""
    ids = pa.array(sorted(touched), pa.string())
    ids = ids.filter(pc.is_in(ids, known["local_id"].combine_chunks()))
    ids = ids.filter(pc.is_in(ids, now["local_id"].combine_chunks()))
    ids = ids.filter(pc.invert(pc.is_in(ids, changes["local_id"].combine_chunks())))
    rows = len(ids)
    more = pa.table([ids, pa.repeat("updated", rows), pa.nulls(rows, pa.string())], schema=CHANGED)
    return pa.concat_tables([changes, more]).sort_by("local_id")
