"""`deletion-sync explain`: each rule's verdict on an asset, by the files of one run."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import AsJson
from cli.output import day, emit, plural, say


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A checksum (base64 or hexadecimal), an asset id, a file name or a path in a library; any case.",
        ),
    ],
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="RUN", help="Explain by this run instead of the last one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell why a photo goes, waits or stays. What will happen and what you can do, then one line per rule.

    It reads the files of the last reconciliation and asks neither the server nor the libraries.
    """
    from cli.place import here
    from tasks import explain as task

    place = here()
    found = task.explain(place.home, place.partition, what, run_id)
    if as_json:
        emit(found)
        return
    say(f"By the run {found.run_id} of {day(found.started_at)}: {plural(len(found.matches), 'match', 'matches')}.")
    for match in found.matches:
        say()
        say(f"{match.file_name or '(no name known)'}  asset {match.asset_id or '-'}  checksum {match.checksum or '-'}")
        say(f"  => {match.conclusion}")
        for line in match.lines:
            say(f"  {line.rule:<13} {line.says:<6}  {line.text}")
