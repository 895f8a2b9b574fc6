"""What a person is shown, and accepts, when a library's listing lost more than half of it (rail `collapse`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from engine.collapse import lost_files
from engine.errors import ConfirmationNeeded
from state import journal
from state.db import reading, writing
from state.libraries import accept_losses
from state.lock import partition_lock
from state.partition import Partition
from state.runs import runs
from tasks import clock
from tasks.files import quoted, read_json
from tasks.hash import LOCAL
from tasks.merge_observed import FACTS, verdict_of


@dataclass(frozen=True, slots=True)
class LastLoss:
    """What a library lacked at the newest run that read it: counts of local ids, and (local id, file name) of each."""

    run_id: str
    seen_at: datetime
    held: int
    lost: int
    files: list[tuple[str, str]]


def last_loss(partition: Partition, library_id: str) -> LastLoss | None:
    """Of the newest run that read the libraries; None: nothing was missing then, or there was no such run.

    Raises ConfirmationNeeded where that run could not read them whole: what it missed may be there.
    """
    with reading(partition) as con:
        for run in runs(con, "flow <> 'restore'"):
            folder = partition.runs / run.run_id
            if not (folder / FACTS).exists():
                continue
            facts = read_json(folder / FACTS)
            losses, verdict = facts.get("losses", {}), verdict_of(facts["verdict"])
            if not verdict.passed and verdict.rail != "collapse":
                raise ConfirmationNeeded(
                    f"The last run could not read the libraries, so it tells of no loss: {verdict.what}",
                    f"{verdict.next_step} Then `deletion-sync dry-run` shows what is really missing.",
                )
            if library_id not in losses:
                return None
            con.execute(f"CREATE TEMP VIEW local AS FROM read_parquet({quoted(folder / LOCAL)})")
            con.execute("CREATE TEMP TABLE handed_over (library_id VARCHAR, local_id VARCHAR)")
            held, lost = losses[library_id]
            return LastLoss(run.run_id, run.started_at, held, lost, lost_files(con, library_id))
    return None


def accept(partition: Partition, library_id: str, loss: LastLoss) -> None:
    """A person says that these photos really were deleted: the next run may count them. Raises PartitionBusy."""
    with partition_lock(partition, "library accept"):
        details = {"library_id": library_id, "held": loss.held, "lost": loss.lost, "seen_in": loss.run_id}
        journal.append(partition, [journal.decision("library_accept", clock.now(), details)])
        with writing(partition) as con:
            accept_losses(con, library_id, [local_id for local_id, _ in loss.files])
