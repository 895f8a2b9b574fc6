"""`status`: what is remembered of this server and account, and what happens next."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from cli.options import AsJson
from cli.output import day, emit, note, plural, say
from cli.place import here
from cli.session import standing
from engine.errors import DeletionSyncError

if TYPE_CHECKING:
    from state.runs import RunRecord
    from tasks.overview import Overview, Remembered


# A Live Photo has two checksums, so this is no count of photos.
_INDEXED = {True: "files that this computer read for this account", False: "files that this computer read at all"}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("status")(status)


def status(as_json: AsJson = False) -> int:
    """Show what is remembered, and the last run. The server is not asked."""
    from tasks.clock import naive_now
    from tasks.overview import overview

    place = here()
    found, faster = overview(place.home, place.partition, naive_now()), standing(place.partition)
    if as_json:
        emit({**asdict(found), "partition": place.partition.name, "faster_runs": faster})
    else:
        _tell(found)
        say(f"Partition     {place.partition.name}")
        say(f"Faster runs   {faster}")
    if found.problem:
        note(found.problem)
        return DeletionSyncError.exit_code
    return 0


def _tell(found: Overview) -> None:
    say(f"Server        {found.server_url}")
    say(f"User          {found.user_id}")
    say(f"Indexed       {plural(found.indexed, 'checksum')} of {_INDEXED[found.remembered is not None]}")
    if found.remembered is not None:
        _tell_remembered(found.remembered)
    for run_id, count in found.interrupted.items():
        say(f"Interrupted   run {run_id}: {plural(count, 'photo')} on the way; the next run settles them")
    if found.in_use_by:
        say(f"In use        by {found.in_use_by}")


def _tell_remembered(it: Remembered) -> None:
    say(f"Observed      {plural(it.observed, 'checksum')} ever seen in your libraries")
    due = f", the next one until {day(it.next_due)}" if it.next_due is not None else ""
    say(f"Deleted       {it.confirmed:,} confirmed, {it.held:,} of them in quarantine{due}")
    say(f"Protected     {it.exclusions:,}")
    for library in it.libraries:
        say(f"Library       {library.name} ({library.kind}), last enumerated: {day(library.enumerated_at) or 'never'}")
    if not it.libraries:
        say("Library       none; add one with `deletion-sync library add FOLDER`")
    say(f"Last run      {_run(it.last_run)}")
    if it.last_plan is not None:
        digest = "carried out" if it.last_plan_applied else f"digest {it.last_plan.plan_digest}"
        say(f"Newest plan   run {it.last_plan.run_id}, {digest}")
    say(f"First dry run {day(it.first_dry_run_at) or 'not yet; the next run is a dry run'}")
    say(f"First trash   {day(it.first_delete_confirmed_at) or 'not confirmed yet'}")
    if it.history_lost is not None:
        say(f"History lost  {it.history_lost}; what is gone is shown for your review")
    if it.stream_notice is not None:
        say(f"Slower runs   {it.stream_notice}")
    for offload in it.offloads:
        say(
            f"Mass offload  {offload.confirmed:,} deletions were confirmed at once on {day(offload.confirmed_at)}. "
            "To keep all of them on the server: `deletion-sync exclude add --mass-offload`"
        )


def _run(run: RunRecord | None) -> str:
    if run is None:
        return "none yet"
    rail = f", rail {run.rail}" if run.rail else ""
    return f"{day(run.started_at)}, {run.flow}{', dry run' if run.dry_run else ''}: {run.outcome}{rail} ({run.run_id})"
