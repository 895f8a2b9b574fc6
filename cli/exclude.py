"""`exclude`: checksums that no run trashes (spec, Exclusion entry). Works while a run is on."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import AsJson
from cli.output import day, emit, note, plural, say, table
from cli.place import here
from engine.errors import UsageError

app = typer.Typer(help="Photos that no run trashes.", rich_markup_mode=None, no_args_is_help=True)

What = Annotated[
    list[str] | None,
    typer.Argument(metavar="WHAT...", help="Checksums, asset ids, file names, or paths in a library."),
]


@app.command("add")
def add(
    what: What = None,
    reason: Annotated[str, typer.Option("--reason", help="A note for yourself.")] = "",
    mass_offload: Annotated[
        bool, typer.Option("--mass-offload", help="All of the mass deletions that `status` tells of.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Protect photos from all runs. A Live Photo's motion video goes with its still."""
    from cli.naming import resolved
    from state import exclusions
    from tasks.clock import naive_now

    partition = here().partition
    names = list(what or [])
    if mass_offload:
        from tasks.overview import offloaded

        names += offloaded(partition)
        if not names:
            raise UsageError(
                "There is no mass deletion to protect from.", "`deletion-sync status` tells when there is."
            )
    if not names:
        raise UsageError("Which photos?", "Name them, or give --mass-offload.")
    found = resolved(partition, names)
    # Renewed: who protects a photo that was deleted again has seen that, and means it.
    new = exclusions.add(partition, found, reason, naive_now(), file_names=found, renew=True)
    if as_json:
        emit({"protected": _entries(found), "new": new})
    else:
        for checksum, name in found.items():
            say(f"{checksum}  {name}")
    (note if as_json else say)(f"{plural(len(found), 'checksum')} protected, {new:,} of them newly.")
    return 0


@app.command("remove")
def remove(what: What = None, as_json: AsJson = False) -> int:
    """Lift the protection, of both halves of a Live Photo."""
    from cli.naming import resolved
    from state import exclusions
    from tasks.clock import naive_now

    if not what:
        raise UsageError("Which photos?", "`deletion-sync exclude list` shows what is protected.")
    partition = here().partition
    standing = {entry.checksum: entry.file_name for entry in exclusions.list_exclusions(partition)}
    found = resolved(partition, what, standing)
    lifted = exclusions.remove(partition, found, naive_now())
    if as_json:
        emit({"lifted": _entries(found)})
    (note if as_json else say)(
        f"{plural(lifted, 'checksum')} not protected any more. If deleted locally, they may be trashed by a later run."
    )
    return 0


@app.command("list")
def list_(as_json: AsJson = False) -> int:
    """List what is protected, the oldest first."""
    from state.exclusions import list_exclusions

    found = list_exclusions(here().partition)
    if as_json:
        emit({"exclusions": found})
    elif found:
        table(
            ["checksum", "file name", "since", "reason"],
            [[x.checksum, x.file_name, day(x.excluded_at), x.reason] for x in found],
        )
    else:
        say("Nothing is protected.")
    return 0


def _entries(found: dict[str, str]) -> list[dict[str, str]]:
    return [{"checksum": checksum, "file_name": name} for checksum, name in found.items()]
