"""The run summary: what a run was, what it found, what became of it, and what to do next (spec, run summary)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.policy import Verdict
from state.db import writing
from state.partition import Partition
from state.runs import FIRST_DRY_RUN, HISTORY_LOST, RunRecord, clear_fact, record, set_fact
from tasks import clock
from tasks.context import Context, iso
from tasks.files import read_json, write_json

SUMMARY = "summary.json"

NOTHING, PLANNED, ABORTED, TRASHED, PARTLY, FAILED, RESTORED = (
    "nothing to do",
    "planned",
    "aborted",
    "trashed",
    "done in part",
    "failed",
    "restored",
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one run. ``counts`` holds numbers per step and bucket; ``notes`` are sentences for a person."""

    run_id: str
    flow: str
    way: str
    dry_run: bool
    started_at: str
    durationMs: int
    outcome: str
    rail: str | None = None
    digest: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    next_step: str = ""


def summarize(
    context: Context,
    outcome: str,
    *,
    verdict: Verdict | None = None,
    digest: str | None = None,
    counts: dict[str, int] | None = None,
    notes: tuple[str, ...] = (),
    next_step: str = "",
) -> Summary:
    """Write summary.json and the run's row. A finished dry run counts as the partition's first one (spec, item 8.3)."""
    now = clock.naive_now()
    duration = max(0, round((time.time() - context.facts["started_system"]) * 1000))
    rail = verdict.rail if verdict is not None else None
    if verdict is not None and not verdict.passed:
        notes = (verdict.what, *notes)
        next_step = next_step or verdict.next_step
    summary = Summary(
        context.run.run_id, context.facts["flow"], context.facts["way"], context.facts["dry_run"],
        stamp_of(context), duration, outcome, rail, digest, counts or {}, notes, next_step,
    )  # fmt: skip
    write_json(context.folder / SUMMARY, asdict(summary))
    numbers = summary.counts
    with writing(context.partition) as con:
        record(
            con,
            RunRecord(
                summary.run_id, summary.flow, summary.way, summary.dry_run, context.started_at, outcome, duration, rail,
                numbers.get("local"), numbers.get("server"), numbers.get("matched"), numbers.get("trashed"), digest,
            ),
        )  # fmt: skip
        if summary.dry_run and rail is None and outcome in (NOTHING, PLANNED):
            set_fact(con, FIRST_DRY_RUN, iso(now), keep_first=True)
        if digest is not None and rail is None and summary.flow == "full" and outcome in (NOTHING, PLANNED, TRASHED):
            clear_fact(con, HISTORY_LOST)  # its candidates were shown
    return summary


def stamp_of(context: Context) -> str:
    """When the run began: UTC, RFC 3339."""
    return context.started_at.isoformat(timespec="milliseconds") + "Z"


def read_summary(partition: Partition, run_id: str) -> dict[str, Any]:
    """summary.json of a run. Raises DeletionSyncError when there is none."""
    return read_json(Path(partition.runs / run_id / SUMMARY))
