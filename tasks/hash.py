"""Step 2, hash: the checksum of every local part, from the hash cache or from its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

from engine.database import connect
from engine.relations import LOCAL as SCHEMA
from library.hashing import hash_parts
from library.protocol import Hashed
from state import hash_cache
from tasks import progress
from tasks.context import Context, open_context
from tasks.files import relations, write_json, write_table
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

LOCAL = "local.parquet"
FACTS = "hash.json"
REMEMBERED_TOGETHER = 2000  # parts whose checksums reach the cache in one transaction


@dataclass(frozen=True, slots=True)
class Hashing:
    """How many parts were known, how many were read, and what could not be read (a line each)."""

    known: int
    hashed: int
    problems: list[str]


def hash_parts_of_run(run: RunRef, listing: Ref) -> Ref:
    """Write local.parquet (engine.relations.LOCAL) and hash.json from listing.parquet (spec, item 5.1)."""
    context = open_context(run)
    with relations(context.folder, listing=listing) as con:
        listed = con.sql("FROM listing").to_arrow_table()
    local, facts = with_checksums(context, listed)
    write_json(context.folder / FACTS, asdict(facts))
    return write_table(local, context.folder / LOCAL)


def with_checksums(context: Context, listed: pa.Table) -> tuple[pa.Table, Hashing]:
    """The listing as LOCAL rows; a part that could not be hashed has a null checksum and a line in ``problems``."""
    import pyarrow as pa

    known, wanted = hash_cache.split(context.home, listed)
    fresh: list[pa.Table] = []
    problems: list[str] = []
    outcomes = hash_parts(context.libraries(with_registered=True), wanted, progress=progress.report)
    while group := list(islice(outcomes, REMEMBERED_TOGETHER)):
        problems += [f"{outcome.local_id}: {outcome.problem}" for outcome in group if outcome.problem is not None]
        rows = _rows(group, wanted)
        hash_cache.remember(context.home, rows)
        fresh.append(rows)
    local = pa.concat_tables([known.cast(SCHEMA), *fresh])
    ordered = local.sort_by([("library_id", "ascending"), ("local_id", "ascending"), ("part", "ascending")])
    return ordered, Hashing(known.num_rows, wanted.num_rows, problems)


def _rows(group: Sequence[Hashed], wanted: pa.Table) -> pa.Table:
    """Outcomes of hashing as LOCAL rows: what the listing says of the part, and what its bytes say."""
    import pyarrow as pa

    columns = ("library_id", "local_id", "part", "checksum", "captured_at")
    outcomes = pa.table(
        {name: [getattr(outcome, name) for outcome in group] for name in columns},
        schema=pa.schema([SCHEMA.field(name) for name in columns]),
    )
    con = connect()
    try:
        con.register("outcomes", outcomes)
        con.register("wanted", wanted)
        return (
            con.sql("""
            SELECT w.library_id, w.local_id, w.part, o.checksum, w.file_name, w.size, w.modified_ns, w.file_identity,
                   o.captured_at, w.albums, w.in_trash
            FROM outcomes o JOIN wanted w USING (library_id, local_id, part)
        """)
            .to_arrow_table()
            .cast(SCHEMA)
        )
    finally:
        con.close()


STEP = Step("hash", hash_parts_of_run, retries=1)
