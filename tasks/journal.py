"""Step 11, journal: close a run. Read the tag's members back, tag the missing again, and count the outcome."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine.errors import DeletionSyncError
from engine.runs import tag_name
from server.client import PhotoServer
from state import journal
from tasks import clock
from tasks.batch import ids_of, unit_of
from tasks.context import Context, open_context
from tasks.files import write_json
from tasks.refs import RunRef
from tasks.settle import open_lines, settle, tidy_tag
from tasks.step import Step

OUTCOME = "outcome.json"


def close(run: RunRef) -> dict[str, Any]:
    """Write outcome.json and the journal's run_finished line. Returns the counts of units by last status and notes.

    Raises ServerError when the outcome of something sent is still unknown: the run stays open, and is settled later.
    """
    context = open_context(run)
    if run.run_id in open_lines(context.partition):
        with context.server() as server:
            settle(context.partition, server)
    lines = journal.state_of_run(journal.read(context.partition).records, run.run_id)
    trashed = ids_of(unit_of(line) for line in lines.values() if line.status == "trashed")
    failed = [
        asset for asset in ids_of(unit_of(x) for x in lines.values() if x.status == "failed") if asset not in trashed
    ]
    notes: list[str] = []
    if lines:
        with context.server() as server:
            notes += _tag_again(context, server, trashed)
            tidy_tag(context.partition, server, run.run_id, failed)
    statuses = Counter(line.status for line in lines.values())
    outcome: dict[str, Any] = {
        "trashed": statuses["trashed"],
        "trashed_assets": len(trashed),
        "failed": statuses["failed"],
        "notes": notes,
    }
    write_json(context.folder / OUTCOME, outcome)
    journal.append(context.partition, [journal.decision(journal.RUN_FINISHED, clock.now(), outcome, run.run_id)])
    return outcome


def _tag_again(context: Context, server: PhotoServer, trashed: list[str]) -> list[str]:
    """The server can lose a tagging while it re-reads an asset's metadata: compare, and tag the missing once more."""
    if not trashed:
        return []
    try:
        tag_id = server.upsert_tag(tag_name(context.run.run_id)).id
        members = server.tag_members(tag_id)
        missing = [asset_id for asset_id in trashed if asset_id not in members]
        if missing:
            server.tag_assets(tag_id, missing)
            return [f"{len(missing)} assets had lost the run's tag and were tagged again."]
    except DeletionSyncError as error:
        return [f"The run's tag could not be checked: {error.what}"]
    return []


STEP = Step("journal", close)
