"""The commands that run a pipeline: dry-run, trash, plan, apply and restore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import interruption, plans, progress
from cli.asking import confirm
from cli.options import AsJson, Way, Yes
from cli.output import emit, note, plural, say
from cli.place import here
from cli.summaries import exit_code, left_behind, tell
from cli.way import chosen
from engine.errors import ConfirmationNeeded, UsageError

if TYPE_CHECKING:
    from state.partition import Partition
    from tasks.summary import Summary

ChecksumsFile = Annotated[
    Path | None,
    typer.Option(
        "--local-checksums-file",
        metavar="FILE",
        help="One base64 SHA-1 a line; stands for all registered libraries in this run.",
    ),
]
Digest = Annotated[str, typer.Option("--digest", metavar="DIGEST", help="The digest of the plan that you approve.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for name, command in (
        ("dry-run", dry_run),
        ("trash", trash),
        ("plan", plan),
        ("apply", apply),
        ("restore", restore),
    ):
        app.command(name)(command)


def dry_run(checksums_file: ChecksumsFile = None, way: Way = "auto", as_json: AsJson = False) -> int:
    """Show what a run would move to the trash. Nothing on the server is changed."""
    partition = ready()
    summary = _reconciled(partition, way, dry_run=True, checksums_file=checksums_file)
    return _shown(partition, summary, as_json)


def trash(checksums_file: ChecksumsFile = None, yes: Yes = False, way: Way = "auto", as_json: AsJson = False) -> int:
    """Trash the server copies of deleted photos. They are shown first, and you are asked."""
    from tasks.summary import PLANNED

    partition = ready()
    summary = _reconciled(partition, way, dry_run=False, checksums_file=checksums_file)
    if summary.outcome != PLANNED or summary.dry_run:
        code = _shown(partition, summary, as_json)
        if summary.outcome == PLANNED:
            return ConfirmationNeeded.exit_code
        return code
    if not as_json:
        plans.show(plans.decisions(partition, summary.run_id))
    return _applied(partition, summary.digest or "", summary.counts, way, yes=yes, as_json=as_json)


def plan(
    everything: Annotated[bool, typer.Option("--all", help="Show every row of a long list.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the newest plan and its digest. `apply` approves it by that."""
    from state import journal

    place = here()
    run_id, digest = _newest_plan(place.partition)
    applied = run_id in journal.finished(journal.read(place.partition).records)
    found = plans.decisions(place.partition, run_id)
    if as_json:
        emit({"run_id": run_id, "digest": digest, "applied": applied, "plan": found})
    else:
        plans.show(found, everything=everything, goes=plans.CARRIED_OUT if applied else plans.GOES)
        if not found[plans.DELETE]:
            say("Nothing is to be trashed.")
        say(f"Run {run_id}")
        say(f"Digest {digest}")
        if applied:
            note("It was carried out. `deletion-sync dry-run` makes a new plan.")
    return 0


def apply(digest: Digest, yes: Yes = False, way: Way = "auto", as_json: AsJson = False) -> int:
    """Carry out a plan that you approve. What changed since it was made is left out."""
    from flows.pipeline import approved_run
    from tasks.rails import read_plan

    partition = ready()
    run_id = approved_run(partition, digest)
    content, _ = read_plan(partition.runs / run_id)
    if not as_json:
        plans.show(plans.decisions(partition, run_id))
    return _applied(partition, digest, content["counts"], way, yes=yes, as_json=as_json)


def restore(
    run_id: Annotated[str, typer.Option("--run-id", metavar="RUN", help="The run to undo.")],
    asset_ids: Annotated[
        list[str] | None, typer.Option("--asset-id", metavar="ID", help="Only this asset. May be given several times.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--file-name-matches",
            metavar="REGEX",
            help="Only file names in which the pattern is found. With --asset-id: both must hold.",
        ),
    ] = None,
    no_exclude: Annotated[
        bool, typer.Option("--no-exclude", help="Do not protect what is restored from later runs.")
    ] = False,
    way: Way = "auto",
    as_json: AsJson = False,
) -> int:
    """Bring back what a run moved to the trash. It is protected from later runs."""
    from flows import ways
    from flows.pipeline import RestoreRequest
    from tasks.restore import checked_selection

    checked_selection(run_id, asset_ids or [], pattern)
    partition = ready()
    request = RestoreRequest(run_id, "default", tuple(asset_ids or ()), pattern, not no_exclude)
    with progress.shown():
        summary = ways.restore(chosen(way), request)
    return _shown(partition, summary, as_json)


def ready() -> Partition:
    """The partition, with an earlier client's files read in."""
    from state.legacy import import_legacy
    from tasks.clock import naive_now

    partition = here().partition
    imported = import_legacy(partition, naive_now())
    if imported is not None:
        for line in imported.notes:
            note(line)
        if imported.observed or imported.confirmed or imported.excluded:
            note(
                f"Read in from an earlier client: {imported.observed} observed, "
                f"{imported.confirmed} confirmed deleted, {imported.excluded} protected."
            )
    return partition


def _reconciled(partition: Partition, way: str, *, dry_run: bool, checksums_file: Path | None) -> Summary:
    from flows import ways
    from flows.pipeline import ReconcileRequest

    # A person is here: whatever the settings allow, nothing is trashed before the question is answered.
    request = ReconcileRequest(dry_run=dry_run, checksums_file=checksums_file, applies_itself=False)
    steps = chosen(way)
    return watched(partition, lambda: ways.reconcile(steps, request))


def _applied(partition: Partition, digest: str, counts: dict[str, int], way: str, *, yes: bool, as_json: bool) -> int:
    from flows import ways

    photos, assets = plural(counts["delete"], "photo"), plural(counts["to_trash"], "asset")
    note(f"The plan's digest: {digest}")
    if interruption.received():  # while it was planned, and something took the exception
        raise KeyboardInterrupt
    confirm(f"Move {photos} ({assets}) to the server's trash?", yes=yes)
    steps = chosen(way)
    summary = watched(partition, lambda: ways.apply(steps, digest))
    if as_json:
        emit(plans.document(partition, summary))
    else:
        tell(summary)
    return exit_code(summary)


def watched(partition: Partition, work: Callable[[], Summary]) -> Summary:
    """Run it with the progress display; an interruption says what state it left."""
    from state import journal

    before = len(journal.read(partition).records)
    try:
        with progress.shown():
            return work()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or interruption.received():
            note(left_behind(journal.fold(journal.read(partition).records[before:])))
        raise


def _shown(partition: Partition, summary: Summary, as_json: bool) -> int:
    """Print a finished run and return its exit code."""
    if as_json:
        emit(plans.document(partition, summary))
    else:
        plans.show(
            plans.decisions(partition, summary.run_id), goes=plans.GOES if summary.rail is None else plans.STOPPED
        )
        tell(summary)
    if plans.lists_whole_server(partition, summary):
        note(
            "Every checksum of the server is in that file, so nothing can be a candidate. If `dump-server-checksums` "
            "made it, it is the server's own list: give the checksums of your local photos instead."
        )
    return exit_code(summary)


def _newest_plan(partition: Partition) -> tuple[str, str]:
    """Run id and digest. Raises UsageError where no run has made a plan."""
    from state.db import reading
    from state.runs import planned

    with reading(partition) as con:
        found = planned(con)
    if not found:
        raise UsageError("There is no plan yet.", "Make one with `deletion-sync dry-run`.")
    return found[0].run_id, found[0].plan_digest or ""
