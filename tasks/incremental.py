"""Whether this run learns the server's assets from its change stream, and if not, why (spec, item 15; Errors).

How one sync goes is in tasks.server_changes. Whatever stops it, the run lists by search instead, and says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from engine.errors import DeletionSyncError
from server import session
from server.client import PhotoServer
from server.errors import ServerError
from server.shapes import Version
from server.stream import SyncStream
from server.stream_errors import SessionExpired, SyncError
from server.stream_types import asset_types, unfit
from state import server_cache, session_store
from state.db import writing
from state.errors import StateCorrupt, StateError
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
    a search can do without; ServerError of what is asked with the API key, which a search needs too.
    """
    if not context.settings.useIncrementalServerSync:
        _notice(context.partition, None)
        return Streamed()
    try:
        stored = session_store.get(context.partition)
        if stored is None:
            return Streamed()
        version = Version(*(int(number) for number in context.facts["server"]["version"].split(".")))
        reason = unfit(version)
        if reason is not None:
            return _searched(context, reason)
        with (
            server_cache.server_cache(context.partition) as cache,
            SyncStream(context.partition.server_url, stored.token) as stream,
        ):
            outcome = server_changes.checked_sync(
                stream,
                cache,
                lambda: server.fetch_assets(context.user_id, progress=progress.report),
                server.statistics,
                asset_types(version),
                clock.naive_now,
                progress.report,
            )
            rows = server_cache.server_rows(cache, path)
    except ServerError:
        raise
    except SessionExpired as error:
        with _best_effort("The session that has expired could not be forgotten here"):
            session_store.clear(context.partition)  # said once: the next run finds none (lesson 35)
        return _searched(context, str(error))
    except DeletionSyncError as error:
        return _searched(context, str(error))
    _notice(context.partition, None)
    return Streamed(rows, (), outcome.events)


def sign_in(partition: Partition, given: session.Session) -> str:
    """Keep a new session for the partition's user; returns where it is kept. Raises SyncError for another account's.

    A session that is not kept is ended on the server.
    """
    if given.user_id != partition.user_id:
        _end(partition, given.token)
        raise SyncError(
            "That is another account than the one of the API key.", "Sign in with the account that the API key is of."
        )
    former = None
    with contextlib.suppress(StateError):  # what cannot be read is replaced all the same
        former = session_store.get(partition)
    try:
        place = session_store.put(partition, StoredSession(given.user_id, given.email, given.token))
    except DeletionSyncError:
        _end(partition, given.token)
        raise
    if former is not None and former.token.get_secret_value() != given.token.get_secret_value():
        _end(partition, former.token)
    _notice(partition, None)
    return place


def sign_off(partition: Partition) -> bool:
    """End the session on the server and forget it; False: there was none. Raises PartlyDone, SyncError.

    It is forgotten here also when the server cannot be told: SyncError says so.
    """
    stored = None
    with contextlib.suppress(StateCorrupt):  # that one can be told to nobody
        stored = session_store.get(partition)
    session_store.clear(partition)
    _notice(partition, None)
    if stored is None:
        return False
    session.logout(partition.server_url, stored.token)
    return True


def end_session(partition: Partition) -> None:
    """End the session on the server as well as may be; to forget it here is the caller's. Raises nothing."""
    forget_reason(partition)
    stored = None
    with contextlib.suppress(StateError):
        stored = session_store.get(partition)
    if stored is not None:
        _end(partition, stored.token)


def forget_reason(partition: Partition) -> None:
    """`status` shows no reason for slower runs any more: nobody asks for faster ones. Raises nothing."""
    _notice(partition, None)


def _end(partition: Partition, token: SecretStr) -> None:
    with _best_effort("A session that is not kept any more could not be ended on the server"):
        session.logout(partition.server_url, token)


def _notice(partition: Partition, why: str | None) -> None:
    """What `status` shows as the reason of slower runs; None: nothing. No run fails for it."""
    with _best_effort("Why this run lists by search could not be noted for `status`"), writing(partition) as con:
        if why is None:
            clear_fact(con, STREAM_NOTICE)
        else:
            set_fact(con, STREAM_NOTICE, why)


@contextlib.contextmanager
def _best_effort(failure: str) -> Iterator[None]:
    try:
        yield
    except DeletionSyncError as error:
        _log.warning("%s: %s", failure, error)


def _searched(context: Context, why: str) -> Streamed:
    """The run lists by search; `status` shows the reason until a stream works or a person signs in again."""
    _notice(context.partition, why)
    return Streamed(notes=(f"Listed by search, not from the change stream. {why}",))
