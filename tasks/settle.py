"""What an interrupted run left open: settled by asking the server, before anything else is written.

A line `planned` or `tagged` without an outcome means that the process died in between. The server knows what happened.
"""

from __future__ import annotations

from engine.errors import DeletionSyncError
from engine.runs import tag_name
from server.client import PhotoServer
from state import journal
from state.journal import Record
from state.partition import Partition
from tasks.batch import ids_of, record, unit_of

OPEN = ("planned", "tagged")


def open_lines(partition: Partition) -> dict[str, list[Record]]:
    """Per run id: the last line of each asset whose outcome is not known."""
    found = {
        run_id: [line for line in assets.values() if line.status in OPEN]
        for run_id, assets in journal.fold(journal.read(partition).records).items()
    }
    return {run_id: lines for run_id, lines in found.items() if lines}


def settle(partition: Partition, server: PhotoServer) -> int:
    """Journal the outcome of every open line by what the server shows. Returns how many lines that were.

    Needs the partition's lock. A unit with any of its assets in the trash counts as trashed, so that restore finds it.
    """
    settled = 0
    for run_id, lines in open_lines(partition).items():
        units = [unit_of(line) for line in lines]
        states = server.assets_by_id(ids_of(units))
        trashed = {asset_id for asset_id, state in states.items() if state is not None and state.is_trashed}
        going = [unit for unit in units if trashed.intersection(unit.ids)]
        staying = [unit for unit in units if unit not in going]
        journal.append(
            partition,
            [record(run_id, "trashed", unit, "found in the trash after an interruption") for unit in going]
            + [record(run_id, "failed", unit, "interrupted before it was trashed") for unit in staying],
        )
        tidy_tag(partition, server, run_id, ids_of(staying))
        settled += len(lines)
    return settled


def tidy_tag(partition: Partition, server: PhotoServer, run_id: str, untrashed: list[str]) -> None:
    """Take the run's tag off what stayed, and remove it when nothing carries it. Best effort: a tag harms nobody."""
    if not untrashed:
        return
    try:
        tag_id = server.upsert_tag(tag_name(run_id)).id
        server.untag_assets(tag_id, untrashed)
        statuses = journal.state_of_run(journal.read(partition).records, run_id).values()
        if all(line.status == "failed" for line in statuses):
            server.delete_tag(tag_id)
    except DeletionSyncError:
        return
