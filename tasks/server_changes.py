"""One sync of the server cache from the change stream: seed, cursor, stream, apply, acknowledge (spec, item 15).

The order is what keeps it right wherever it stops: a batch is durable before it is acknowledged, and each sync begins
by setting the server's cursor to what is durable here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from library.protocol import Progress, silent
from server.stream import Batch, SyncStream
from server.stream_errors import ResetAgain, StreamForeign, TypeRefused
from server.stream_parse import KNOWN
from state import server_cache
from state.server_cache import ServerCache

if TYPE_CHECKING:
    import pyarrow as pa

PHASE = "fetch_server_assets"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``events`` that were applied; whether a search ``seeded`` the cache; whether the server had it ``reset``."""

    events: int
    seeded: bool
    reset: bool


def sync(
    stream: SyncStream,
    cache: ServerCache,
    search: Callable[[], pa.Table],
    types: Sequence[str],
    now: Callable[[], datetime],
    progress: Progress = silent,
) -> Outcome:
    """Bring the cache to where the server is. Afterwards state.server_cache.server_rows writes what it holds.

    ``search`` lists the server's assets (engine.relations.SERVER); ``types`` are those of server.stream.asset_types;
    ``now`` is UTC without a zone. Raises SyncError, after which nothing more was acknowledged and the caller lists by
    search in the same run; ServerError from ``search``; StateError.
    """
    seeded = server_cache.is_empty(cache)
    if seeded:
        server_cache.seed(cache, search(), now())
    elif server_cache.is_stale(cache, now()):
        server_cache.begin_replay(cache)
    _set_cursor(stream, server_cache.stored_acks(cache))
    events = 0
    for was_reset in (False, True):
        with closing(stream.stream(types)) as batches:
            for batch in batches:
                if batch.reset:
                    break
                _only_of(cache.owner_id, batch)
                server_cache.apply(cache, batch, now())
                _acknowledge(stream, batch.acks)
                events += batch.events
                progress(PHASE, events, None)
                if batch.complete:
                    return Outcome(events, seeded, was_reset)
        if not was_reset:
            server_cache.wipe(cache)
            _acknowledge(stream, batch.acks)
    raise ResetAgain("The server asked twice in one run to begin from the start.", "This run lists by search instead.")


def _set_cursor(stream: SyncStream, stored: dict[str, str]) -> None:
    """Make the server's cursor what is stored: a crash, a restored backup or a new session may have parted them.

    An older acknowledgement moves the cursor back, and none removes a type from it: so it is emptied first.
    """
    if stream.acks() == stored:
        return
    stream.delete_acks()
    _acknowledge(stream, stored)


def _acknowledge(stream: SyncStream, acks: Mapping[str, str]) -> None:
    """Send them; where the server refuses those of types that nobody here knows, the others."""
    if not acks:
        return
    try:
        stream.send_acks(acks.values())
    except TypeRefused:
        known = {kind: ack for kind, ack in acks.items() if kind in KNOWN}
        if len(known) == len(acks):
            raise
        if known:
            stream.send_acks(known.values())


def _only_of(owner_id: str, batch: Batch) -> None:
    """The session's account must be the partition's (invariant 12)."""
    if not pc.all(pc.equal(batch.upserts["owner_id"], owner_id), min_count=0).as_py():
        raise StreamForeign(
            "The session belongs to another account of this server.", "Sign in with the account of the API key."
        )
