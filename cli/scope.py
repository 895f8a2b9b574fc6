"""`settings scope`: which albums runs look at. What the indexing scope means is docs/rules.md's, section 3."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.albums import Album, all_albums
from cli.options import AsJson
from cli.output import emit, note, plural, say, table
from cli.place import here
from engine.errors import UsageError

if TYPE_CHECKING:
    from state.partition import Partition

_KEY = "indexingScope"
_NEAR = 5


def scope(
    chosen: Annotated[
        list[str] | None,
        typer.Option("--album", metavar="ID", help="Only this album, by its id in `library albums`. Repeatable."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Everything in the registered libraries.")] = False,
    none: Annotated[bool, typer.Option("--none", help="Nothing at all: no run finds anything to trash.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show what is chosen, and change nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Choose the albums that runs look at. Photos of other albums are never candidates."""
    from state import settings_file
    from tasks.clock import now

    if sum((bool(chosen), full, none, show)) != 1:
        raise UsageError(
            "Say what is to be in scope.", "Give one of --album ID (repeatable), --full, --none or --show."
        )
    partition = here().partition
    if not show:
        value: Any = "fullLibrary"
        if not full:
            ids = _checked(chosen, all_albums(partition)) if chosen else []
            value = {"selectedAlbums": ids}
        settings_file.set_value(partition, _KEY, json.dumps(value), now())
    _tell(partition, as_json)
    return 0


def _tell(partition: Partition, as_json: bool) -> None:
    from state import settings_file

    selected = settings_file.load(partition).selected_albums
    if as_json:
        emit({"full": selected is None, "albums": selected})
        return
    if selected is None:
        say("In scope: everything in the registered libraries.")
        return
    if not selected:
        say("In scope: nothing. No run finds anything to trash until you choose albums or --full.")
        return
    known = {album.id: album for album in all_albums(partition)}
    say(f"In scope: {plural(len(selected), 'album')}.")
    found = [known.get(album) or Album(album, "(unknown)", "", None) for album in selected]
    table(["album", "library", "title", "assets"], [[x.id, x.library, x.title, x.assets] for x in found])
    for album in selected:
        if album not in known:
            note(f"No registered library has the album {album} now: it keeps nothing in scope but what was last in it.")


def _checked(chosen: Sequence[str], known: Sequence[Album]) -> list[str]:
    """The ids, each once. An album may also be named by its library's name in place of its id. Raises UsageError."""
    ids = {album.id for album in known}
    by_name = {f"{album.library}/{album.id.partition('/')[2]}": album.id for album in known}
    found: dict[str, None] = {}
    for name in chosen:
        album = name if name in ids else by_name.get(name)
        if album is None:
            raise UsageError(f"There is no album {name!r}.", _near(name, sorted(ids)))
        found[album] = None
    return list(found)


def _near(name: str, ids: Sequence[str]) -> str:
    wanted = name.casefold()
    tails = {album: album.partition("/")[2].casefold() for album in ids}
    close = get_close_matches(wanted.rpartition("/")[2], tails.values(), n=_NEAR, cutoff=0.6)
    near = [album for album, tail in tails.items() if wanted in album.casefold() or tail in close][:_NEAR]
    if near:
        return f"Near it: {', '.join(near)}."
    return "`deletion-sync library albums NAME` lists the albums of a library."
