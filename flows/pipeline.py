"""The pipelines, once: which steps run in which order. The direct way and the Prefect way both run these.

Each takes ``call``, which runs a step: directly (flows.direct), or as a Prefect task (flows.prefect_way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from engine import plan
from engine.errors import ConfirmationNeeded, DeletionSyncError, PartlyDone, RailTripped, UsageError
from engine.policy import Verdict
from engine.rails import QUIET, evaluate
from state import journal, put_back, settings_file
from state.db import reading, writing
from state.legacy import import_legacy
from state.lock import partition_lock
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, FIRST_DRY_RUN, HISTORY_LOST, LIBRARIES_CHANGED, get_fact, runs, set_fact
from tasks import (
    classify,
    clock,
    delete,
    diff,
    enumerate,
    fetch_server_assets,
    hash,
    merge_observed,
    rails,
    restore,
    scope_filter,
    tag,
)
from tasks import journal as journal_step
from tasks.context import Context, iso, open_context, server_of
from tasks.files import read_json, reference_of_bytes
from tasks.merge_observed import verdict_of
from tasks.opening import (
    DEFAULT_PARTITION,
    PLAN_SCOPES,
    TRASH_SCOPES,
    ServerFacts,
    ask_server,
    check_scopes,
    find_partition,
    open_run,
)
from tasks.refs import Ref, RunRef
from tasks.settle import settle
from tasks.summary import ABORTED, FAILED, NOTHING, PARTLY, PLANNED, RESTORED, TRASHED, Summary, summarize
from tasks.tidy import tidy

Call = Callable[..., Any]  # call(step, *arguments) -> what the step returns

PLAN_LASTS = timedelta(days=7)
PUT_BACK = "The database is older than the last run: it was put back from a copy. Every quarantine begins anew."


@dataclass(frozen=True, slots=True)
class ReconcileRequest:
    """What a reconciliation is asked to do. ``checksums_file`` stands for the local libraries when given.

    ``time_budget_seconds``: how long it may hash; None: as long as the setting hashTimeBudgetSeconds says.
    """

    partition: str = DEFAULT_PARTITION
    dry_run: bool = True
    checksums_file: Path | None = None
    applies_itself: bool = True  # whether a real run may apply its plan where the setting allows it
    time_budget_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Which trashed assets of a run come back: all of them, or those of the ids, or those whose file name matches."""

    run_id: str
    partition: str = DEFAULT_PARTITION
    asset_ids: tuple[str, ...] = ()
    file_name_matches: str | None = None
    exclude: bool = True


def reconcile(call: Call, way: str, request: ReconcileRequest) -> Summary:
    """Plan what to trash, and apply it where that was asked, is allowed and passes every rail (spec, item 5).

    Raises DeletionSyncError for what is no verdict: no server, a broken state, another run in the partition. A rail
    that trips is a Summary with the outcome `aborted`.
    """
    home, partition = find_partition(request.partition)
    import_legacy(partition, clock.naive_now())
    with partition_lock(partition, "reconcile"):
        put_back.heed(partition, clock.naive_now())
        with reading(partition) as con:  # told until a plan has shown what it means
            notes = (PUT_BACK,) if get_fact(con, HISTORY_LOST) == put_back.PUT_BACK else ()
        with server_of(partition) as server:
            facts = ask_server(server)
            check_scopes(server, PLAN_SCOPES if request.dry_run else TRASH_SCOPES)
            if not request.dry_run:
                settle(partition, server)
        run = open_run(
            home, partition, flow="full", way=way, dry_run=request.dry_run,
            checksums_file=request.checksums_file, facts=facts, time_budget_seconds=request.time_budget_seconds,
        )  # fmt: skip
        tidy(partition)
        context = open_context(run)
        with _failure_is_recorded(context):
            planned = _plan(call, run, context)
            if isinstance(planned, Summary):
                return planned
            content, units = rails.read_plan(context.folder)
            if context.facts["dry_run"] or not units or not (request.applies_itself and _may_apply(context)):
                return _planned(context, content, notes)
            return _apply_batches(call, run, context, planned, content)


def apply(call: Call, way: str, digest: str, partition_name: str = DEFAULT_PARTITION) -> Summary:
    """Apply the newest plan if it is the approved one, minus what changed since (docs/rules.md, section 6).

    An apply that was interrupted goes on where it stopped. Raises ConfirmationNeeded for a plan that is stale, changed
    or applied already, RailTripped when a rail trips now.
    """
    home, partition = find_partition(partition_name)
    with partition_lock(partition, "apply"):
        put_back.heed(partition, clock.naive_now())
        run = RunRef(str(home.root), partition.name, approved_run(partition, digest))
        context = open_context(run)
        content, units = rails.read_plan(context.folder)
        _check_plan(context, content, units, digest)
        with server_of(partition) as server:
            facts = ask_server(server)
            check_scopes(server, TRASH_SCOPES)
            _check_rails(context, content, facts)
            settle(partition, server)
        journal.append(
            partition, [journal.decision("approve", clock.now(), {"digest": digest, "way": way}, run.run_id)]
        )
        with writing(partition) as con:
            set_fact(con, FIRST_DELETE_CONFIRMED, iso(clock.naive_now()), keep_first=True)
        plan_ref = reference_of_bytes(context.folder / rails.PLAN, len(units))
        acting = replace(context, facts={**context.facts, "flow": "apply", "way": way, "dry_run": False})
        with _failure_is_recorded(acting):
            return _apply_batches(call, run, acting, plan_ref, content)


def restore_run(call: Call, way: str, request: RestoreRequest) -> Summary:
    """Bring back what a run trashed, and protect it from the next one (spec, restore; design decision on restore)."""
    selection = restore.checked_selection(request.run_id, request.asset_ids, request.file_name_matches)
    home, partition = find_partition(request.partition)
    with partition_lock(partition, "restore"):
        with server_of(partition) as server:
            facts = ask_server(server)
            settle(partition, server)
        run = open_run(home, partition, flow="restore", way=way, dry_run=False, checksums_file=None, facts=facts)
        context = open_context(run)
        context = replace(context, facts={**context.facts, "dry_run": False})
        with _failure_is_recorded(context):
            restore.write_request(context, selection, exclude=request.exclude)
            counts = call(restore.STEP, run)
            return _restored(context, counts)


@contextmanager
def _failure_is_recorded(context: Context) -> Iterator[None]:
    """A run that ends by an error leaves a summary too. What it had trashed by then makes the error PartlyDone."""
    try:
        yield
    except RailTripped as error:
        verdict = Verdict(error.rail, error.what, error.next_step)
        _record_end(context, ABORTED, (), verdict)
        raise
    except DeletionSyncError as error:
        trashed = _record_end(context, FAILED, (error.what,))
        if not trashed:
            raise
        raise PartlyDone(
            f"{trashed} were trashed before this happened: {error.what}",
            f"{error.next_step} Then approve the same plan again, or undo with "
            f"`deletion-sync restore --run-id {context.run.run_id}`.".strip(),
        ) from error
    except BaseException as error:
        _record_end(context, FAILED, (f"Interrupted ({type(error).__name__}).",))
        raise


def _record_end(context: Context, outcome: str, notes: tuple[str, ...], verdict: Verdict | None = None) -> int:
    """Write the summary of a run that did not come to its end; returns how many units it had trashed."""
    lines = journal.state_of_run(journal.read(context.partition).records, context.run.run_id).values()
    trashed = sum(line.status == "trashed" for line in lines)
    path = context.folder / rails.PLAN
    content = read_json(path) if path.exists() else None
    summarize(
        context, PARTLY if trashed else outcome, verdict=verdict, notes=notes,
        digest=None if content is None else content["digest"],
        counts={"trashed": trashed} if content is None else {**_counts(context, content), "trashed": trashed},
    )  # fmt: skip
    return trashed


def _counts(context: Context, content: dict[str, Any]) -> dict[str, int]:
    """The numbers of a planned run: per step, and per bucket."""
    numbers = {"local": read_json(context.folder / enumerate.FACTS)["rows"], **content["counts"]}
    return {key: int(value) for key, value in numbers.items()}


def approved_run(partition: Partition, digest: str) -> str:
    """The run of the newest plan, which must have this digest. Raises UsageError, ConfirmationNeeded.

    A newer run that read the libraries whole makes a plan stale, unless it planned the very same.
    """
    with reading(partition) as con:
        known = runs(con, "flow <> 'restore'")
    holding = next((run for run in known if run.plan_digest == digest), None)
    if holding is None:
        raise UsageError(f"No plan has the digest {digest[:16]}….", "`deletion-sync plan` shows the newest one.")
    if holding.run_id in journal.finished(journal.read(partition).records):
        raise _applied_already()
    for run in known:
        folder = partition.runs / run.run_id
        read_whole = (folder / merge_observed.FACTS).exists() and read_json(folder / merge_observed.FACTS)["complete"]
        if not read_whole and run.plan_digest != digest:
            continue  # it learnt nothing that an absence could be concluded from
        content = read_json(folder / rails.PLAN) if (folder / rails.PLAN).exists() else {"digest": None}
        if content["digest"] != digest:
            break
        if run.plan_digest == digest:
            return run.run_id
    raise ConfirmationNeeded(
        "A newer run saw something else; the plan that you approved is stale.",
        "Run `deletion-sync dry-run`, and approve the plan that it shows.",
    )


def _plan(call: Call, run: RunRef, context: Context) -> Ref | Summary:
    """The steps up to the plan; a Summary when a rail ends the run."""
    listing = call(enumerate.STEP, run)
    local = call(hash.STEP, run, listing)
    memory = call(merge_observed.STEP, run, local)
    counts = {"local": local.rows}
    verdict = verdict_of(read_json(context.folder / merge_observed.FACTS)["verdict"])
    if not verdict.passed:
        return summarize(
            context, ABORTED, verdict=verdict, counts=counts, notes=hash.notes(read_json(context.folder / hash.FACTS))
        )
    server = call(fetch_server_assets.STEP, run, memory, local)
    candidates = call(diff.STEP, run, server, local, memory)
    scoped = call(scope_filter.STEP, run, candidates, memory)
    decision = call(classify.STEP, run, scoped, server, local, memory)
    planned: Ref = call(rails.STEP, run, decision, server, local, memory)
    content, _ = rails.read_plan(context.folder)
    verdict = verdict_of(content["verdict"])
    if not verdict.passed:
        return summarize(context, ABORTED, verdict=verdict, counts=_counts(context, content))
    return planned


def _planned(context: Context, content: dict[str, Any], notes: tuple[str, ...]) -> Summary:
    counts = _counts(context, content)
    notes = (*notes, *enumerate.changes_told(context), *read_json(context.folder / fetch_server_assets.FACTS)["notes"])
    if context.facts["forced_dry_run"]:
        notes = ("This was the first run here, so nothing was trashed: it was a dry run.", *notes)
    if counts["held"]:
        notes = (*notes, f"{counts['held']} confirmed deletions wait in quarantine.")
    if counts["review"]:
        notes = (*notes, f"{counts['review']} need your review and are not trashed by themselves.")
    if not counts["delete"]:
        return summarize(context, NOTHING, digest=content["digest"], counts=counts, notes=notes)
    return summarize(
        context, PLANNED, digest=content["digest"], counts=counts, notes=notes,
        next_step="Review the list, then run `deletion-sync trash`, or approve the plan by its digest.",
    )  # fmt: skip


def _may_apply(context: Context) -> bool:
    if not settings_file.load(context.partition).applyScheduledRuns:
        return False
    with reading(context.partition) as con:
        return get_fact(con, FIRST_DELETE_CONFIRMED) is not None


def _apply_batches(call: Call, run: RunRef, context: Context, plan_ref: Ref, content: dict[str, Any]) -> Summary:
    """Tag and delete batch by batch, then close the run. What stops in between stays open, and is settled later."""
    units = [plan.from_json(unit) for unit in content["units"]]
    for index in range(len(plan.batches(units))):
        batch = call(tag.STEP, run, plan_ref, index)
        call(delete.STEP, run, batch)
    outcome = call(journal_step.STEP, run)
    counts = {**_counts(context, content), "trashed": outcome["trashed"], "failed": outcome["failed"]}
    counts["left_out"] = max(0, len(units) - outcome["trashed"] - outcome["failed"])
    word = TRASHED if not outcome["failed"] else PARTLY if outcome["trashed"] else FAILED
    notes = (*outcome["notes"], *_left_out(context))
    return summarize(
        context, word if units else NOTHING, digest=content["digest"], counts=counts, notes=notes,
        next_step=f"Undo with `deletion-sync restore --run-id {run.run_id}`." if outcome["trashed"] else "",
    )  # fmt: skip


def _left_out(context: Context) -> tuple[str, ...]:
    """Why units of the plan were left out at the last look: one sentence per reason."""
    reasons: dict[str, int] = {}
    for path in sorted(context.folder.glob("batch-*.json")):
        for reason in read_json(path)["dropped"].values():
            reasons[reason] = reasons.get(reason, 0) + 1
    return tuple(f"{count} left out: {reason}." for reason, count in sorted(reasons.items()))


def _restored(context: Context, counts: dict[str, Any]) -> Summary:
    numbers = {"restored": counts["restored"], "failed": counts["failed"], "excluded": counts["excluded"]}
    word = RESTORED if not counts["failed"] else PARTLY if counts["restored"] else FAILED
    if not counts["restored"] and not counts["failed"]:
        word = NOTHING
    return summarize(context, word, counts=numbers, notes=tuple(counts["notes"]))


def _applied_already() -> ConfirmationNeeded:
    return ConfirmationNeeded("This plan was applied already.", "Start a new run to see what is left.")


def _check_plan(context: Context, content: dict[str, Any], units: Sequence[plan.Unit], digest: str) -> None:
    """Raises ConfirmationNeeded unless the plan on disk is the approved one, whole, recent and not applied yet."""
    if content["digest"] != digest or plan.digest(context.partition.name, units) != digest:
        raise ConfirmationNeeded("The plan on disk is not the one that was approved.", "Start a new run and review it.")
    if not verdict_of(content["verdict"]).passed:
        raise ConfirmationNeeded("A rail aborted the run that made this plan.", "Start a new run and review it.")
    if not units:
        raise ConfirmationNeeded("That plan moves nothing to the trash.", "There is nothing to approve.")
    with reading(context.partition) as con:
        if get_fact(con, FIRST_DRY_RUN) is None:
            raise ConfirmationNeeded("What was known here was lost or reset since.", "Start with a dry run.")
        changed = get_fact(con, LIBRARIES_CHANGED)
        applied = runs(con, "run_id = ? AND flow = 'apply' AND outcome = ?", (context.run.run_id, TRASHED))
    if changed != context.facts["libraries"]:
        raise ConfirmationNeeded("The registered libraries changed since this plan was made.", "Start a new run.")
    if applied or context.run.run_id in journal.finished(journal.read(context.partition).records):
        raise _applied_already()
    age = clock.naive_now() - datetime.fromisoformat(context.facts["started_at"])
    if not timedelta(0) - timedelta(hours=1) <= age <= PLAN_LASTS:
        raise ConfirmationNeeded(f"The plan is {age.days} days old.", "Start a new run and review it.")


def _check_rails(context: Context, content: dict[str, Any], facts: ServerFacts) -> None:
    """The rails once more, with the server and the settings of now. The libraries are read again in the tag step."""
    settings = settings_file.load(context.partition)
    verdict: Verdict = evaluate(
        replace(
            QUIET,
            clock_skew_seconds=facts.clock_skew_seconds,
            trash_enabled=facts.trash_enabled,
            trash_days=facts.trash_days,
            to_trash=plan.asset_count(plan.from_json(unit) for unit in content["units"]),
            matched=content["counts"]["matched"],
            threshold_percent=settings.thresholdPercent,
            threshold_floor=settings.thresholdFloor,
        )
    )
    if verdict.rail is not None:
        raise RailTripped(verdict.rail, verdict.what, verdict.next_step)
