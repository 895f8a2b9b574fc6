"""Step 4, fetch_server_assets: what the server has, with a second look for what its listing may have left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.relations import SERVER as SCHEMA
from tasks import progress
from tasks.context import open_context
from tasks.files import reference, relations, write_json, write_table
from tasks.incremental import write_from_stream
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

SERVER = "server.parquet"
FACTS = "fetch.json"

# Observed, gone locally, and not listed: either long purged, or lost by a listing that is no proof of absence.
VANISHED = """
SELECT m.checksum FROM memory m
ANTI JOIN server s ON s.checksum = m.checksum
ANTI JOIN local l ON l.checksum = m.checksum
WHERE m.observed AND NOT m.anchored AND m.excluded_at IS NULL
ORDER BY m.confirmed_at DESC NULLS LAST, m.checksum
"""


def fetch_server_assets(run: RunRef, memory: Ref, local: Ref) -> Ref:
    """Write server.parquet (engine.relations.SERVER) and fetch.json (spec, items 5.4, 7 and 15).

    From the change stream where a person signed in for it, else by search. Raises ServerError: a listing that broke
    off is never used.
    """
    import pyarrow as pa

    context = open_context(run)
    path = context.folder / SERVER
    with context.server() as server:
        streamed = write_from_stream(context, server, path)
        if streamed.rows is not None:
            write_json(context.folder / FACTS, {"from": "stream", "events": streamed.events, "notes": []})
            return reference(path)
        notes = list(streamed.notes)
        listed, report = server.fetch_assets_reported(context.user_id, progress=progress.report)
        if report.suspicious:
            notes.append(report.text)
        with relations(context.folder, memory=memory, local=local) as con:
            con.register("server", listed)
            vanished = [checksum for (checksum,) in con.execute(VANISHED).fetchall()]
        found = SCHEMA.empty_table()
        if vanished:
            found = server.find_by_checksums(vanished, context.user_id, progress=progress.report)
    if found.num_rows:
        notes.append(f"{found.num_rows} assets were found that the server's listing had left out.")
    table = _once(pa.concat_tables([listed.cast(SCHEMA), found.cast(SCHEMA)]))
    counts = {"pages": report.pages, "duplicates": report.duplicates, "looked_up": len(vanished)}
    write_json(context.folder / FACTS, {"from": "search", **counts, "notes": notes})
    return write_table(table, path)


def _once(table: pa.Table) -> pa.Table:
    """Each asset once, in the order of the ids."""
    from engine.database import database

    with database() as con:
        con.register("found", table)
        return con.sql("SELECT DISTINCT ON (asset_id) * FROM found ORDER BY asset_id").to_arrow_table().cast(SCHEMA)


STEP = Step("fetch_server_assets", fetch_server_assets, retries=2)
