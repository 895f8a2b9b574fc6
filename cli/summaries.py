"""A run's summary in sentences, its exit code, and what an interruption left behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.output import note, plural, say
from engine.errors import DeletionSyncError, PartlyDone, RailTripped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.journal import Record
    from tasks.summary import Summary


def exit_code(summary: Summary) -> int:
    """0 done, 1 failed, 3 aborted by a rail, 5 done in part (design, Decisions: exit codes)."""
    from tasks.summary import ABORTED, FAILED, PARTLY

    codes = {
        ABORTED: RailTripped.exit_code,
        FAILED: DeletionSyncError.exit_code,
        PARTLY: PartlyDone.exit_code,
    }
    return codes.get(summary.outcome, 0)


def tell(summary: Summary) -> None:
    """Print what became of the run. A failure reads as one; held and review are counted once each."""
    say(headline(summary))
    counts = summary.counts
    if "matched" in counts:
        here, there = plural(counts["local"], "photo or video", "photos and videos"), counts["server"]
        say(f"Compared: {here} here, {there:,} on the server, {counts['matched']:,} on both sides.")
    if counts.get("pending"):
        say(f"Pending: {counts['pending']:,} ({counts['held']:,} held, {counts['review']:,} waiting for your review).")
    took = "" if summary.flow == "apply" else f", {summary.durationMs / 1000:.1f} s"  # it began with the plan
    say(f"Run {summary.run_id}{took}")
    for line in (*summary.notes, summary.next_step):
        if line:
            note(line)


def headline(summary: Summary) -> str:
    """What became of a run, in one sentence."""
    from tasks.summary import ABORTED, NOTHING, PARTLY, PLANNED, RESTORED, TRASHED

    counts = summary.counts
    failed = f"{counts.get('failed', 0):,} failed"
    if summary.flow == "restore":
        restored = f"{plural(counts.get('restored', 0), 'photo')} restored"
        words = {NOTHING: "Nothing to restore.", RESTORED: f"{restored}.", PARTLY: f"In part: {restored}, {failed}."}
        return words.get(summary.outcome, f"Not restored: {failed}.")
    trashed = f"{plural(counts.get('trashed', 0), 'photo')} moved to the server's trash"
    planned = f"{plural(counts.get('delete', 0), 'photo')} ({plural(counts.get('to_trash', 0), 'asset')})"
    words = {
        NOTHING: "Nothing is to be trashed.",
        PLANNED: f"{planned} would be moved to the server's trash.",
        ABORTED: f"Aborted by the safety rail {summary.rail}. Nothing was trashed.",
        TRASHED: f"{trashed}." if not counts.get("left_out") else f"{trashed}, {counts['left_out']:,} left out.",
        PARTLY: f"In part: {trashed}, {failed}.",
    }
    if summary.outcome == TRASHED and not counts.get("trashed"):
        return f"Nothing was moved: what you approved had changed. {counts.get('left_out', 0):,} left out."
    return words.get(summary.outcome, f"Failed: nothing was trashed, {failed}.")


def left_behind(runs: Mapping[str, Mapping[str, Record]]) -> str:
    """What an interrupted command had written to the journal by then (state.journal.fold)."""
    statuses = Counter(line.status for assets in runs.values() for line in assets.values())
    if not statuses:
        return "Nothing had been sent to the trash."
    doubtful = statuses["planned"] + statuses["tagged"]
    parts = [f"{plural(statuses['trashed'], 'photo')} had been moved to the trash"]
    if doubtful:
        parts.append(f"{doubtful:,} on the way: the next run asks the server what became of them")
    undo = " or ".join(f"`deletion-sync restore --run-id {run_id}`" for run_id in runs)
    return f"{'; '.join(parts)}. Undo with {undo}."
