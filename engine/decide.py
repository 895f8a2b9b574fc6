"""Which server assets are candidates, and what becomes of each (docs/rules.md, sections 2 to 4).

Three queries, one per step; each reads the relations of the steps before it, by name. Nothing is written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.policy import Policy

if TYPE_CHECKING:
    import duckdb

# What a run may look at on the server at all: own, untrashed, never locked, external only if the setting says so.
ELIGIBLE = """
    s.owner_id = $user_id AND NOT s.is_trashed AND s.visibility <> 'locked'
    AND (s.library_id IS NULL OR $include_external)
"""

IN_SCOPE = "($full_library OR list_has_any(m.albums, $selected_albums))"

DIFF = f"""
WITH linked AS (
    SELECT DISTINCT live_photo_video_id AS asset_id FROM server
    WHERE owner_id = $user_id AND NOT is_trashed AND live_photo_video_id IS NOT NULL
)
SELECT s.asset_id, s.checksum, s.file_name, s.live_photo_video_id, s.visibility, s.type, s.captured_at,
       s.local_captured_at, s.is_favorite
FROM server s JOIN memory m ON m.checksum = s.checksum
WHERE {ELIGIBLE}
    AND m.observed AND NOT m.anchored
    AND NOT EXISTS (FROM local l WHERE l.checksum = s.checksum)
    AND NOT EXISTS (FROM linked WHERE linked.asset_id = s.asset_id)
ORDER BY s.asset_id
"""

SCOPE_FILTER = f"""
SELECT c.* FROM candidates c JOIN memory m ON m.checksum = c.checksum
WHERE {IN_SCOPE}
ORDER BY c.asset_id
"""

MATCHED = f"""
SELECT count(DISTINCT s.asset_id)
FROM server s JOIN memory m ON m.checksum = s.checksum
WHERE {ELIGIBLE} AND m.observed AND {IN_SCOPE}
"""

# The table of section 4 as one expression; {{guards}} holds the lines that only a candidate goes through.
TABLE = """
CASE
    WHEN excluded_at IS NOT NULL AND confirmed_at > excluded_at THEN {{'bucket': 'review', 'reason': 'deleted_again'}}
    WHEN excluded_at IS NOT NULL THEN {{'bucket': 'dropped', 'reason': 'excluded'}}
    {before}
    WHEN retired AND confirmed_at IS NULL THEN {{'bucket': 'held', 'reason': 'retired_edit'}}
    WHEN due_at > $now THEN {{'bucket': 'held', 'reason': 'quarantine'}}
    {guard}
    WHEN confirmed_at IS NOT NULL THEN {{'bucket': 'delete', 'reason': 'confirmed'}}
    WHEN $trusting THEN {{'bucket': 'delete', 'reason': 'unconfirmed'}}
    ELSE {{'bucket': 'review', 'reason': 'unconfirmed'}}
END
"""

CANDIDATE_TABLE = TABLE.format(
    before="""
    WHEN $history_lost THEN {'bucket': 'review', 'reason': 'history_lost'}
    WHEN detached THEN {'bucket': 'review', 'reason': 'not_vouched_for'}
    WHEN NOT $change_log AND indexed_in IS NOT NULL THEN {'bucket': 'review', 'reason': 'in_other_library'}
    """,
    guard="""
    WHEN cause IS DISTINCT FROM 'retired' AND alive_elsewhere
        THEN {'bucket': 'review', 'reason': 'alive_under_another_checksum'}
    """,
)

MOTION_TABLE = TABLE.format(before="WHEN detached THEN {'bucket': 'review', 'reason': 'not_vouched_for'}", guard="")

# Candidates are few and the relations large: each large one is first cut down to what the candidates touch.
CLASSIFY = f"""
WITH stills AS (
    SELECT DISTINCT live_photo_video_id AS asset_id FROM scoped WHERE live_photo_video_id IS NOT NULL
),
videos AS MATERIALIZED (
    SELECT * FROM server SEMI JOIN stills USING (asset_id)
),
remembered AS MATERIALIZED (
    SELECT *, confirmed_at + to_days($quarantine_days) AS due_at FROM memory
    SEMI JOIN (SELECT checksum FROM scoped UNION SELECT checksum FROM videos) USING (checksum)
),
-- Names and capture seconds of living photos, for the guard 'alive under another checksum'.
candidate_names AS MATERIALIZED (
    SELECT asset_id, lower(file_name) AS name FROM scoped
    UNION
    SELECT asset_id, unnest(names) FROM scoped JOIN remembered USING (checksum)
),
candidate_seconds AS (
    SELECT asset_id, floor(epoch(captured_at))::BIGINT AS second FROM scoped WHERE captured_at IS NOT NULL
    UNION
    SELECT asset_id, floor(epoch(local_captured_at))::BIGINT FROM scoped WHERE local_captured_at IS NOT NULL
),
living AS (
    SELECT lower(file_name) AS name, floor(epoch(captured_at))::BIGINT AS second FROM local
    WHERE captured_at IS NOT NULL AND lower(file_name) IN (SELECT name FROM candidate_names)
),
alive_elsewhere AS MATERIALIZED (
    SELECT DISTINCT n.asset_id
    FROM candidate_names n
    JOIN candidate_seconds t ON t.asset_id = n.asset_id
    JOIN living l ON l.name = n.name AND l.second BETWEEN t.second - 1 AND t.second + 1
),
-- Hidden candidates whose still is known, because it is in the trash itself.
widowed AS (
    SELECT DISTINCT live_photo_video_id AS asset_id FROM server
    WHERE owner_id = $user_id AND is_trashed AND live_photo_video_id IN (SELECT asset_id FROM scoped)
),
by_table AS (
    SELECT c.*, m.due_at, {CANDIDATE_TABLE} AS class
    FROM (SELECT *, asset_id IN (FROM alive_elsewhere) AS alive_elsewhere FROM scoped) c
    JOIN remembered m USING (checksum)
),
tabled AS MATERIALIZED (
    SELECT * REPLACE (
        CASE
            WHEN class.bucket = 'delete' AND visibility = 'hidden' AND asset_id NOT IN (FROM widowed)
                THEN {{'bucket': 'review', 'reason': 'orphan_motion'}}
            ELSE class
        END AS class
    )
    FROM by_table
),
-- What the linked motion video of a still that would go says about the pair.
shared AS (
    SELECT DISTINCT t.asset_id FROM tabled t
    JOIN server s ON s.live_photo_video_id = t.live_photo_video_id AND s.asset_id <> t.asset_id
    WHERE s.owner_id = $user_id AND NOT s.is_trashed
        AND s.asset_id NOT IN (SELECT asset_id FROM tabled WHERE class.bucket = 'delete')
),
alive_videos AS (
    SELECT DISTINCT checksum FROM local SEMI JOIN videos USING (checksum)
),
motion AS (
    SELECT v.asset_id, v.checksum AS motion_checksum, v.is_trashed, m.due_at,
        v.owner_id <> $user_id OR v.visibility = 'locked' OR (v.library_id IS NOT NULL AND NOT $include_external)
            AS off_limits,
        coalesce(m.anchored, false) OR v.checksum IN (FROM alive_videos) AS alive,
        coalesce(m.observed, false) OR m.excluded_at IS NOT NULL AS remembered,
        {MOTION_TABLE} AS class
    FROM videos v LEFT JOIN remembered m ON m.checksum = v.checksum
),
paired AS (
    SELECT t.*, v.motion_checksum AS listed_motion_checksum,
        CASE
            WHEN t.class.bucket <> 'delete'
                THEN {{'bucket': t.class.bucket, 'reason': t.class.reason, 'along': false, 'due_at': t.due_at}}
            WHEN t.live_photo_video_id IS NULL OR t.asset_id IN (FROM shared)
                THEN {{'bucket': 'delete', 'reason': t.class.reason, 'along': false, 'due_at': NULL}}
            WHEN v.asset_id IS NULL
                THEN {{'bucket': 'delete', 'reason': t.class.reason, 'along': true, 'due_at': NULL}}
            WHEN v.is_trashed
                THEN {{'bucket': 'delete', 'reason': t.class.reason, 'along': false, 'due_at': NULL}}
            WHEN v.off_limits THEN {{'bucket': 'review', 'reason': 'motion_foreign', 'along': false, 'due_at': NULL}}
            WHEN v.alive THEN {{'bucket': 'review', 'reason': 'motion_alive', 'along': false, 'due_at': NULL}}
            WHEN v.remembered AND v.class.bucket = 'dropped'
                THEN {{'bucket': 'review', 'reason': 'motion_excluded', 'along': false, 'due_at': NULL}}
            WHEN v.remembered AND v.class.bucket <> 'delete'
                THEN {{'bucket': v.class.bucket, 'reason': v.class.reason, 'along': false, 'due_at': v.due_at}}
            ELSE {{'bucket': 'delete', 'reason': t.class.reason, 'along': true, 'due_at': NULL}}
        END AS final
    FROM tabled t LEFT JOIN motion v ON v.asset_id = t.live_photo_video_id
    WHERE t.class.bucket <> 'dropped'
)
SELECT asset_id, checksum, file_name, visibility, type, captured_at, is_favorite,
    final.bucket AS bucket,
    final.reason AS reason,
    CASE WHEN final.bucket = 'held' THEN final.due_at END AS due_at,
    CASE
        WHEN final.reason = 'retired_edit' THEN $quarantine_days + 1
        WHEN final.bucket = 'held' THEN ceil(epoch_us(final.due_at - $now) / 86400000000)
    END::INTEGER AS days_left,
    CASE WHEN final.along THEN live_photo_video_id END AS motion_id,
    CASE WHEN final.along THEN listed_motion_checksum END AS motion_checksum
FROM paired
ORDER BY asset_id
"""


def diff(con: duckdb.DuckDBPyConnection, policy: Policy) -> duckdb.DuckDBPyRelation:
    """Candidates (engine.relations.CANDIDATES) from ``server``, ``local`` and ``memory`` (spec, item 5.5)."""
    return _sql(con, DIFF, policy)


def scope_filter(con: duckdb.DuckDBPyConnection, policy: Policy) -> duckdb.DuckDBPyRelation:
    """The ``candidates`` within the indexing scope, by the album tags in ``memory`` (spec, Scope semantics)."""
    return _sql(con, SCOPE_FILTER, policy)


def classify(con: duckdb.DuckDBPyConnection, policy: Policy) -> duckdb.DuckDBPyRelation:
    """The bucket of each candidate (engine.relations.DECISION) from ``scoped``, ``server``, ``local``, ``memory``."""
    return _sql(con, CLASSIFY, policy)


def matched(con: duckdb.DuckDBPyConnection, policy: Policy) -> int:
    """How many assets of ``server`` this partition knows: the threshold's base (docs/rules.md, section 3)."""
    ((count,),) = _sql(con, MATCHED, policy).fetchall()
    return int(count)


def _sql(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> duckdb.DuckDBPyRelation:
    values: dict[str, object] = {
        "user_id": policy.user_id,
        "now": policy.now,
        "trusting": policy.strictness == "trusting",
        "quarantine_days": policy.quarantine_days,
        "full_library": policy.selected_albums is None,
        "selected_albums": list(policy.selected_albums or ()) or [""],  # no album has an empty id
        "include_external": policy.include_external,
        "change_log": policy.change_log,
        "history_lost": policy.history_lost,
    }
    return con.sql(query, params={key: value for key, value in values.items() if f"${key}" in query})
