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
    SELECT library_id, local_id, part, checksum, file_name, size, modified_ns, file_identity,
        coalesce(in_trash, false) AS in_trash FROM local_index;
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

# A file that has no checksum yet and is, by size, time and inode, one that the index knows counts as that one here.
REAPPEAR = """
DELETE FROM confirmed_deleted WHERE checksum IN (SELECT checksum FROM kept);
DELETE FROM confirmed_deleted WHERE checksum IN (
    SELECT k.checksum FROM known k JOIN local l ON l.library_id = k.library_id AND l.file_identity = k.file_identity
        AND l.size = k.size AND l.modified_ns = k.modified_ns
    WHERE l.checksum IS NULL AND l.in_trash IS NOT TRUE
);
DELETE FROM detached WHERE checksum IN (SELECT checksum FROM kept);
DELETE FROM retired WHERE checksum IN (SELECT checksum FROM alive);
"""

# Who may go on as whom: a file that an id gave up (`old`) and another id gained (`new`), by its bytes; or, where a Live
# Photo is grouped otherwise than before, by its inode, because it may have been edited meanwhile; and if it was written
# anew meanwhile, by its name.
HEIRS = """
CREATE OR REPLACE TEMP TABLE gone_ids AS
    SELECT * FROM known_ids ANTI JOIN seen_ids USING (library_id, local_id);
CREATE OR REPLACE TEMP TABLE given_up AS
    SELECT k.* FROM known k
    ANTI JOIN seen s ON s.library_id = k.library_id AND s.local_id = k.local_id AND s.checksum = k.checksum;
CREATE OR REPLACE TEMP TABLE gained AS
    SELECT w.* FROM whole w
    ANTI JOIN known k ON k.library_id = w.library_id AND k.local_id = w.local_id AND k.checksum = w.checksum;
CREATE OR REPLACE TEMP TABLE inherited AS
    SELECT g.library_id AS old_library, g.local_id AS old_id, n.library_id AS new_library, n.local_id AS new_id,
        g.checksum AS old_checksum, n.checksum AS new_checksum
    FROM given_up g JOIN gained n USING (checksum)
    UNION
    SELECT g.library_id, g.local_id, n.library_id, n.local_id, g.checksum, n.checksum
    FROM given_up g JOIN gained n ON n.library_id = g.library_id AND n.file_identity = g.file_identity
    WHERE (g.part, n.part) IN (('motion', 'primary'), ('primary', 'motion'));
CREATE OR REPLACE TEMP TABLE heirs AS
    SELECT old_library, old_id, new_library, new_id, old_checksum, new_checksum FROM (
        FROM inherited
        UNION
        SELECT g.library_id, g.local_id, n.library_id, n.local_id, g.checksum, n.checksum
        FROM (
            FROM given_up ANTI JOIN inherited i
                ON i.old_library = given_up.library_id AND i.old_id = given_up.local_id AND i.old_checksum = checksum
        ) g JOIN (
            FROM gained ANTI JOIN inherited i
                ON i.new_library = gained.library_id AND i.new_id = gained.local_id AND i.new_checksum = checksum
        ) n ON n.library_id = g.library_id AND n.file_name = g.file_name
        WHERE (g.part, n.part) IN (('motion', 'primary'), ('primary', 'motion'))
    ) WHERE (old_library, old_id) <> (new_library, new_id);
"""

# The heir takes over the anchors, but not those that are other files which the index held for the old id. A new id has
# anchors of its own too, for what it did not get from an id that is gone. All of this only ever protects.
INHERIT = """
CREATE OR REPLACE TEMP TABLE others AS
    SELECT DISTINCT h.old_library, h.old_id, h.new_library, h.new_id, k.checksum
    FROM heirs h JOIN known k ON k.library_id = h.old_library AND k.local_id = h.old_id
    ANTI JOIN whole w ON w.library_id = h.new_library AND w.local_id = h.new_id AND w.checksum = k.checksum
    ANTI JOIN heirs m ON m.old_library = h.old_library AND m.old_id = h.old_id AND m.new_library = h.new_library
        AND m.new_id = h.new_id AND m.old_checksum = k.checksum;
CREATE OR REPLACE TEMP TABLE taken AS
    SELECT DISTINCT h.new_library AS library_id, h.new_id AS local_id, e.checksum
    FROM heirs h JOIN edit_anchors e ON e.library_id = h.old_library AND e.local_id = h.old_id
    ANTI JOIN others o ON o.old_library = h.old_library AND o.old_id = h.old_id AND o.new_library = h.new_library
        AND o.new_id = h.new_id AND o.checksum = e.checksum
    UNION
    SELECT w.library_id, w.local_id, w.checksum
    FROM whole w SEMI JOIN heirs h ON h.new_library = w.library_id AND h.new_id = w.local_id
    ANTI JOIN known_ids i ON i.library_id = w.library_id AND i.local_id = w.local_id
    ANTI JOIN (
        SELECT h.new_library, h.new_id, h.new_checksum FROM heirs h
        SEMI JOIN gone_ids g ON g.library_id = h.old_library AND g.local_id = h.old_id
    ) got ON got.new_library = w.library_id AND got.new_id = w.local_id AND got.new_checksum = w.checksum;
INSERT INTO edit_anchors (library_id, local_id, checksum)
    SELECT library_id, local_id, checksum FROM taken
    EXCEPT SELECT library_id, local_id, checksum FROM edit_anchors;
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
        SEMI JOIN gone_ids g ON g.library_id = h.old_library AND g.local_id = h.old_id
        ANTI JOIN known_ids i ON i.library_id = h.new_library AND i.local_id = h.new_id
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
    con.execute(INHERIT)
    if facts.complete:
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
