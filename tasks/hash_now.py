"""Works off the store of deferred hashes, without limits. It needs no run and no partition: the store is global."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.database import database
from library.errors import LibraryError
from library.protocol import ENUMERATED, Library
from state import deferred
from state.home import Home
from tasks.hash import Limits, hash_listing, without_checksum

DEFERRED_NOW = """
SELECT l.* FROM listing l SEMI JOIN waiting w
    ON w.library_id = l.library_id AND w.local_id = l.local_id AND w.part = l.part
"""


@dataclass(frozen=True, slots=True)
class Worked:
    """How many parts have a checksum now, how many are left, and what stood in the way (a line each)."""

    hashed: int
    left: int
    problems: list[str]


def hash_now(home: Home, libraries: Mapping[str, Library]) -> Worked:
    """Hash everything that is deferred in these libraries (spec, item 9).

    A library that cannot be listed is a problem, and what waits in it is left. What a whole listing has no longer
    leaves the store.
    """
    hashed, problems = 0, []
    for library_id, library in libraries.items():
        waiting = deferred.deferred(home, [library_id])
        if not waiting.num_rows:
            continue
        try:
            listing = library.enumerate()
        except LibraryError as error:
            problems.append(error.what)
            continue
        with database() as con:
            con.register("listing", listing.table.cast(ENUMERATED))
            con.register("waiting", waiting)
            wanted = con.sql(DEFERRED_NOW).to_arrow_table().cast(ENUMERATED)
        local, facts = hash_listing(home, libraries, wanted, Limits())
        problems += facts.problems
        still = without_checksum(local)
        hashed += local.num_rows - still.num_rows
        if listing.complete:
            deferred.sweep(home, [library_id], still)
    return Worked(hashed, deferred.deferred(home, libraries).num_rows, problems)
