"""Step 10, delete: move one tagged batch to the server's trash, and journal what the server says became of it.

Never cached, never retried by the pipeline. The client reads back before it sends anything a second time.
"""

from __future__ import annotations

from datetime import timedelta

from engine.plan import Unit
from server.client import TrashOutcome
from state import journal
from state.exclusions import held_exclusions
from state.journal import Record
from tasks import clock, progress
from tasks.batch import read_batch, record
from tasks.context import open_context
from tasks.files import verified
from tasks.liveness import GONE, PROTECTED, TRASHED, keep_shared_motions, look_again
from tasks.refs import Ref, RunRef
from tasks.step import Step

NOT_TRASHED = "the server did not trash it"


LOOK_LASTS = timedelta(seconds=60)  # how long the last look of the tag step holds


def delete(run: RunRef, batch: Ref) -> dict[str, int]:
    """Trash the units of a batch file. Returns how many were trashed and how many failed (spec, item 5.9).

    The exclusions are read under their lock, which is held until the server has answered: an exclusion
    that a person was told of before is honoured (invariant 4). Nothing else that takes time happens under it.
    """
    context = open_context(run)
    looked_at, units = read_batch(verified(context.folder, batch))
    if not units:
        return {"trashed": 0, "failed": 0}
    with context.server() as server:
        looked, reasons = units, dict[str, str]()
        if not timedelta(0) <= clock.naive_now() - looked_at <= LOOK_LASTS:  # the computer slept, say
            with held_exclusions(context.partition) as found:
                excluded = found
            again = look_again(context, server, units, excluded)
            looked, reasons = again.units, dict(again.dropped)
        with held_exclusions(context.partition) as excluded:
            reasons |= {unit.asset_id: PROTECTED for unit in looked if excluded.intersection(unit.checksums)}
            staying = [unit for unit in units if reasons.get(unit.asset_id, GONE) not in (GONE, TRASHED)]
            going = keep_shared_motions([unit for unit in looked if unit.asset_id not in reasons], staying)
            outcome = server.trash_units([unit.ids for unit in going])
            lines = [line for unit in going for line in lines_of(run.run_id, unit, outcome)]
            lines += [
                record(run.run_id, "failed", unit, reasons[unit.asset_id]) for unit in units if unit.asset_id in reasons
            ]
            journal.append(context.partition, lines)
    counts = {status: sum(line.status == status for line in lines) for status in ("trashed", "failed")}
    progress.report("delete", counts["trashed"], len(units))
    return counts


def lines_of(run_id: str, unit: Unit, outcome: TrashOutcome) -> list[Record]:
    """The journal lines about one unit. Half a pair in the trash is two lines, so that restore finds that half.

    What the server has not settled yet gets none: its last line stays `tagged`, and tasks.settle asks again.
    """
    if outcome.unknown.keys() & set(unit.ids):
        return []
    gone = outcome.trashed | outcome.already_trashed
    if all(asset_id in gone for asset_id in unit.ids):
        return [record(run_id, "trashed", unit)]
    if not gone.intersection(unit.ids):
        return [record(run_id, "failed", unit, outcome.failed.get(unit.asset_id, NOT_TRASHED))]
    lines = []
    for asset_id, checksum in ((unit.asset_id, unit.checksum), (unit.motion_id, unit.motion_checksum)):
        if asset_id is None:
            continue
        half = Unit(asset_id, checksum or "", unit.file_name, unit.reason)
        if asset_id in gone:
            lines.append(record(run_id, "trashed", half))
        else:
            lines.append(record(run_id, "failed", half, outcome.failed.get(asset_id, NOT_TRASHED)))
    return lines


STEP = Step("delete", delete)
