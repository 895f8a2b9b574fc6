"""What a Prefect run shows a person: the summary artifact, and a final state that says what happened."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prefect import runtime
from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed

from engine.errors import ConfirmationNeeded, DeletionSyncError, UsageError
from engine.reasons import REASONS
from engine.runs import tag_name
from flows import notices, telling
from flows.naming import RECONCILE, is_dry
from flows.pictures import picture_cells
from flows.withheld import Withheld, name_of
from state.partition import Partition
from tasks.context import run_folder
from tasks.files import quoted, read_json
from tasks.opening import find_partition
from tasks.restore import BECAME
from tasks.summary import ABORTED, FAILED, NOTHING, PARTLY, PLANNED, RESTORED, TRASHED, Summary

KEY = "summary"
ROWS = 100  # more than this makes the page slow

# An outcome's heading: the first thing that a person reads of a run.
HEADINGS = {
    NOTHING: "Nothing to do",
    PLANNED: "Planned: your review is needed",
    TRASHED: "Moved to the server's trash",
    PARTLY: "Done in part",
    FAILED: "Failed",
    RESTORED: "Brought back",
}
FIGURES = {
    "local": "photos and videos here",
    "server": "on the server",
    "matched": "on both sides, in scope",
    "delete": "to be moved to the trash",
    "to_trash": "with their motion videos",
    "held": "held in quarantine",
    "review": "for your review",
    "trashed": "moved to the trash",
    "failed": "failed",
    "left_out": "left out at the last look",
    "restored": "brought back",
    "excluded": "protected from later runs",
}
# Markdown's own: what becomes markup by itself, and what does in pairs (an underscore only at the edge of a word).
_ALWAYS = re.compile(r"[\[\]|]|&(?=[#\w]+;)|^[-+#>]")
_PAIRS = tuple(map(re.compile, (r"\*+", r"~+", r"`+", r"(?<![^\W_])_+|_+(?![^\W_])")))

BUCKETS = {"delete": "goes", "pending": "held", "held": "held", "review": "review"}


def run_and_show(partition_name: str, work: Callable[[], Summary]) -> Any:
    """Run ``work``, notify, show its summary, and return the final state. What it raises is shown too.

    An error of ours becomes a failed state that names it, without its text; any other one is raised.
    """
    dry_run = is_dry(runtime.flow_run.flow_name, runtime.flow_run.parameters)
    try:
        with telling.shown_progress():
            summary = work()
    except DeletionSyncError as error:
        return _failed(partition_name, error, dry_run=dry_run)
    except Exception as error:
        notices.tell(partition_name, error, dry_run=dry_run)
        raise
    for line in telling.end_lines(summary):
        telling.log(line)
    notices.tell(partition_name, summary, dry_run=dry_run)  # first: whether a page can be shown is up to Prefect
    _show(lambda: markdown(summary, partition_name), summary.outcome)
    return final_state(summary)


def _failed(partition_name: str, error: DeletionSyncError, *, dry_run: bool) -> Any:
    by_hand = runtime.flow_run.flow_name != RECONCILE
    if not (by_hand and isinstance(error, UsageError | ConfirmationNeeded)):  # who asked for it sees it
        notices.tell(partition_name, error, dry_run=dry_run)
    lines = ["# Failed", "", _plain(error.what), "", f"**Next:** {_plain(error.next_step)}"]
    _show(lambda: "\n".join(lines), "failed")
    return Failed(message=name_of(error), data=Withheld(error))


def _show(page: Callable[[], str], description: str) -> None:
    """That it cannot be made or shown changes no outcome: what was trashed was trashed."""
    try:
        create_markdown_artifact(markdown=page(), key=KEY, description=description)
    except Exception as error:  # Prefect's client raises what httpx and pydantic do
        telling.log(f"The summary page could not be written ({type(error).__name__}).")


def final_state(summary: Summary) -> Any:
    """Completed or Failed, with a message such as `planned 12, review needed` or `rail: threshold`."""
    numbers = summary.counts
    if summary.outcome == ABORTED:
        return Failed(message=f"rail: {summary.rail}", data=asdict(summary))
    if summary.outcome in (FAILED, PARTLY):
        return Failed(message=f"{summary.outcome}: {numbers.get('failed', 0)} failed", data=asdict(summary))
    if summary.outcome == PLANNED:
        return Completed(message=f"planned {numbers['delete']}, review needed", data=asdict(summary))
    if summary.outcome == NOTHING:
        return Completed(message="nothing to do", data=asdict(summary))
    if telling.nothing_moved(summary):
        return Completed(message=f"nothing moved, {numbers.get('left_out', 0)} left out", data=asdict(summary))
    count = numbers.get("trashed", numbers.get("restored", 0))
    return Completed(message=f"{summary.outcome} {count}", data=asdict(summary))


def markdown(summary: Summary, partition_name: str) -> str:
    """The summary as a page: verdict, next step, figures, candidates. File names are shown here, never in logs."""
    _, partition = find_partition(partition_name, online=False)
    heading = HEADINGS.get(summary.outcome, f"Stopped by the safety rail {summary.rail}")
    if telling.nothing_moved(summary):
        heading = "Nothing was moved: what you approved had changed"
    kind = "dry run" if summary.dry_run else "real run"
    lines = [f"# {heading}", "", f"Run `{summary.run_id}`, {summary.flow}, {kind}.", ""]
    lines += [f"- {_plain(note)}" for note in summary.notes]
    if summary.next_step:
        lines += ["", f"**Next:** {summary.next_step}"]
    if summary.digest and summary.outcome == PLANNED:
        lines += [
            "", "To approve exactly this plan, start the deployment `apply` with the digest", "", f"`{summary.digest}`"
        ]  # fmt: skip
    if summary.counts.get("trashed"):
        page = f"{partition.server_url}/tags?path={quote(tag_name(summary.run_id), safe='')}"
        lines += ["", f"[Look at what went, on the server]({page})"]
    shown = [(word, summary.counts[key]) for key, word in FIGURES.items() if key in summary.counts]
    lines += ["", "| | |", "|---|---:|", *(f"| {word} | {count:,} |" for word, count in shown)]
    lines += _brought_back(summary, partition)
    rows, total = _candidates(summary, partition)
    if rows:
        cells = picture_cells(partition, [asset_id for asset_id, *_ in rows])
        stayed = _stayed(run_folder(partition, summary.run_id))
        words = BUCKETS | ({"delete": "moved"} if summary.outcome == TRASHED else {})
        lines += ["", "| | file | what | why | days left |", "|---|---|---|---|---:|"]
        lines += [
            f"| {cells.get(asset_id, '')} | [{_plain(name)}]({partition.server_url}/photos/{asset_id}) "
            f"| {'stayed' if asset_id in stayed else words.get(bucket, bucket)} "
            f"| {stayed.get(asset_id, REASONS.get(reason, reason))} | {'' if days is None else days} |"
            for asset_id, name, bucket, reason, days in rows
        ]
    if total > len(rows):
        lines += ["", f"{total - len(rows):,} more. `deletion-sync plan --all` shows every row of the newest plan."]
    return "\n".join(lines)


def _brought_back(summary: Summary, partition: Partition) -> list[str]:
    """Of a restore: of which run, and what became of each of its photos."""
    path = run_folder(partition, summary.run_id) / BECAME
    if not path.exists():
        return []
    found = read_json(path)
    if not found["units"]:
        return []
    shown = found["units"][:ROWS]
    cells = picture_cells(partition, [unit["asset_id"] for unit in shown if unit["became"] == "restored"])
    lines = ["", f"Of the run `{found['of_run']}`:", "", "| | file | what |", "|---|---|---|"]
    lines += [
        f"| {cells.get(unit['asset_id'], '')} | [{_plain(unit['file_name'])}]({partition.server_url}/photos/"
        f"{unit['asset_id']}) | {unit['became']} |"
        for unit in shown
    ]
    if len(found["units"]) > len(shown):
        more, command = len(found["units"]) - len(shown), f"deletion-sync journal show --run-id {found['of_run']}"
        lines += ["", f"{more:,} more. `{command}` shows all of them."]
    return lines


def _stayed(folder: Path) -> dict[str, str]:
    """Asset id to why it was left out at the last look."""
    return {
        asset_id: reason
        for path in sorted(folder.glob("batch-*.json"))
        for asset_id, reason in read_json(path)["dropped"].items()
    }


def _candidates(summary: Summary, partition: Partition) -> tuple[list[tuple[str, str, str, str, int | None]], int]:
    """The first candidates (asset id, file name, bucket, reason, days left), and how many there are."""
    from engine.database import database

    path = run_folder(partition, summary.run_id) / "decision.parquet"
    if not path.exists():
        return [], 0
    with database() as con:
        ((total,),) = con.execute(f"SELECT count(*) FROM read_parquet({quoted(path)})").fetchall()
        rows = con.execute(f"""
            SELECT asset_id, file_name, bucket, reason, days_left FROM read_parquet({quoted(path)})
            ORDER BY CASE bucket WHEN 'delete' THEN 0 WHEN 'review' THEN 1 ELSE 2 END, days_left, file_name LIMIT {ROWS}
        """).fetchall()
    return rows, int(total)


def _plain(name: str) -> str:
    """A file name that cannot become markup of the page. Only what could become some is escaped: one of Prefect's two
    UIs shows the backslashes, and names such as IMG_1.JPG are to be read.
    """
    kept = "".join(character if character.isprintable() else "?" for character in name).replace("\\", "\\\\")
    for pairs in _PAIRS:
        if len(pairs.findall(kept)) > 1:  # a single one stands for itself
            kept = pairs.sub(lambda found: "".join(f"\\{c}" for c in found[0]), kept)
    # An address in the text would take a backslash before "<" for its own end.
    return _ALWAYS.sub(r"\\\g<0>", kept).replace("<", "&lt;")
