"""What a Prefect run tells while it goes: a line per step with its figures, and how far it is.

No file name, address or key is told here: logs and progress are stored in Prefect's database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger

from tasks import progress
from tasks.refs import Ref
from tasks.summary import TRASHED, Summary

# Step name to what its rows are; the order is the pipeline's.
ROWS = {
    "enumerate": "local files listed",
    "hash": "of them known by their bytes",
    "merge_observed": "checksums remembered",
    "fetch_server_assets": "photos of the server listed",
    "diff": "were here once and are on the server only",
    "scope_filter": "of these are in scope",
    "classify": "judged",
    "rails": "photos to be moved to the server's trash",
}
EVERY_SECONDS = 2.0
SPARE = 0.01  # what is left for closing the run


def step_line(name: str, result: Any) -> str:
    """One sentence on a step that ended: its rows, or its counts."""
    if isinstance(result, Ref):
        return f"{name}: {result.rows:,} {ROWS.get(name, 'photos')}."
    if isinstance(result, dict):
        counts = [f"{count:,} {word}" for word, count in result.items() if isinstance(count, int)]
        return f"{name}: {', '.join(counts) or 'done'}."
    return f"{name}: done."


def end_lines(summary: Summary) -> list[str]:
    """The outcome with its figures, and what to do next."""
    counts = ", ".join(f"{count:,} {word.replace('_', ' ')}" for word, count in summary.counts.items() if count)
    outcome = f"{summary.outcome}, rail {summary.rail}" if summary.rail else summary.outcome
    if nothing_moved(summary):
        outcome = "nothing was moved"
    lines = [f"Ended: {outcome}{f' ({counts})' if counts else ''}."]
    return [*lines, f"Next: {summary.next_step}"] if summary.next_step else lines


def nothing_moved(summary: Summary) -> bool:
    """Whether all of an approved plan was left out at the last look."""
    return summary.outcome == TRASHED and not summary.counts.get("trashed")


def log(line: str) -> None:
    get_run_logger().info(line)


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show how far the run is as a progress artifact, at most every two seconds."""
    artifact = create_progress_artifact(0.0, key="progress", description="How far this run is.")
    steps = list(ROWS)
    shown_at = time.monotonic()

    def sink(phase: str, done: int, total: int | None) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at < EVERY_SECONDS or phase not in ROWS:
            return
        share = min(1.0, done / total) if total else 0.0
        shown_at = time.monotonic()
        _update(artifact, 100 * (1 - SPARE) * (steps.index(phase) + share) / len(steps), phase)

    with progress.shown_by(sink):
        yield
    _update(artifact, 100.0, "ended")


def _update(artifact: Any, percent: float, phase: str) -> None:
    """That it cannot be shown stops no run."""
    try:
        update_progress_artifact(artifact, progress=round(percent, 1), description=phase)
    except Exception as error:  # Prefect's client raises what httpx and pydantic do
        get_run_logger().debug("The progress could not be shown: %s", type(error).__name__)
