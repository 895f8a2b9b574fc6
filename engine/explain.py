"""Why an asset is treated as it is: finds what was asked about and gathers its facts, by SQL over one run's relations.

It shows what the steps decided and decides nothing. What is said is in explain_lines.py and explain_ending.py.
"""

from __future__ import annotations

import base64
import binascii
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.explain_ending import ending
from engine.explain_lines import Explanation, Line, RunFacts, Says, lines, of_run

if TYPE_CHECKING:
    import duckdb

__all__ = ["Explanation", "Line", "RunFacts", "Says", "checksum_of", "explain"]

_HEX = re.compile(r"[0-9a-fA-F]{40}")

# Names are compared in one Unicode form and without case, because a terminal and a file system differ in both.
ASKED = """
CREATE OR REPLACE TEMP TABLE asked AS
WITH target AS (SELECT lower(nfc_normalize($what)) AS name, $checksum AS checksum, lower($what) AS id),
content AS (
    SELECT l.checksum FROM local l, target t WHERE l.checksum IS NOT NULL AND (l.checksum = t.checksum
        OR lower(nfc_normalize(l.file_name)) = t.name OR lower(nfc_normalize(l.local_id)) = t.name)
    UNION
    SELECT m.checksum FROM memory m, target t
    WHERE m.checksum = t.checksum OR list_contains(list_transform(m.names, lambda n: nfc_normalize(n)), t.name)
)
SELECT s.asset_id, s.checksum FROM server s, target t
WHERE s.asset_id = t.id OR s.checksum = t.checksum OR lower(nfc_normalize(s.file_name)) = t.name
    OR s.checksum IN (FROM content)
UNION
SELECT NULL, checksum FROM content WHERE checksum NOT IN (SELECT checksum FROM server)
UNION
SELECT d.motion_id, d.motion_checksum FROM decision d, target t
WHERE (d.motion_id = t.id OR d.motion_checksum = t.checksum) AND d.motion_id NOT IN (SELECT asset_id FROM server)
"""

UNREAD = """
SELECT library_id, local_id, file_name FROM local
WHERE checksum IS NULL
    AND lower(nfc_normalize($what)) IN (lower(nfc_normalize(file_name)), lower(nfc_normalize(local_id)))
ORDER BY ALL
"""

FACTS = """
WITH pairs AS (
    SELECT a.asset_id, a.checksum, v.asset_id AS video_id, v.checksum AS video_checksum
    FROM asked a LEFT JOIN server s ON s.asset_id = a.asset_id LEFT JOIN server v ON v.asset_id = s.live_photo_video_id
),
wanted AS (SELECT checksum FROM pairs UNION SELECT video_checksum FROM pairs),
alive AS (
    SELECT checksum, list(library_id || ': ' || local_id || if(trashed, ' (in its trash)', '') ORDER BY ALL) AS files
    FROM (
        SELECT checksum, library_id, local_id, bool_and(in_trash IS TRUE) AS trashed
        FROM local SEMI JOIN wanted USING (checksum) GROUP BY ALL
    )
    GROUP BY checksum
),
own AS (FROM server WHERE owner_id = $user_id),
stills AS (
    SELECT o.live_photo_video_id AS video_id, o.asset_id, o.is_trashed, o.file_name, d.bucket
    FROM own o LEFT JOIN decision d USING (asset_id)
    WHERE o.live_photo_video_id IN (SELECT asset_id FROM pairs UNION SELECT video_id FROM pairs)
),
asked_names AS (
    SELECT a.asset_id, lower(s.file_name) AS name FROM asked a JOIN server s USING (asset_id)
    UNION SELECT a.asset_id, unnest(m.names) FROM asked a JOIN memory m USING (checksum) WHERE a.asset_id IS NOT NULL
),
asked_seconds AS (
    SELECT asset_id, floor(epoch(unnest([captured_at, local_captured_at])))::BIGINT AS second
    FROM server SEMI JOIN asked USING (asset_id)
),
elsewhere AS (
    SELECT a.asset_id, list(DISTINCT l.library_id || ': ' || l.local_id ORDER BY l.library_id || ': ' || l.local_id)
        AS files
    FROM asked a JOIN asked_names n USING (asset_id) JOIN asked_seconds t USING (asset_id)
    JOIN local l ON lower(l.file_name) = n.name AND l.checksum IS DISTINCT FROM a.checksum
        AND floor(epoch(l.captured_at))::BIGINT BETWEEN t.second - 1 AND t.second + 1
    GROUP BY a.asset_id
)
SELECT p.asset_id, p.checksum, p.video_id,
    s.asset_id IS NOT NULL AS on_server, s.file_name, s.owner_id, s.is_trashed, s.visibility, s.type,
    s.library_id AS external, s.live_photo_video_id,
    coalesce(m.names, []) AS names, coalesce(m.observed, false) AS observed, coalesce(m.albums, []) AS albums,
    m.confirmed_at, m.confirmed_at + to_days($quarantine_days) AS due, m.cause, m.excluded_at,
    coalesce(m.anchored, false) AS anchored, coalesce(m.retired, false) AS retired,
    coalesce(m.detached, false) AS detached, m.indexed_in,
    coalesce(alive.files, []) AS alive, coalesce(elsewhere.files, []) AS elsewhere,
    p.asset_id IN (SELECT asset_id FROM candidates) AS candidate, p.asset_id IN (SELECT asset_id FROM scoped) AS scoped,
    d.bucket, d.reason, d.due_at, d.days_left, d.motion_id,
    (SELECT list({'id': asset_id, 'name': file_name, 'trashed': is_trashed} ORDER BY asset_id) FROM stills
        WHERE stills.video_id = p.asset_id) AS stills,
    (SELECT list(file_name ORDER BY asset_id) FROM stills WHERE stills.video_id = p.video_id
        AND stills.asset_id <> p.asset_id AND NOT is_trashed AND bucket IS DISTINCT FROM 'delete') AS sharing,
    g.asset_id AS still_id, g.checksum AS still_checksum, g.file_name AS still_name, g.bucket AS still_bucket,
    g.reason AS still_reason,
    v.file_name AS video_name, v.is_trashed AS video_trashed, v.owner_id AS video_owner,
    v.visibility AS video_visibility,
    coalesce(va.files, []) AS video_alive, coalesce(vm.anchored, false) AS video_anchored,
    vm.excluded_at AS video_excluded_at, vm.confirmed_at AS video_confirmed_at, vm.observed AS video_observed,
    vm.confirmed_at + to_days($quarantine_days) AS video_due, coalesce(vm.retired, false) AS video_retired
FROM pairs p
LEFT JOIN server s ON s.asset_id = p.asset_id
LEFT JOIN memory m ON m.checksum = p.checksum
LEFT JOIN alive ON alive.checksum = p.checksum
LEFT JOIN elsewhere ON elsewhere.asset_id = p.asset_id
LEFT JOIN decision d ON d.asset_id = p.asset_id
LEFT JOIN (SELECT motion_id, min(asset_id) AS still_id FROM decision GROUP BY motion_id) gs ON gs.motion_id = p.asset_id
LEFT JOIN decision g ON g.asset_id = gs.still_id
LEFT JOIN server v ON v.asset_id = p.video_id
LEFT JOIN alive va ON va.checksum = v.checksum
LEFT JOIN memory vm ON vm.checksum = v.checksum
ORDER BY lower(s.file_name), p.asset_id, p.checksum
"""


def explain(con: duckdb.DuckDBPyConnection, what: str, run: RunFacts) -> tuple[Explanation, ...]:
    """One explanation per asset, or per checksum without an asset, that ``what`` names; none where nothing matches.

    ``what`` is a checksum (base64, or 40 hexadecimal digits), an asset id, a file name or a local id; names match in
    any case. Reads ``local``, ``memory``, ``server``, ``candidates``, ``scoped`` and ``decision`` (engine.relations);
    those that the run did not write are empty, and ``run.has`` names the others. Makes the temporary table ``asked``.
    """
    con.execute(ASKED, {"what": what, "checksum": checksum_of(what)})
    policy = run.policy
    answer = con.execute(FACTS, {"user_id": policy.user_id, "quarantine_days": policy.quarantine_days})
    columns = [column[0] for column in answer.description or ()]
    found = [_explained(SimpleNamespace(**dict(zip(columns, row, strict=True))), run) for row in answer.fetchall()]
    gaps = con.execute(UNREAD, {"what": what}).fetchall()
    return (*found, *(_unread(library_id, local_id, name, run) for library_id, local_id, name in gaps))


def checksum_of(what: str) -> str | None:
    """The base64 checksum that the text is, or stands for in hexadecimal; None for any other text."""
    if _HEX.fullmatch(what):
        return base64.b64encode(bytes.fromhex(what)).decode()
    try:
        digest = base64.b64decode(what, validate=True)
    except (ValueError, binascii.Error):
        return None
    return base64.b64encode(digest).decode() if len(digest) == 20 else None


def _explained(facts: SimpleNamespace, run: RunFacts) -> Explanation:
    said = tuple(lines(facts, run))
    return Explanation(
        asset_id=facts.asset_id,
        checksum=facts.checksum,
        file_name=facts.file_name or facts.still_name or next(iter(facts.names), ""),
        bucket=facts.bucket or facts.still_bucket,
        reason=facts.reason or facts.still_reason,
        lines=said,
        conclusion=ending(facts, run, said),
    )


def _unread(library_id: str, local_id: str, name: str, run: RunFacts) -> Explanation:
    """A local part that has no checksum: no rule can tell what it is, and the run was incomplete by it."""
    line = Line("alive", Says.SILENT, f"In {library_id}: {local_id}, but it could not be read, so it has no checksum.")
    conclusion = f"Nothing goes while it cannot be read: make {local_id} readable, and run again."
    return Explanation(None, None, name, None, None, (line, *of_run(None, run)), conclusion)
