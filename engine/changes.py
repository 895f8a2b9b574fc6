"""Local changes: what an enumeration means for the remembered sets (docs/rules.md, section 1).

Works in place on the tables of a partition, in the caller's transaction. What is read, hashed or stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.policy import LocalFacts
from engine.settings import Strictness
from engine.vouching import hand_over, note_file_only, note_trashed

if TYPE_CHECKING:
    import duckdb

# `seen` is what this run read, `whole` that of the ids which it read completely, `known` the index of the run before.
PREPARE = """
CREATE OR REPLACE TEMP TABLE seen AS
    SELECT * FROM local WHERE checksum IS NOT NULL;
CREATE OR REPLACE TEMP TABLE whole AS
    SELECT * FROM seen
    ANTI JOIN (SELECT library_id, local_id FROM local WHERE checksum IS NULL) USING (library_id, local_id);
CREATE OR REPLACE TEMP TABLE whole_ids AS
    SELECT DISTINCT library_id, local_id FROM whole;
CREATE OR REPLACE TEMP TABLE alive AS
    SELECT DISTINCT checksum FROM seen;
CREATE OR REPLACE TEMP TABLE kept AS
    SELECT DISTINCT checksum FROM seen WHERE in_trash IS NOT TRUE;
CREATE OR REPLACE TEMP TABLE kept_ids AS
    SELECT DISTINCT library_id, local_id FROM local WHERE in_trash IS NOT TRUE;
CREATE OR REPLACE TEMP TABLE seen_ids AS
    SELECT DISTINCT library_id, local_id FROM local;
CREATE OR REPLACE TEMP TABLE known AS
    SELECT library_id, local_id, part, checksum, coalesce(in_trash, false) AS in_trash FROM local_index;
CREATE OR REPLACE TEMP TABLE known_ids AS
    SELECT DISTINCT library_id, local_id FROM known;
"""

OBSERVE = """
CREATE OR REPLACE TEMP TABLE seen_albums AS
    SELECT checksum, list_sort(list_distinct(flatten(list(coalesce(albums, []))))) AS albums
    FROM seen WHERE in_trash IS NOT TRUE GROUP BY checksum;
UPDATE observed SET albums = s.albums
    FROM seen_albums s WHERE observed.checksum = s.checksum AND observed.albums IS DISTINCT FROM s.albums;
INSERT INTO observed (checksum, albums, first_observed_at)
    SELECT a.checksum, coalesce(s.albums, []), $now
    FROM alive a LEFT JOIN seen_albums s USING (checksum) ANTI JOIN observed o ON o.checksum = a.checksum;
"""

REAPPEAR = """
DELETE FROM confirmed_deleted WHERE checksum IN (SELECT checksum FROM kept);
DELETE FROM detached WHERE checksum IN (SELECT checksum FROM kept);
DELETE FROM retired WHERE checksum IN (SELECT checksum FROM alive);
"""

# A vanished id and a new id with the same (part, checksum) set, each the only one with it, are one asset that moved.
# Where there are several, which is which cannot be told: every new one takes over the anchors of every vanished one.
# So it is in an incomplete run: the old id may just not have been read, and keeps its own.
HEIRS = """
CREATE OR REPLACE TEMP TABLE gone_ids AS
    SELECT * FROM known_ids ANTI JOIN seen_ids USING (library_id, local_id);
CREATE OR REPLACE TEMP TABLE heirs AS
    WITH vanished AS (
        SELECT library_id, local_id, list_sort(list(part || ' ' || checksum)) AS content
        FROM known SEMI JOIN gone_ids USING (library_id, local_id) GROUP BY ALL
    ), arrived AS (
        SELECT library_id, local_id, list_sort(list(part || ' ' || checksum)) AS content
        FROM whole ANTI JOIN known_ids USING (library_id, local_id) GROUP BY ALL
    )
    SELECT v.library_id AS old_library, v.local_id AS old_id, a.library_id AS new_library, a.local_id AS new_id,
        count(*) OVER (PARTITION BY content) = 1 AS moved
    FROM vanished v JOIN arrived a USING (content);
"""

# A video that was an asset of its own and is the motion of a still now, or the other way, was regrouped.
REGROUPED = """
CREATE OR REPLACE TEMP TABLE alone AS
    SELECT library_id, local_id, any_value(checksum) AS checksum
    FROM known SEMI JOIN gone_ids USING (library_id, local_id)
    GROUP BY library_id, local_id HAVING count(*) = 1 AND any_value(part) = 'primary';
CREATE OR REPLACE TEMP TABLE regrouped AS
    SELECT a.library_id, a.local_id AS old_id, w.local_id AS new_id
    FROM alone a JOIN whole w ON w.library_id = a.library_id AND w.checksum = a.checksum AND w.part = 'motion'
    ANTI JOIN known k ON k.library_id = w.library_id AND k.local_id = w.local_id AND k.part = 'motion'
        AND k.checksum = w.checksum;
CREATE OR REPLACE TEMP TABLE set_apart AS
    SELECT k.library_id, k.local_id AS old_id, n.local_id AS new_id
    FROM known k JOIN (
        SELECT library_id, local_id, any_value(checksum) AS checksum
        FROM whole ANTI JOIN known_ids USING (library_id, local_id)
        GROUP BY library_id, local_id HAVING count(*) = 1 AND any_value(part) = 'primary'
    ) n ON n.library_id = k.library_id AND n.checksum = k.checksum AND k.part = 'motion'
    ANTI JOIN seen s ON s.library_id = k.library_id AND s.local_id = k.local_id AND s.checksum = k.checksum;
CREATE OR REPLACE TEMP TABLE takers AS
    SELECT library_id, local_id FROM (
        SELECT library_id, new_id AS local_id FROM regrouped UNION SELECT library_id, new_id FROM set_apart
    ) ANTI JOIN edit_anchors USING (library_id, local_id);
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT DISTINCT library_id, local_id, checksum FROM known SEMI JOIN takers USING (library_id, local_id)
    UNION
    SELECT DISTINCT library_id, local_id, checksum
    FROM whole SEMI JOIN takers USING (library_id, local_id) ANTI JOIN known_ids USING (library_id, local_id);
INSERT INTO heirs
    SELECT library_id, old_id, library_id, new_id, true FROM regrouped;
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT a.library_id, a.new_id, e.checksum
    FROM set_apart a JOIN edit_anchors e ON e.library_id = a.library_id AND e.local_id = a.old_id
    ANTI JOIN known k ON k.library_id = a.library_id AND k.local_id = a.old_id AND k.checksum = e.checksum
    EXCEPT SELECT library_id, local_id, checksum FROM edit_anchors;
"""

INHERIT = """
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT h.new_library, h.new_id, e.checksum
    FROM heirs h JOIN edit_anchors e ON e.library_id = h.old_library AND e.local_id = h.old_id
    EXCEPT SELECT library_id, local_id, checksum FROM edit_anchors;
"""

MOVED = """
DELETE FROM edit_anchors USING heirs h
    WHERE h.moved AND edit_anchors.library_id = h.old_library AND edit_anchors.local_id = h.old_id;
DELETE FROM gone_ids USING heirs h
    WHERE h.moved AND gone_ids.library_id = h.old_library AND gone_ids.local_id = h.old_id;
"""

# A living id without anchors takes what the index has for it (the bytes of before), else what it holds now.
ANCHOR = """
CREATE OR REPLACE TEMP TABLE unanchored AS
    SELECT * FROM (FROM seen_ids UNION SELECT * FROM known_ids WHERE NOT $complete)
    ANTI JOIN edit_anchors USING (library_id, local_id);
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT DISTINCT library_id, local_id, checksum FROM known SEMI JOIN unanchored USING (library_id, local_id);
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT DISTINCT library_id, local_id, checksum
    FROM whole SEMI JOIN unanchored USING (library_id, local_id) ANTI JOIN known_ids USING (library_id, local_id);
CREATE OR REPLACE TEMP TABLE kept_anchors AS
    SELECT DISTINCT checksum FROM edit_anchors SEMI JOIN kept_ids USING (library_id, local_id);
DELETE FROM confirmed_deleted WHERE checksum IN (SELECT checksum FROM kept_anchors);
"""

# A checksum that was noted before and is given up again is noted again: it is confirmed by the run after the last note.
RETIRE = """
INSERT INTO retired (checksum, library_id, local_id, run_id)
    SELECT DISTINCT k.checksum, k.library_id, k.local_id, $run_id
    FROM known k
    SEMI JOIN whole_ids USING (library_id, local_id)
    ANTI JOIN seen s ON s.library_id = k.library_id AND s.local_id = k.local_id AND s.checksum = k.checksum
    ANTI JOIN edit_anchors e ON e.library_id = k.library_id AND e.local_id = k.local_id AND e.checksum = k.checksum
    ANTI JOIN alive a ON a.checksum = k.checksum
    ANTI JOIN confirmed_deleted c ON c.checksum = k.checksum
    ANTI JOIN retired r ON r.checksum = k.checksum AND r.library_id = k.library_id AND r.local_id = k.local_id
        AND r.run_id = $run_id;
"""

# In a complete run the living ids are the seen ones, so everything else's anchors protect nothing. What entered the
# trash is deleted although it is alive: only what lies outside the trash speaks against it.
CONFIRM = """
CREATE OR REPLACE TEMP TABLE protected AS
    SELECT DISTINCT checksum FROM edit_anchors SEMI JOIN seen_ids USING (library_id, local_id);
CREATE OR REPLACE TEMP TABLE due_retired AS
    SELECT DISTINCT checksum FROM retired
    ANTI JOIN (SELECT checksum FROM retired WHERE run_id = $run_id) USING (checksum)
    ANTI JOIN protected USING (checksum);
INSERT INTO confirmed_deleted (checksum, confirmed_at, cause)
    SELECT checksum, $now, 'retired' FROM due_retired ANTI JOIN confirmed_deleted USING (checksum);
DELETE FROM retired WHERE checksum IN (SELECT checksum FROM due_retired);

CREATE OR REPLACE TEMP TABLE once_outside AS
    SELECT DISTINCT library_id, local_id FROM known WHERE NOT in_trash;
CREATE OR REPLACE TEMP TABLE entering AS
    SELECT library_id, local_id FROM seen_ids ANTI JOIN kept_ids USING (library_id, local_id)
    SEMI JOIN (
        FROM once_outside
        UNION
        SELECT h.new_library, h.new_id FROM heirs h
        SEMI JOIN once_outside o ON o.library_id = h.old_library AND o.local_id = h.old_id
    ) was ON was.library_id = seen_ids.library_id AND was.local_id = seen_ids.local_id;
CREATE OR REPLACE TEMP TABLE deleted_ids AS
    FROM gone_ids UNION FROM entering;
CREATE OR REPLACE TEMP TABLE gone AS
    SELECT checksum FROM (
        SELECT checksum FROM known SEMI JOIN deleted_ids USING (library_id, local_id)
        UNION
        SELECT checksum FROM seen SEMI JOIN entering USING (library_id, local_id)
        UNION
        SELECT checksum FROM edit_anchors SEMI JOIN deleted_ids USING (library_id, local_id)
    )
    ANTI JOIN kept USING (checksum) ANTI JOIN kept_anchors USING (checksum);
INSERT INTO confirmed_deleted (checksum, confirmed_at, cause)
    SELECT checksum, $now, 'deleted' FROM gone ANTI JOIN confirmed_deleted USING (checksum);
DELETE FROM retired WHERE checksum IN (SELECT checksum FROM gone);
DELETE FROM edit_anchors USING gone_ids g
    WHERE edit_anchors.library_id = g.library_id AND edit_anchors.local_id = g.local_id;
"""

LIMBO = """
INSERT INTO confirmed_deleted (checksum, confirmed_at, cause)
    SELECT checksum, $now, 'limbo' FROM observed
    ANTI JOIN alive USING (checksum) ANTI JOIN protected USING (checksum)
    ANTI JOIN confirmed_deleted USING (checksum) ANTI JOIN retired USING (checksum)
    ANTI JOIN exclusions USING (checksum) ANTI JOIN detached USING (checksum);
"""

INDEX = """
CREATE OR REPLACE TEMP TABLE index_rows AS
    SELECT library_id, local_id, part, checksum, file_name, size, modified_ns, file_identity, captured_at,
           coalesce(albums, []) AS albums, in_trash IS TRUE AS in_trash FROM whole;
"""

# An incomplete run starts no clock: it leaves it to the next complete one to see an id enter the trash.
NOT_ENTERED = """
UPDATE index_rows SET in_trash = false FROM (SELECT DISTINCT library_id, local_id FROM known WHERE NOT in_trash) o
    WHERE index_rows.in_trash AND index_rows.library_id = o.library_id AND index_rows.local_id = o.local_id;
"""

# Only rows that differ are rewritten: a scan that finds ten changes among a million files touches ten rows.
REWRITE = """
DELETE FROM local_index USING (
    SELECT library_id, local_id, part FROM (
        SELECT * FROM local_index SEMI JOIN (
            FROM whole_ids UNION ALL FROM leaving
        ) USING (library_id, local_id)
        EXCEPT ALL SELECT * FROM index_rows
    )
) stale
    WHERE local_index.library_id = stale.library_id AND local_index.local_id = stale.local_id
    AND local_index.part = stale.part;
INSERT INTO local_index
    SELECT * FROM index_rows EXCEPT ALL SELECT * FROM local_index;
"""


def apply_local_changes(con: duckdb.DuckDBPyConnection, facts: LocalFacts) -> None:
    """Apply section 1 of the rules to the partition's tables that ``con`` holds (state/schema.sql).

    Reads ``local`` (engine.relations.LOCAL), ``handed_over`` (library_id, local_id) and ``trashed_here`` (checksum,
    trashed_at), tables or views. Spec: Confirmed-deleted lifecycle, Edit handling.
    """
    if facts.change_log:
        hand_over(con, facts.now)
    note_file_only(con, facts.now, change_log=facts.change_log)
    _apply(con, facts)
    note_trashed(con)


def _apply(con: duckdb.DuckDBPyConnection, facts: LocalFacts) -> None:
    """Rules 1.1 to 1.8."""
    values = {"now": facts.now, "run_id": facts.run_id, "complete": facts.complete}
    con.execute(PREPARE)
    _run(con, OBSERVE, values)
    con.execute(REAPPEAR)
    if not facts.change_log:
        return
    con.execute("CREATE OR REPLACE TEMP TABLE leaving (library_id VARCHAR, local_id VARCHAR)")
    con.execute(HEIRS)
    if facts.complete:
        con.execute(REGROUPED)
    con.execute(INHERIT)
    if facts.complete:
        con.execute(MOVED)
        con.execute(
            "INSERT INTO leaving SELECT * FROM known_ids ANTI JOIN seen_ids USING (library_id, local_id)",
        )
    _run(con, ANCHOR, values)
    _run(con, RETIRE, values)
    if facts.complete:
        _run(con, CONFIRM, values)
        if not facts.history_lost and facts.strictness is Strictness.TRUSTING:
            _run(con, LIMBO, values)
    con.execute(INDEX)
    if not facts.complete:
        con.execute(NOT_ENTERED)
    con.execute(REWRITE)


def _run(con: duckdb.DuckDBPyConnection, script: str, parameters: Mapping[str, object]) -> None:
    """Run statements that take parameters, one by one; each gets those that it names."""
    for statement in filter(str.strip, script.split(";")):
        con.execute(statement, {key: value for key, value in parameters.items() if f"${key}" in statement})
