"""`library add`, `renew`, `list` and `remove`: where the photos are that are still there."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.albums import albums
from cli.asking import confirm
from cli.library_kinds import FOLDER, left_behind, place_of, registration, renewed
from cli.options import AsJson, Yes
from cli.output import day, emit, note, plural, say, table
from cli.place import here
from engine.errors import DeletionSyncError, UsageError

if TYPE_CHECKING:
    from state.libraries import Registered
    from state.partition import Partition

app = typer.Typer(help="The local photo libraries.", rich_markup_mode=None, no_args_is_help=True)

app.command("albums")(albums)

_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A registered library as it is now. ``access``: full or limited; ``problems`` say why it is limited."""

    name: str
    library_id: str
    kind: str
    place: str
    added_at: datetime
    enumerated_at: datetime | None
    access: str
    problems: tuple[str, ...]

    @property
    def readable(self) -> str:
        """``access`` in a person's words."""
        return "can be read" if self.access == "full" else "cannot be read"


@app.command("add")
def add(
    folder: Annotated[
        str | None, typer.Argument(metavar="[FOLDER]", help="The folder with the photos, or a .photoslibrary.")
    ] = None,
    phone: Annotated[
        str | None,
        typer.Option("--phone", metavar="SERIAL", help="An Android phone on adb; `only` for the one that is there."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it; its own name by default.")] = None,
) -> int:
    """Register a folder, a Photos library or a phone. A folder gets a small hidden marker file."""
    from state import journal, libraries
    from state.db import reading, writing
    from state.lock import partition_lock
    from tasks.clock import naive_now, now

    place = place_of(folder)
    partition = here().partition
    with partition_lock(partition, "library add"):
        with reading(partition) as con:
            known = libraries.registered(con)
        if name is not None:
            _check_name(name, known)
        found = registration(place, phone, known)
        label = name if name is not None else found.name
        _check_name(label, known)
        library_id = f"{found.kind}-{secrets.token_hex(4)}"
        journal.append(partition, [journal.decision("library_add", now(), {"library_id": library_id, "name": label})])
        with writing(partition) as con:
            registered = libraries.Registered(library_id, found.kind, label, found.config, naive_now())
            libraries.add(con, registered)
    say(f"Registered “{label}”: {found.place}")
    for line in found.told:
        note(line)
    _tell_what_is_there(registered)
    return 0


@app.command("renew")
def renew(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The library, as `library list` names it.")],
    yes: Yes = False,
) -> int:
    """Accept a folder as it is now: a new marker, other mounts. Its next candidates all go to your review."""
    from state import journal, libraries
    from state.db import writing
    from state.lock import partition_lock
    from tasks.clock import now

    partition = here().partition
    library = named(partition, name)
    confirm(
        f"What is in “{library.label}” now will count as the whole library. Photos that it lacks count as deleted.",
        yes=yes,
    )
    with partition_lock(partition, "library renew"):
        config = renewed(library)
        details = {"library_id": library.library_id, "name": library.label}
        journal.append(partition, [journal.decision("library_renew", now(), details)])
        with writing(partition) as con:
            libraries.save_config(con, library.library_id, config)
    say(f"Renewed “{library.label}”. The next run shows what it misses for your review.")
    return 0


@app.command("accept")
def accept(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The library, as `library list` names it.")],
    yes: Yes = False,
) -> int:
    """Say that the photos a library lost really were deleted."""
    from cli.accept import accept_losses

    partition = here().partition
    return accept_losses(partition, named(partition, name), yes=yes)


@app.command("list")
def list_(as_json: AsJson = False) -> int:
    """List the registered libraries, and whether they can be read now."""
    found = libraries_of(here().partition)
    if as_json:
        emit({"libraries": found})
        return 0
    if not found:
        say("No library is registered. Add one with `deletion-sync library add FOLDER`.")
        return 0
    table(
        ["name", "kind", "place", "last enumerated", "now"],
        [[x.name, x.kind, x.place, day(x.enumerated_at) or "never", x.readable] for x in found],
    )
    for line in (problem for x in found for problem in x.problems):
        note(line)
    return 0


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The library, as `library list` names it.")],
    yes: Yes = False,
) -> int:
    """Forget a library. What only it held goes to your review, never to the trash."""
    from state import journal, libraries
    from state.db import writing
    from state.lock import partition_lock
    from tasks.clock import naive_now, now

    partition = here().partition
    library = named(partition, name)
    left = left_behind(library)
    confirm(
        f"“{library.label}” will not be read any more. Its files stay. Photos that only it held are shown for your "
        "review from now on; no run trashes them by itself.",
        yes=yes,
    )
    with partition_lock(partition, "library remove"):
        details = {"library_id": library.library_id, "name": library.label}
        journal.append(partition, [journal.decision("library_remove", now(), details)])
        with writing(partition) as con:
            detached = libraries.remove(con, library.library_id, naive_now())
    say(f"Removed “{library.label}”. {plural(detached, 'checksum')} that only it held will be shown for review.")
    for line in left:
        note(line)
    return 0


def libraries_of(partition: Partition) -> list[Shown]:
    """Every registered library with its access as of now. A damaged registration counts as limited."""
    from state.db import reading
    from state.libraries import registered

    with reading(partition) as con:
        rows = registered(con)
    return [_shown(row) for row in rows]


def _tell_what_is_there(library: Registered) -> None:
    """How many photos and videos are found, and in how many folders, so that a wrong place is noticed at once."""
    from library.media_types import media_kind
    from library.registry import open_library

    try:
        opened = open_library(library.library_id, library.kind, library.label, json.loads(library.config))
        found = opened.enumerate()
    except DeletionSyncError as error:
        note(f"What is in it could not be counted. {error}")
        return
    rows = found.table.select(["local_id", "part", "file_name"]).to_pylist()
    first = {row["local_id"]: row["file_name"] for row in rows if row["part"] == "primary"}
    videos = sum(media_kind(os.fsencode(name)) == "video" for name in first.values())
    if not first:
        note("No photo or video was found in it. Is it the right place?")
        return
    folders = {local_id.rpartition("/")[0] for local_id in first}
    where = f" in {plural(len(folders), 'folder')}" if library.kind == FOLDER else ""
    say(f"Found {plural(len(first) - videos, 'photo')} and {plural(videos, 'video')}{where}.")
    for problem in found.problems:
        note(problem)


def _shown(row: Registered) -> Shown:
    from library.registry import open_library

    config = json.loads(row.config)
    try:
        can = open_library(row.library_id, row.kind, row.label, config).access()
        access, problems = str(can.status), can.problems
    except DeletionSyncError as error:
        access, problems = "limited", (str(error),)
    place = str(config.get("root") or config.get("path") or config.get("serial") or "")
    return Shown(row.label, row.library_id, row.kind, place, row.added_at, row.enumerated_at, access, problems)


def _check_name(label: str, known: Sequence[Registered]) -> None:
    if not label.strip() or not label.isprintable() or len(label) > _LONGEST:
        raise UsageError("That name cannot be used.", f"Give --name with 1 to {_LONGEST} printable characters.")
    if any(row.label == label for row in known):
        raise UsageError(f"A library is named “{label}” already.", "Choose another --name.")


def named(partition: Partition, name: str) -> Registered:
    """The library of that name. Raises UsageError, listing the names there are."""
    from state.db import reading
    from state.libraries import registered

    with reading(partition) as con:
        rows = registered(con)
    for row in rows:
        if row.label == name:
            return row
    known = ", ".join(f"“{row.label}”" for row in rows) or "none"
    raise UsageError(f"No library is named “{name}”.", f"Registered: {known}.")
