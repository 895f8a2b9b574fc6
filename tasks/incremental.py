"""Whether this run learns the server's assets from its change stream, and if not, why (spec, item 15; Errors).

How one sync goes is in tasks.server_changes. Whatever stops it, the run lists by search instead, and says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DeletionSyncError
from server import session
from server.client import PhotoServer
from server.shapes import Version
from server.stream import MINIMUM, VERIFIED, SyncStream, asset_types
from server.stream_errors import SessionExpired, SyncError
from state import server_cache, session_store
from state.db import writing
from state.errors import StateError
from state.partition import Partition
from state.runs import STREAM_NOTICE, clear_fact, set_fact
from state.session_store import StoredSession
from tasks import clock, progress, server_changes
from tasks.context import Context

_log = logging.getLogger("deletion_sync")


@dataclass(frozen=True, slots=True)
class Streamed:
    """``rows`` were written, or None: list by search; ``notes`` then say why, where a person should know."""

    rows: int | None = None
    notes: tuple[str, ...] = ()
    events: int = 0


def write_from_stream(context: Context, server: PhotoServer, path: Path) -> Streamed:
    """Bring the partition's server cache up to date and write engine.relations.SERVER of it to ``path``.

    Without a session, or with useIncrementalServerSync off, nothing is tried and nothing is said. Raises nothing that
    a search can do without; ServerError of the search that seeds an empty cache.
    """
    if not context.settings.useIncrementalServerSync:
        return Streamed()
    try:
        stored = session_store.get(context.partition)
        if stored is None:
            return Streamed()
        version = Version(*(int(number) for number in context.facts["server"]["version"].split(".")))
        unfit = unfit_version(version)
        if unfit is not None:
            return _searched(context, unfit)
        with (
            server_cache.server_cache(context.partition) as cache,
            SyncStream(context.partition.server_url, stored.token) as stream,
        ):
            outcome = server_changes.sync(
                stream,
                cache,
                lambda: server.fetch_assets(context.user_id, progress=progress.report),
                asset_types(version),
                clock.naive_now,
                progress.report,
            )
            rows = server_cache.server_rows(cache, path)
    except SessionExpired as error:
        session_store.clear(context.partition)  # said once: the next run finds none (lesson 35)
        return _searched(context, f"{error} Sign in again with `deletion-sync login`.")
    except (SyncError, StateError) as error:
        return _searched(context, str(error))
    with writing(context.partition) as con:
        clear_fact(con, STREAM_NOTICE)
    return Streamed(rows, (), outcome.events)


def unfit_version(version: Version) -> str | None:
    """Why the change stream of a server of this version is not used; None: it is (spec, Versioning 5)."""
    if (version.major, version.minor) < MINIMUM:
        return f"The server is {version}; its change stream is used from {MINIMUM[0]}.{MINIMUM[1]} on."
    if version.major > VERIFIED[0]:
        return (
            f"The server is {version}; its change stream is known up to {VERIFIED[0]}.{VERIFIED[1]}. "
            "A newer deletion-sync may know this one."
        )
    return None


def sign_in(partition: Partition, given: session.Session) -> str:
    """Keep a new session for the partition's user; returns where it is kept. Raises SyncError for another account's.

    A session that is not kept is ended on the server.
    """
    if given.user_id != partition.user_id:
        _end(partition, given)
        raise SyncError(
            "That is another account than the one of the API key.", "Sign in with the account that the API key is of."
        )
    try:
        place = session_store.put(partition, StoredSession(given.user_id, given.email, given.token))
    except DeletionSyncError:
        _end(partition, given)
        raise
    with writing(partition) as con:
        clear_fact(con, STREAM_NOTICE)
    return place


def sign_off(partition: Partition) -> bool:
    """End the session on the server and forget it; False: there was none. Raises PartlyDone, SyncError.

    It is forgotten here also when the server cannot be told: SyncError says so.
    """
    stored = session_store.get(partition)
    session_store.clear(partition)
    if stored is None:
        return False
    session.logout(partition.server_url, stored.token)
    return True


def _end(partition: Partition, given: session.Session) -> None:
    try:
        session.logout(partition.server_url, given.token)
    except SyncError as error:
        _log.warning("The session that was not kept could not be ended on the server: %s", error.what)


def _searched(context: Context, why: str) -> Streamed:
    """The run lists by search; `status` shows the reason until a stream works or a person signs in again."""
    with writing(context.partition) as con:
        set_fact(con, STREAM_NOTICE, why)
    return Streamed(notes=(f"Listed by search, not from the change stream. {why}",))
