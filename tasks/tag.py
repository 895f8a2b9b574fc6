"""Step 9, tag: look again, journal what is planned, and attach the run's tag, one batch at a time.

Never cached, never retried by the pipeline: a second call of a finished batch finds it in the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine import plan
from engine.errors import DeletionSyncError
from engine.plan import Unit
from engine.runs import tag_name
from server.client import PhotoServer
from state import journal
from state.exclusions import held_exclusions
from tasks import clock, progress
from tasks.batch import ids_of, record, write_batch
from tasks.context import Context, open_context
from tasks.files import verified
from tasks.liveness import look_again
from tasks.rails import read_plan
from tasks.refs import Ref, RunRef
from tasks.settle import tidy_tag
from tasks.step import Step

DONE = ("trashed", "restored")


def batch_path(folder: Path, index: int) -> Path:
    return folder / f"batch-{index:05d}.json"


def tag(run: RunRef, plan_ref: Ref, index: int) -> Ref:
    """Batch ``index`` of the plan: journal ``planned``, tag, journal ``tagged``; write batch-<index>.json.

    A trashed asset without a tag can therefore not occur (spec, Trash run tag; design decision on the order).
    """
    context = open_context(run)
    verified(context.folder, plan_ref)
    _, units = read_plan(context.folder)
    batch = plan.batches(units)[index]
    path = batch_path(context.folder, index)
    done = journal.state_of_run(journal.read(context.partition).records, run.run_id)
    left = [unit for unit in batch if unit.asset_id not in done or done[unit.asset_id].status not in DONE]
    with held_exclusions(context.partition) as exclusions:
        excluded = frozenset(exclusions)
    looked_at = clock.naive_now()
    with context.server() as server:
        looked = look_again(context, server, left, excluded)
        if not looked.units:
            return write_batch(path, looked_at, None, (), looked.dropped)
        journal.append(context.partition, [record(run.run_id, "planned", unit) for unit in looked.units])
        tag_id = _attach(context, server, looked.units)
    journal.append(context.partition, [record(run.run_id, "tagged", unit) for unit in looked.units])
    progress.report("tag", index + 1, len(plan.batches(units)))
    return write_batch(path, looked_at, tag_id, looked.units, looked.dropped)


def _attach(context: Context, server: PhotoServer, units: Sequence[Unit]) -> str:
    """The run's tag, attached to the units in one call. Raises what the server said, after journaling the failure."""
    tag_id = None
    try:
        found = server.upsert_tag(tag_name(context.run.run_id))
        tag_id = found.id
        server.tag_assets(tag_id, ids_of(units))
    except DeletionSyncError as error:
        journal.append(
            context.partition,
            [record(context.run.run_id, "failed", unit, f"not tagged: {error.what}") for unit in units],
        )
        if tag_id is not None:
            tidy_tag(context.partition, server, context.run.run_id, ids_of(units))
        raise
    return tag_id


STEP = Step("tag", tag)
