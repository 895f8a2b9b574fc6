"""`watch`: runs a reconciliation whenever the registered libraries changed and have settled. Ends by a signal."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Way, checked_way
from cli.output import day, note, say
from cli.runs import ready, watched
from cli.stopping import Stopping
from cli.summaries import headline
from cli.way import chosen
from engine.errors import DeletionSyncError, PartitionBusy, PartlyDone, UsageError

if TYPE_CHECKING:
    from flows.watching import Places, Root, Waiting
    from state.partition import Partition
    from tasks.summary import Summary

_TICK = 1.0  # seconds between two looks at whether a disk is there and a run is due
_POLL = 30.0  # seconds between two looks at all files where the system cannot tell of changes


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("watch")(watch)


def watch(
    settle: Annotated[
        float, typer.Option("--settle", metavar="SECONDS", min=0.1, help="Run after so long without a change.")
    ] = 30.0,
    at_most: Annotated[
        float, typer.Option("--at-most", metavar="MINUTES", min=0.01, help="Run after so long, however busy it is.")
    ] = 15.0,
    cool_down: Annotated[
        float, typer.Option("--cool-down", metavar="SECONDS", min=0.0, help="Rest so long after a run, or longer.")
    ] = 60.0,
    poll: Annotated[
        bool, typer.Option("--poll", help="Look at all files every 30 s: for network drives, which tell no changes.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Real runs: they trash what the setting applyScheduledRuns lets them.")
    ] = False,
    way: Way = "auto",
) -> int:
    """Stay on, and run whenever photos changed. Dry runs, unless told otherwise.

    It runs once at the start, and then after changes that have settled. A change only says that it is time to look:
    what a run concludes comes of its own listing.
    """
    from flows.watching import Waiting, places

    if at_most * 60 < settle:
        raise UsageError("--at-most is shorter than --settle.", "--at-most is in minutes, --settle in seconds.")
    checked_way(way)
    partition = ready()
    found = places(partition)
    _require_watchable(found)
    watcher = _Watcher(partition, Waiting(settle, at_most * 60, cool_down), min(_TICK, settle), apply, way)
    watcher.polls = _POLL if poll else None
    _tell_start(found, partition, apply)
    with watcher.stopping.heeded():
        try:
            _follow(watcher)
        except KeyboardInterrupt:
            if watcher.stopping.by != signal.SIGTERM:
                raise
    if watcher.stopping.by != signal.SIGTERM:
        raise KeyboardInterrupt
    note("Ended.")
    return 0


@dataclass(slots=True)
class _Watcher:
    """What the loop keeps. ``told``: the trouble that was told last, so that it is told once."""

    partition: Partition
    waiting: Waiting
    tick: float
    apply: bool
    way: str
    polls: float | None = None
    stopping: Stopping = field(default_factory=Stopping)
    told: str = ""
    away: dict[str, str] = field(default_factory=dict)  # by library, why it is not what was registered
    way_told: bool = False

    def tell_once(self, trouble: str) -> None:
        if trouble != self.told:
            note(f"{_time()}  {trouble}")
        self.told = trouble


def _follow(watcher: _Watcher) -> None:
    """Watch until a signal comes. Each round of the loop is one set of watched places."""
    from flows.watching import NoMoreWatches, hints, places

    watcher.waiting.at_once(time.monotonic())  # what changed while nobody watched
    while not watcher.stopping.event.is_set():
        stamp = _stamp(watcher.partition)
        try:
            roots = places(watcher.partition).roots
        except DeletionSyncError as error:
            watcher.tell_once(str(error))
            watcher.stopping.event.wait(watcher.tick)
            continue
        identities = {root: root.identity() for root in roots}
        _look_for_the_missing(watcher, roots)
        there = [root for root in roots if root.label not in watcher.away]
        try:
            for changed in hints(there, watcher.stopping.event, watcher.tick, watcher.polls):
                now = time.monotonic()
                if changed:
                    watcher.waiting.changed(now)
                moved = any(root.identity() != identity for root, identity in identities.items())
                if moved or _look_for_the_missing(watcher, roots):
                    watcher.waiting.changed(now)
                    break
                if _stamp(watcher.partition) != stamp:
                    stamp = _stamp(watcher.partition)
                    if _registered_anew(watcher, roots):
                        watcher.waiting.changed(now)
                        break
                if not watcher.away and watcher.waiting.due(now):
                    _run(watcher)  # what was registered meanwhile, the next look notices
        except FileNotFoundError:
            watcher.stopping.event.wait(watcher.tick)  # a place went just now: the next round sees it
        except OSError as error:
            watcher.tell_once(f"Watching stopped and starts again: {error.strerror or type(error).__name__}.")
            watcher.stopping.event.wait(watcher.tick)
        except NoMoreWatches:
            watcher.polls = _POLL
            note(
                "The system watches as many files as it may, so all files are looked at every 30 s instead. "
                "To raise the limit on Linux: sysctl fs.inotify.max_user_watches=1048576"
            )


def _look_for_the_missing(watcher: _Watcher, roots: tuple[Root, ...]) -> bool:
    """Tell which places went and which came back, once each; returns whether any did."""
    away = {}
    for root in roots:
        problem = root.problem()
        if problem is not None:
            away[root.label] = problem
    for label in sorted(away.keys() - watcher.away.keys()):
        note(f"{_time()}  “{label}” is away: {away[label]}. No run until it is back.")
    for label in sorted(watcher.away.keys() - away.keys()):
        note(f"{_time()}  “{label}” is back.")
    different = away.keys() != watcher.away.keys()
    watcher.away = away
    return different


def _registered_anew(watcher: _Watcher, roots: tuple[Root, ...]) -> bool:
    """Whether other places are registered than those that are watched. The loop's next round tells of any trouble."""
    from flows.watching import places

    try:
        return places(watcher.partition).roots != roots
    except DeletionSyncError:
        return True


def _run(watcher: _Watcher) -> None:
    """One reconciliation, told in one line. What went wrong is told once, until something else happens."""
    from engine.database import let_go

    began = time.monotonic()
    watcher.waiting.began()
    try:
        with watcher.stopping.running():
            summary = watched(watcher.partition, lambda: _reconciled(watcher))
    except PartitionBusy as error:
        watcher.tell_once(f"{error.what} The next change is waited for.")
    except PartlyDone as error:
        watcher.tell_once(str(error))
    except DeletionSyncError as error:
        watcher.tell_once(f"No run: {error}")
        watcher.waiting.again(time.monotonic())
    except OSError as error:
        watcher.tell_once(f"No run: the system refused: {error.strerror or type(error).__name__}.")
        watcher.waiting.again(time.monotonic())
    else:
        watcher.told = ""
        say(_line(summary))
        sys.stdout.flush()
    let_go()
    watcher.waiting.ended(began, time.monotonic())


def _reconciled(watcher: _Watcher) -> Summary:
    from flows import pipeline, watching, ways

    request = pipeline.ReconcileRequest(dry_run=not watcher.apply, applies_itself=watcher.apply)
    way = chosen(watcher.way, quiet=watcher.way_told)
    watcher.way_told = True
    if way is ways.Way.DIRECT:
        return watching.reconciled(watcher.stopping.call, request)
    return ways.reconcile(way, request)


def _line(summary: Summary) -> str:
    """One run in one line: time, verdict, counts, next step."""
    counts = summary.counts
    kind = "dry run" if summary.dry_run else "real run"
    numbers = [f"{counts[key]:,} {word}" for key, word in _COUNTS.items() if key in counts]
    why = f" {summary.notes[0]}" if summary.rail and summary.notes else ""
    parts = [_time(), f"{kind}: {headline(summary)}{why}", ", ".join(numbers), summary.next_step]
    return "  ".join(part for part in parts if part)


_COUNTS = {"local": "local", "matched": "matched", "held": "held", "review": "for your review"}


def _require_watchable(found: Places) -> None:
    if found.roots:
        return
    if found.unwatched:
        raise UsageError(
            f"Nothing of what is registered can be watched: {', '.join(found.unwatched)}.",
            "Let a scheduler run `deletion-sync dry-run` instead.",
        )
    raise UsageError("No library is registered.", "Add one with `deletion-sync library add FOLDER`.")


def _tell_start(found: Places, partition: Partition, apply: bool) -> None:
    """What is watched, what cannot be, and what a real run is allowed (docs/rules.md, section 6)."""
    from state import settings_file
    from state.db import reading
    from state.runs import FIRST_DELETE_CONFIRMED, get_fact

    note(f"Watching {', '.join(f'“{root.label}”' for root in found.roots)}. Ctrl-C ends it.")
    for label in found.unwatched:
        note(f"“{label}” cannot be watched: what changes there is seen when something else prompts a run.")
    if not apply:
        note("Dry runs: nothing on the server is changed.")
        return
    with reading(partition) as con:
        confirmed = get_fact(con, FIRST_DELETE_CONFIRMED) is not None
    if not settings_file.load(partition).applyScheduledRuns:
        note("The setting applyScheduledRuns is off, so runs end with a plan for you to approve.")
    elif not confirmed:
        note("You have not confirmed a first deletion yet, so runs end with a plan for you to approve.")
    else:
        note("Runs move what they find to the server's trash.")


def _stamp(partition: Partition) -> int | None:
    """Changes with the database, so that a library that is registered meanwhile is noticed."""
    try:
        return partition.database.stat().st_mtime_ns
    except OSError:
        return None


def _time() -> str:
    from tasks.clock import now

    return day(now())
