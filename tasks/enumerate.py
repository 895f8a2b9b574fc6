"""Step 1, enumerate: list every local asset of every library, and say what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from library.errors import LibraryError, LibraryUnavailable
from library.protocol import Library
from state.db import reading
from state.libraries import indexed_among, indexed_count, registered, snapshot
from state.runs import HISTORY_LOST, get_fact
from tasks import progress
from tasks.context import Context, open_context
from tasks.files import read_json, write_json, write_table
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

LISTING = "listing.parquet"
CHANGES = "changes.parquet"
FACTS = "enumerate.json"

# As the summary of a run tells them, in this order.
_TOLD = {
    "inserted": "new",
    "updated": "changed",
    "moved": "moved",
    "trashed": "put into the trash",
    "restored": "taken out of the trash",
    "withheld": "hidden, or handed over",
    "deleted": "gone",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """What an enumeration found out beside its rows. ``tokens`` were taken before each listing began.

    ``handed_over``: per library, the indexed ids that it holds and lists no more: others may delete them, or they were
    given a name that is left out. ``changes``: how many local ids changed, by kind of change, since the snapshots that
    the tokens of before belong to; what had no such token is not counted. ``labels``: what a person calls each library.
    """

    rows: int
    tokens: dict[str, str | None]
    access_problems: list[str]
    gaps: list[str]
    history_lost: bool
    handed_over: dict[str, list[str]]
    changes: dict[str, int]
    labels: dict[str, str]


def enumerate_libraries(run: RunRef) -> Ref:
    """Write listing.parquet (library.protocol.ENUMERATED), enumerate.json and, as the change log's report,
    changes.parquet (library_id, local_id, change, former_id) (spec, item 5.1, and Local change-log pipeline).

    The report decides nothing but what is handed over: the rules compare the whole listing with the index (lesson 21).
    """
    context = open_context(run)
    table, facts, changes = list_and_compare(context, context.libraries(), log=True)
    write_table(changes, context.folder / CHANGES)
    write_json(context.folder / FACTS, asdict(facts))
    return write_table(table, context.folder / LISTING)


def list_all(context: Context, *, with_registered: bool = False) -> tuple[pa.Table, Listed]:
    """Every library's listing in one table (ENUMERATED), with tokens and problems; no changes are looked for.

    ``with_registered`` adds the registered libraries to a checksums file.
    """
    table, facts, _ = list_and_compare(context, context.libraries(with_registered=with_registered), log=False)
    return table, facts


def changes_told(context: Context) -> tuple[str, ...]:
    """What changed since the last run that read everything, as one sentence; none where nothing did."""
    counts = read_json(context.folder / FACTS)["changes"]
    told = [f"{counts[change]} {words}" for change, words in _TOLD.items() if counts.get(change)]
    return (f"Since the last run: {', '.join(told)}.",) if told else ()


def list_and_compare(
    context: Context, libraries: Mapping[str, Library], *, log: bool
) -> tuple[pa.Table, Listed, pa.Table]:
    """The listing, what was found out beside it, and the changes, with their library's id in front."""
    import pyarrow as pa

    from library.protocol import CHANGED, ENUMERATED

    logged = pa.schema([ENUMERATED.field("library_id"), *CHANGED])
    tables: list[pa.Table] = []
    logs: list[pa.Table] = []
    tokens: dict[str, str | None] = {}
    access: list[str] = []
    gaps: list[str] = []
    emptied: list[str] = []
    handed_over: dict[str, list[str]] = {}
    with reading(context.partition) as con:
        saved = {row.library_id: row for row in registered(con)}
        lost = get_fact(con, HISTORY_LOST) is not None
    for done, (library_id, library) in enumerate(sorted(libraries.items())):
        progress.report("enumerate", done, len(libraries))
        try:
            listing = library.enumerate()
        except LibraryError as error:
            problems = library.access().problems
            if not problems and not isinstance(error, LibraryUnavailable):
                raise  # it can be read, and what is in it is wrong
            access += problems or (error.what,)
            continue
        if listing.limits:
            access += listing.limits
            continue
        tables.append(_qualified(listing.table.cast(ENUMERATED), library_id))
        gaps += listing.problems
        tokens[library_id] = listing.token
        row = saved.get(library_id)
        with reading(context.partition) as con:
            had = indexed_count(con, library_id)
            known = snapshot(con, library_id) if log and row is not None and row.token is not None else None
        if had and not listing.table.num_rows:
            emptied.append(f"{library.label}: it shows no photo at all, and held {had} before")
        withheld = listing.withheld
        if row is not None and row.token is not None and known is not None:
            changes = library.changes_since(row.token, known, listing.table)
            if changes.expired or row.token_of != row.snapshot:
                lost = True
            else:
                names = pa.repeat(pa.scalar(library_id), changes.table.num_rows)
                logs.append(changes.table.add_column(0, logged.field(0), names))
                withheld |= changes.ids("withheld")
        if withheld:
            with reading(context.partition) as con:
                handed_over[library_id] = indexed_among(con, library_id, frozenset(withheld))
    table = pa.concat_tables(tables) if tables else ENUMERATED.empty_table()
    changed = pa.concat_tables(logs) if logs else logged.empty_table()
    if table.num_rows:  # else the rail empty_local says it all
        access += emptied
    progress.report("enumerate", len(libraries), len(libraries))
    counts = {pair["values"]: pair["counts"] for pair in changed["change"].value_counts().to_pylist()}
    labels = {library_id: library.label for library_id, library in libraries.items()}
    return table, Listed(table.num_rows, tokens, access, gaps, lost, handed_over, counts, labels), changed


def _qualified(table: pa.Table, library_id: str) -> pa.Table:
    """The listing with its album ids qualified by the library: two libraries may have a folder of one name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    albums = table["albums"].combine_chunks()
    names = pc.binary_join_element_wise(pa.scalar(library_id), albums.flatten(), "/")
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(albums), 0)).cast(pa.int32())
    lists = pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), names)
    return table.set_column(table.schema.get_field_index("albums"), table.schema.field("albums"), lists)


STEP = Step("enumerate", enumerate_libraries, retries=1)
