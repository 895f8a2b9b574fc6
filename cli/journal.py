"""`journal list` and `journal show`: the local audit log. Needs neither the server nor a database."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from cli.options import AsJson
from cli.output import day, emit, note, say, table
from cli.place import here
from engine.errors import UsageError

app = typer.Typer(help="The local audit log.", rich_markup_mode=None, no_args_is_help=True)


@dataclass(slots=True)
class _Run:
    """What the journal says of one run; ``last`` maps an asset id to its last status."""

    first: str
    until: str
    last: dict[str, str] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return dict(Counter(self.last.values()))


@app.command("list")
def list_runs(as_json: AsJson = False) -> int:
    """List the runs in the local journal. The newest first, with the last status of their assets counted."""
    from state import journal

    partition = here().partition
    runs: dict[str, _Run] = {}
    broken: list[int] = []
    unchained: list[int] = []
    for line in journal.stream(partition):
        record = line.record
        if record is None:
            broken.append(line.number)
            continue
        if not line.chained:
            unchained.append(line.number)
        if record.run_id is None:
            continue
        run = runs.setdefault(record.run_id, _Run(record.at, record.at))
        run.until = record.at
        if record.status is not None and record.asset_id is not None:
            run.last[record.asset_id] = record.status
        if record.decision is not None:
            run.decisions.append(record.decision)
    newest_first = sorted(runs.items(), reverse=True)
    if as_json:
        documents = [
            {"run_id": run_id, "first_at": r.first, "last_at": r.until, "counts": r.counts(), "decisions": r.decisions}
            for run_id, r in newest_first
        ]
        emit({"runs": documents, "broken_lines": broken, "chain_breaks": unchained})
    elif newest_first:
        table(["run", "last entry", "assets"], [[run_id, day(r.until), _counted(r)] for run_id, r in newest_first])
    else:
        say("The journal holds no run.")
    _warn(broken, unchained)
    return 0


@app.command("show")
def show(
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="RUN", help="The run to show.")] = None,
    last: Annotated[bool, typer.Option("--last", help="Show the newest run of the journal.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show every journal line of one run."""
    from engine.runs import parse_run_id
    from state import journal

    if (run_id is None) == (not last):
        raise UsageError("Which run?", "Give --run-id RUN or --last.")
    wanted = None if run_id is None else parse_run_id(run_id)
    contents = journal.read(here().partition)
    if wanted is None:
        wanted = max((r.run_id for r in contents.records if r.run_id is not None), default=None)
        if wanted is None:
            raise UsageError("The journal holds no run.", "It begins with the first photo that is trashed.")
    records = [r for r in contents.records if r.run_id == wanted]
    if not records:
        raise UsageError(f"The journal does not know the run {wanted}.", "`deletion-sync journal list` shows the runs.")
    if as_json:
        emit({"run_id": wanted, "records": [_without_nothing(asdict(record)) for record in records]})
    else:
        say(f"Run {wanted}")
        table(
            ["at", "status", "file name", "asset", "motion video", "reason"],
            [[day(r.at), r.status or r.decision, r.file_name, r.asset_id, r.motion_id, r.reason] for r in records],
        )
    _warn(contents.broken, contents.chain_breaks)
    return 0


def _counted(run: _Run) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(run.counts().items()))
    return counts or ", ".join(run.decisions)


def _without_nothing(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _warn(broken: tuple[int, ...] | list[int], unchained: tuple[int, ...] | list[int]) -> None:
    for numbers, problem in ((broken, "cannot be read"), (unchained, "does not follow from the line before it")):
        for number in numbers[:10]:
            note(f"Line {number} of the journal {problem}.")
        if len(numbers) > 10:
            note(f"… and {len(numbers) - 10} more lines like it.")
