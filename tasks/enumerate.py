"""Step 1, enumerate: list every local asset of every library, and say what could not be read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from library.errors import LibraryUnavailable
from state.db import reading
from state.libraries import indexed_among, indexed_count, registered
from state.runs import HISTORY_LOST, get_fact
from tasks import progress
from tasks.context import Context, open_context
from tasks.files import write_json, write_table
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

LISTING = "listing.parquet"
FACTS = "enumerate.json"


@dataclass(frozen=True, slots=True)
class Listed:
    """What an enumeration found out beside its rows. ``tokens`` were taken before each listing began.

    ``handed_over``: per library, the indexed ids that it holds and lists no more, because others may delete them.
    """

    rows: int
    tokens: dict[str, str | None]
    access_problems: list[str]
    gaps: list[str]
    history_lost: bool
    handed_over: dict[str, list[str]]


def enumerate_libraries(run: RunRef) -> Ref:
    """Write listing.parquet (library.protocol.ENUMERATED) and enumerate.json (spec, item 5.1)."""
    context = open_context(run)
    table, facts = list_all(context)
    write_json(context.folder / FACTS, asdict(facts))
    return write_table(table, context.folder / LISTING)


def list_all(context: Context, *, with_registered: bool = False) -> tuple[pa.Table, Listed]:
    """Every library's listing in one table (ENUMERATED), with tokens, problems and whether history was lost.

    ``with_registered`` adds the registered libraries to a checksums file.
    """
    import pyarrow as pa

    from library.protocol import ENUMERATED

    tables: list[pa.Table] = []
    tokens: dict[str, str | None] = {}
    access: list[str] = []
    gaps: list[str] = []
    emptied: list[str] = []
    handed_over: dict[str, list[str]] = {}
    expired, nothing = False, ENUMERATED.empty_table()
    libraries = context.libraries(with_registered=with_registered)
    with reading(context.partition) as con:
        saved = {row.library_id: row.token for row in registered(con)}
        lost = get_fact(con, HISTORY_LOST) is not None
    for done, (library_id, library) in enumerate(libraries.items()):
        progress.report("enumerate", done, len(libraries))
        can = library.access()
        if can.status != "full":
            access += can.problems
            continue
        try:
            listing = library.enumerate()
        except LibraryUnavailable as error:
            access.append(error.what)
            continue
        tables.append(_qualified(listing.table.cast(ENUMERATED), library_id))
        with reading(context.partition) as con:
            had = indexed_count(con, library_id)
        if had and not listing.table.num_rows:
            emptied.append(f"{library.label}: it shows no photo at all, and held {had} before")
        gaps += listing.problems
        tokens[library_id] = listing.token
        if listing.withheld:
            with reading(context.partition) as con:
                handed_over[library_id] = indexed_among(con, library_id, listing.withheld)
        token = saved.get(library_id)
        expired |= token is not None and library.changes_since(token, nothing, nothing).expired
    table = pa.concat_tables(tables) if tables else ENUMERATED.empty_table()
    if table.num_rows:  # else the rail empty_local says it all
        access += emptied
    progress.report("enumerate", len(libraries), len(libraries))
    ordered = table.sort_by([("library_id", "ascending"), ("local_id", "ascending"), ("part", "ascending")])
    return ordered, Listed(table.num_rows, tokens, access, gaps, lost or expired, handed_over)


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
