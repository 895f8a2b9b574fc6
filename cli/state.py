"""`state export` and `state import`: the remembered sets as the JSON files of an earlier client."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli.options import AsJson
from cli.output import emit, note, say
from cli.place import here

app = typer.Typer(help="Take what is remembered out, or bring it in.", rich_markup_mode=None, no_args_is_help=True)


@app.command("export")
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder without such files.")],
    as_json: AsJson = False,
) -> int:
    """Write what is remembered into a folder.

    The observed set, confirmations, exclusions, settings and a copy of the journal.
    """
    from state.legacy import export_state

    written = export_state(here().partition, directory)
    if as_json:
        emit({"files": [str(path) for path in written]})
    else:
        for path in written:
            say(str(path))
    return 0


@app.command("import")
def import_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `state export` wrote.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Take settings and exclusion dates from the files where both have them.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Merge exported state into this account. The next run counts as a first run."""
    from state.legacy import import_state
    from tasks.clock import naive_now

    found = import_state(here().partition, directory, naive_now(), overwrite=overwrite)
    if as_json:
        emit(asdict(found))
    else:
        say(f"New here: {found.observed} observed, {found.confirmed} confirmed deleted, {found.excluded} protected.")
    for line in found.notes:
        note(line)
    return 0
