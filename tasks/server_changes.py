"""One sync of the server cache from the change stream: seed, cursor, stream, apply, acknowledge (spec, item 15).

The order is what keeps it right wherever it stops: a batch is durable before it is acknowledged, and each sync begins
by setting the server's cursor to what is durable here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from library.protocol import Progress, silent
from server.shapes import Statistics
from server.stream import Batch, SyncStream
from server.stream_errors import (
    ResetAgain,
    StreamDrifted,
    StreamForeign,
    StreamUnavailable,
    StreamUnknown,
    TypeRefused,
)
from server.stream_types import KNOWN, unknown_of_assets
from state import server_cache
from state.server_cache import ServerCache

if TYPE_CHECKING:
    import pyarrow as pa

PHASE = "fetch_server_assets"
POISONED = 500  # what the server answers for ever to a cursor that it took and cannot read
_log = logging.getLogger("deletion_sync")
_SEARCH_INSTEAD = "This run lists by search instead."


@dataclass(frozen=True, slots=True)
class Outcome:
    """``events`` that were applied; whether a search ``seeded`` the cache; whether the server had it ``reset``."""

    events: int
    seeded: bool
    reset: bool


def checked_sync(
    stream: SyncStream,
    cache: ServerCache,
    search: Callable[[], pa.Table],
    count: Callable[[], Statistics | None],
    types: Sequence[str],
    now: Callable[[], datetime],
    progress: Progress = silent,
) -> Outcome:
    """``sync``, and then what the cache holds against what the server counts (None: it may not be asked).

    Where the two have parted (the server lost events, or came back from a backup), the stream is read from its start,
    once. Raises StreamDrifted when that does not help, and the cache is empty then; else as ``sync``.
    """
    outcome = Outcome(0, False, False)
    for last in (False, True):
        before = count()
        found = sync(stream, cache, search, types, now, progress)
        outcome = Outcome(outcome.events + found.events, outcome.seeded or found.seeded, outcome.reset or found.reset)
        if before is None:
            return outcome
        held = Statistics(*server_cache.counts(cache))
        # What was uploaded or deleted meanwhile explains a difference that lies between two counts.
        counted = before if held == before else count() or before
        if _lies_between(held, before, counted):
            return outcome
        apart = f"The server counts {counted.total:,} photos and videos, and its change stream told of {held.total:,}."
        if not last:
            _log.warning("%s It is read from the start.", apart)
            server_cache.begin_replay(cache)
    server_cache.wipe(cache)
    raise StreamDrifted(apart, _SEARCH_INSTEAD)


def sync(
    stream: SyncStream,
    cache: ServerCache,
    search: Callable[[], pa.Table],
    types: Sequence[str],
    now: Callable[[], datetime],
    progress: Progress = silent,
) -> Outcome:
    """Bring the cache to where the server is. Afterwards state.server_cache.server_rows writes what it holds.

    ``search`` lists the server's assets (engine.relations.SERVER); ``types`` are those of server.stream_types;
    ``now`` is UTC without a zone. Raises SyncError, after which nothing more was acknowledged and the caller lists by
    search in the same run; ServerError from ``search``; StateError.
    """
    seeded = server_cache.is_empty(cache)
    if seeded:
        server_cache.seed(cache, search(), now())
    elif server_cache.is_stale(cache, now()):
        server_cache.begin_replay(cache)
    _set_cursor(stream, cache)
    events = 0
    for was_reset in (False, True):
        with closing(_batches(stream, cache, types)) as batches:
            for batch in batches:
                if batch.reset:
                    break
                _only_known(batch)
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
    raise ResetAgain("The server asked twice in one run to begin from the start.", _SEARCH_INSTEAD)


def _lies_between(held: Statistics, before: Statistics, after: Statistics) -> bool:
    pairs = (
        (held.images, before.images, after.images),
        (held.videos, before.videos, after.videos),
        (held.total, before.total, after.total),
    )
    return all(min(one, other) <= mine <= max(one, other) for mine, one, other in pairs)


def _batches(stream: SyncStream, cache: ServerCache, types: Sequence[str]) -> Generator[Batch]:
    """The server takes an ack that it cannot read, and then answers every stream alike: begin anew in the next run."""
    try:
        yield from stream.stream(types)
    except StreamUnavailable as error:
        if error.status == POISONED and server_cache.stored_acks(cache):
            server_cache.begin_replay(cache)
        raise


def _set_cursor(stream: SyncStream, cache: ServerCache) -> None:
    """Make the server's cursor what is stored: a crash, a restored backup or a new session may have parted them.

    An older acknowledgement moves the cursor back, and none removes a type from it: so it is emptied first. A position
    that the server refuses is forgotten, and the stream begins at its start.
    """
    stored = server_cache.stored_acks(cache)
    if stream.acks() == stored:
        return
    stream.delete_acks()
    try:
        _acknowledge(stream, stored)
    except TypeRefused:
        server_cache.begin_replay(cache)


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


def _only_known(batch: Batch) -> None:
    """Going on without what a newer form of event says of assets would not be what a search delivers."""
    unknown = unknown_of_assets(batch.acks)
    if unknown:
        raise StreamUnknown(
            f"The change stream tells of assets as {', '.join(unknown)}, which is not known here.",
            f"A newer deletion-sync may know it. {_SEARCH_INSTEAD}",
        )


def _only_of(owner_id: str, batch: Batch) -> None:
    """The session's account must be the partition's (invariant 12)."""
    if not pc.all(pc.equal(batch.upserts["owner_id"], owner_id), min_count=0).as_py():
        raise StreamForeign(
            "The session belongs to another account of this server.", "Sign in with the account of the API key."
        )
