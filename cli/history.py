"""`deletion-sync history`: the runs as the server's tags tell them; works on a computer that has no journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson
from cli.output import day, emit, plural, say, table
from cli.place import credentials_here

if TYPE_CHECKING:
    from server.client import PhotoServer

history_app = typer.Typer(
    help="The runs as the server's tags tell them. The API key needs tag.read.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@history_app.command("list")
def list_(
    detailed: Annotated[
        bool,
        typer.Option(
            "--detailed",
            help="Also ask the server for every asset of every run: how many a run tagged, how many of them are in the "
            "trash now, and how many are not. Slower: at least one request per run.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs that left a tag on the server, newest first."""
    from tasks import history

    with _server() as server:
        runs = history.list_runs(server, detailed=detailed)
    if as_json:
        emit({"runs": runs})
        return
    if not runs:
        say("The server has no tag of any run.")
        return
    columns = ["run", "when", "device"]
    rows: list[list[object]] = [[run.run_id, day(run.started_at), run.device_id] for run in runs]
    if detailed:
        columns += ["assets", "in the trash", "not in the trash"]
        rows = [[*row, r.members, r.in_trash, r.not_in_trash] for row, r in zip(rows, runs, strict=True)]
    table(columns, rows)
    if detailed and any(run.not_in_trash for run in runs):
        say("Not in the trash: it came back, or its run did not get to trash it.")


@history_app.command("show")
def show(
    run_id: Annotated[str, typer.Option("--run-id", metavar="RUN", help="The run, as `history list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show the assets that carry a run's tag. Each with whether it is in the trash now."""
    from tasks import history

    with _server() as server:
        assets = history.show_run(server, run_id)
    if as_json:
        emit({"run_id": run_id, "assets": assets})
        return
    table(
        ["file", "checksum", "in the trash", "asset"],
        [
            [
                f"+ {asset.file_name}" if asset.motion_of else asset.file_name,
                asset.checksum,
                "yes" if asset.is_trashed else "no",
                asset.asset_id,
            ]
            for asset in assets
        ],
    )
    trashed = sum(asset.is_trashed for asset in assets)
    say(f"{plural(len(assets), 'asset')}, {trashed} in the trash. A line with + is the motion video of the one above.")


@contextmanager
def _server() -> Iterator[PhotoServer]:
    """The server of the credentials: no partition, no journal, nothing local is needed or made."""
    from server.client import PhotoServer

    _, credentials = credentials_here()
    with PhotoServer(credentials.server_url, credentials.api_key) as server:
        yield server
