"""What a Prefect run shows a person: the summary artifact and a final state that says what happened."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed

from tasks.context import run_folder
from tasks.files import quoted
from tasks.opening import find_partition
from tasks.summary import ABORTED, FAILED, NOTHING, PARTLY, PLANNED, Summary

ROWS = 100  # more than this makes the page slow


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
    count = numbers.get("trashed", numbers.get("restored", 0))
    return Completed(message=f"{summary.outcome} {count}", data=asdict(summary))


def show_summary(summary: Summary, partition_name: str) -> None:
    """Leave the summary as a markdown artifact of the run: verdict, counts, candidates, next step."""
    create_markdown_artifact(markdown=markdown(summary, partition_name), key="summary", description=summary.outcome)


def markdown(summary: Summary, partition_name: str) -> str:
    """The summary as a page. File names are shown here, and nowhere in logs or parameters."""
    kind = "dry run" if summary.dry_run else "real run"
    lines = [f"# {summary.outcome.capitalize()}", "", f"Run `{summary.run_id}`, {summary.flow}, {kind}.", ""]
    lines += [f"- {note}" for note in summary.notes]
    if summary.next_step:
        lines += ["", f"**Next:** {summary.next_step}"]
    if summary.digest:
        lines += ["", f"Plan digest: `{summary.digest}`"]
    lines += ["", "| count | |", "|---|---:|", *(f"| {key} | {value} |" for key, value in summary.counts.items())]
    rows = _candidates(summary, partition_name)
    if rows:
        lines += ["", "| file | bucket | reason | days left |", "|---|---|---|---:|"]
        lines += [f"| {_plain(name)} | {bucket} | {reason} | {days or ''} |" for name, bucket, reason, days in rows]
        total = summary.counts.get("delete", 0) + summary.counts.get("pending", 0)
        if total > len(rows):
            lines += ["", f"{total - len(rows)} more are in the run's folder."]
    return "\n".join(lines)


def _candidates(summary: Summary, partition_name: str) -> list[tuple[str, str, str, int | None]]:
    from engine.database import connect

    _, partition = find_partition(partition_name, online=False)
    path = run_folder(partition, summary.run_id) / "decision.parquet"
    if not path.exists():
        return []
    con = connect()
    try:
        return con.execute(f"""
            SELECT file_name, bucket, reason, days_left FROM read_parquet({quoted(path)})
            ORDER BY CASE bucket WHEN 'delete' THEN 0 WHEN 'review' THEN 1 ELSE 2 END, file_name LIMIT {ROWS}
        """).fetchall()
    finally:
        con.close()


def _plain(name: str) -> str:
    """A file name that cannot become markup of the page."""
    kept = "".join(character if character.isprintable() else "?" for character in name)
    return "".join("\\" + c if c in "\\`*_{}[]<>()#+-!|~" else c for c in kept)
