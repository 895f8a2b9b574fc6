"""The commands that only read the server: verify, dump-server-checksums and diagnose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import progress
from cli.options import AsJson
from cli.output import emit, note, plural, say, table
from cli.place import Place, here
from cli.verify import verify
from engine.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from server.client import FetchReport, PhotoServer
    from tasks.diagnose import Finding

_SHOWN = 50  # findings of a kind for a person; --json has all


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("verify")(verify)
    app.command("dump-server-checksums")(dump_server_checksums)
    app.command("diagnose")(diagnose)


def dump_server_checksums(
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where to write; a file is replaced.")],
    as_json: AsJson = False,
) -> int:
    """Write the server's checksums to a file. Base64 SHA-1, one a line, of every asset outside the trash."""
    from engine.database import database
    from state.files import write_atomic

    if not output.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {output.absolute().parent}.", "Make it, or choose another --output.")
    if output.is_dir():
        raise UsageError(f"{output} is a folder.", "Give --output a file in it.")
    place = here()
    with _server(place) as server:
        assets, report = _listing(server, place)
    with database() as con:
        con.register("server", assets)
        found = con.execute(
            "SELECT DISTINCT checksum FROM server WHERE NOT is_trashed AND library_id IS NULL ORDER BY checksum"
        ).fetchall()
        numbers = con.execute(
            "SELECT count(*) FILTER (is_trashed), count(*) FILTER (NOT is_trashed AND library_id IS NOT NULL)"
            " FROM server"
        ).fetchone()
    assert numbers is not None
    trashed, external = numbers
    write_atomic(output, "".join(f"{checksum}\n" for (checksum,) in found).encode())
    if as_json:
        document = {"file": str(output), "checksums": len(found), "trashed": trashed, "external": external}
        emit({**document, "complete": not report.suspicious})
    else:
        say(f"{plural(len(found), 'checksum')} written to {output}")
    if trashed:
        note(f"{plural(trashed, 'asset')} in the trash left out.")
    if external:
        note(
            f"{plural(external, 'asset')} of external libraries left out: their checksums are of paths, not of content."
        )
    if report.suspicious:
        note(report.text)
    return 0


def diagnose(as_json: AsJson = False) -> int:
    """Check the Live Photos on the server. Counts its assets per visibility too."""
    from tasks.diagnose import diagnose as diagnosed
    from tasks.diagnose import really_dangling

    place = here()
    with _server(place) as server:
        assets, report = _listing(server, place)
        found = diagnosed(assets)
        found = replace(found, dangling=really_dangling(server, found.dangling))
    if as_json:
        emit({"counts": found.counts, "complete": not report.suspicious, "live_photos": _live_photos(found)})
    else:
        table(["visibility", "assets", "in the trash"], [[c.visibility, c.untrashed, c.trashed] for c in found.counts])
        say()
        _findings("Stills whose motion video does not exist", found.dangling)
        _findings("Hidden assets that no still links to", found.orphaned)
        _findings("Trashed stills whose motion video is not in the trash", found.still_trashed)
        _findings("Stills whose motion video is in the trash", found.video_trashed)
    note("Locked assets are out of an API key's reach, and are not counted.")
    if report.suspicious:
        note(report.text)
    return 0


def _live_photos(found: Any) -> dict[str, Any]:
    names = ("dangling", "orphaned", "still_trashed", "video_trashed")
    return {name: getattr(found, name) for name in names}


def _findings(title: str, found: tuple[Finding, ...]) -> None:
    say(f"{title}: {len(found):,}")
    if found:
        table(["file name", "asset", "motion video"], [[x.file_name, x.asset_id, x.video_id] for x in found[:_SHOWN]])
        if len(found) > _SHOWN:
            say(f"… and {len(found) - _SHOWN:,} more; --json lists them all.")


@contextmanager
def _server(place: Place) -> Iterator[PhotoServer]:
    from server.client import PhotoServer
    from state import settings_file

    size = settings_file.load(place.partition).pageSize
    with PhotoServer(place.credentials.server_url, place.credentials.api_key, page_size=size) as server:
        yield server


def _listing(server: PhotoServer, place: Place) -> tuple[pa.Table, FetchReport]:
    from tasks.progress import report

    assert place.partition.user_id is not None
    with progress.shown():
        return server.fetch_assets_reported(place.partition.user_id, progress=report)
