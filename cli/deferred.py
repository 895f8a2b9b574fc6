"""`library deferred` and `library hash-now`: the files that have no checksum yet, and reading them all the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import progress
from cli.options import AsJson
from cli.output import day, emit, note, plural, say, table
from cli.place import here
from engine.deferral import in_words

if TYPE_CHECKING:
    from state.libraries import Registered
    from state.partition import Partition

_PARTLY = 5
_TOLD = 20
_MEGABYTE = 1_000_000


def register(app: typer.Typer) -> None:
    """Add both commands to `library`."""
    app.command("deferred")(deferred)
    app.command("hash-now")(hash_now)


def deferred(as_json: AsJson = False) -> int:
    """List the files that could not be read yet, and why. Until they are read no run deletes anything."""
    from state.deferred import deferred as waiting_in

    place = here()
    names = {row.library_id: row.label for row in _registered(place.partition)}
    rows: list[dict[str, Any]] = [
        {"library": names[row["library_id"]], "in_words": in_words(row["reason"]), **row}
        for row in waiting_in(place.home, names).to_pylist()
    ]
    if as_json:
        emit({"deferred": rows, "total": len(rows)})
        return 0
    if not rows:
        say("Every file has been read.")
        return 0
    table(
        ["library", "file", "size", "why", "since", "attempts"],
        [
            [row["library"], _file(row), _size(row["size"]), row["in_words"], day(row["first_deferred_at"]),
             row["attempts"]]
            for row in rows
        ],
    )  # fmt: skip
    say(f"{plural(len(rows), 'file')} not read yet. `deletion-sync library hash-now` reads them.")
    return 0


def hash_now(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One library, as `library list` names it; all by default.")
    ] = None,
) -> int:
    """Read every file that was left for later, however large."""
    from cli.library import named
    from library.registry import open_library
    from tasks.hash_now import hash_now as work_off

    place = here()
    chosen = _registered(place.partition) if name is None else [named(place.partition, name)]
    libraries = {
        row.library_id: open_library(row.library_id, row.kind, row.label, json.loads(row.config)) for row in chosen
    }
    with progress.shown():
        done = work_off(place.home, libraries)
    for line in done.problems[:_TOLD]:
        note(line)
    if len(done.problems) > _TOLD:
        note(f"And {len(done.problems) - _TOLD:,} more.")
    say(f"Read {plural(done.hashed, 'file')}; {done.left:,} left.")
    if done.left:
        note("`deletion-sync library deferred` says why. Repair it, then run this again.")
    return _PARTLY if done.left or done.problems else 0


def _registered(partition: Partition) -> list[Registered]:
    from state.db import reading
    from state.libraries import registered

    with reading(partition) as con:
        return list(registered(con))


def _file(row: dict[str, Any]) -> str:
    """The path where the id is one, else the file's name."""
    return str(row["local_id"] if row["local_id"].endswith(row["file_name"]) else row["file_name"])


def _size(size: int | None) -> str:
    return "" if size is None else f"{size / _MEGABYTE:,.1f} MB"
