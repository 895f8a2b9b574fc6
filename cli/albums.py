"""`library albums`: the albums of a registered library, by the ids that the indexing scope takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson
from cli.output import emit, note, say, table
from cli.place import here
from engine.errors import DeletionSyncError

if TYPE_CHECKING:
    from state.libraries import Registered
    from state.partition import Partition

# Albums as the index holds them: their ids begin with the library's.
INDEXED = """
SELECT album, count(DISTINCT local_id)
FROM (SELECT local_id, unnest(albums) AS album FROM local_index WHERE library_id = $library)
GROUP BY album
"""


@dataclass(frozen=True, slots=True)
class Album:
    """``id`` begins with the library's id, so that two libraries with a folder of one name are two albums.

    ``assets``: photos and videos in it at the last enumeration, a Live Photo counting once; None: there was none yet.
    """

    id: str
    library: str
    title: str
    assets: int | None


def albums(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The library, as `library list` names it.")],
    as_json: AsJson = False,
) -> int:
    """List a library's albums. `settings scope` chooses them by their ids."""
    from cli.library import named

    partition = here().partition
    library = named(partition, name)
    found = albums_of(partition, library)
    if as_json:
        emit({"library": library.label, "albums": found})
        return 0
    if not found:
        say(f"“{library.label}” has no albums.")
        return 0
    table(["album", "title", "assets"], [[x.id, x.title, x.assets] for x in found])
    if library.enumerated_at is None:
        note("It was not read yet: the first run counts the assets.")
    note("To have runs look at some of them only: `deletion-sync settings scope --album ALBUM`")
    return 0


def albums_of(partition: Partition, library: Registered) -> list[Album]:
    """A library's albums as they are now, by id; those of its last enumeration where it cannot be read."""
    from library.registry import open_library
    from state.db import reading

    with reading(partition) as con:
        counted: dict[str, int] = dict(con.execute(INDEXED, {"library": library.library_id}).fetchall())
    try:
        opened = open_library(library.library_id, library.kind, library.label, json.loads(library.config))
        titles = {f"{library.library_id}/{album}": title for album, title in opened.albums().items()}
    except DeletionSyncError as error:
        note(f"{error.what} Its albums are shown as they were at the last run.")
        titles = {}
    read = library.enumerated_at is not None
    return [
        Album(
            album,
            library.label,
            titles.get(album, album.rpartition("/")[2]),
            counted.get(album, 0) if read else None,
        )
        for album in sorted(titles.keys() | counted.keys())
    ]


def all_albums(partition: Partition) -> list[Album]:
    """The albums of every registered library."""
    from state.db import reading
    from state.libraries import registered

    with reading(partition) as con:
        rows = registered(con)
    return [album for row in rows for album in albums_of(partition, row)]
