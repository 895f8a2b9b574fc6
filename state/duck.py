"""Opens a DuckDB file of ours, and says in our words what is wrong with it. What is in the file lives elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.database import connect, database
from engine.errors import PartitionBusy
from state.errors import StateCorrupt, StateError, StateTooNew, StateUnreadable, StateUnwritable
from state.files import sync_folder, writing_to
from state.lock import file_lock

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_IN_USE = ("Could not set lock on file", "with a different configuration", "Unique file handle conflict")
_NO_ROOM = ("No space left on device", "File too large", "Disk quota exceeded", "Read-only file system")
COLUMNS_HERE = """
SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND database_name = current_database()
"""
_DAMAGED = ("Corrupt database file", "Could not read enough bytes")
_ENDED = "database has been invalidated"  # by a fatal error, which may have been of another file


@contextlib.contextmanager
def opened(
    path: Path, advice: str, *, read_only: bool, memory_limit: str | None = None, known_as: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a file that exists; the caller holds its lock. Closing it writes everything into the file.

    ``advice`` is what to do when the file is damaged; ``known_as`` is what errors call it. Raises StateError, or
    PartitionBusy when another program has had the file open for 10 seconds.
    """
    with contextlib.ExitStack() as closing:
        con = _connected(closing, path, advice, read_only, own=memory_limit is not None)
        with explained(known_as or path, advice):
            con.execute("SET TimeZone = 'UTC'")
            if memory_limit is not None:
                con.execute(f"SET memory_limit = '{memory_limit}'")  # of its instance, so it has one of its own
            yield con


@contextlib.contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of it or, after an error, nothing."""
    import duckdb

    con.execute("BEGIN")
    try:
        yield
        con.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # a commit that failed has rolled back by itself
            con.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explained(path: Path, advice: str) -> Iterator[None]:
    """Turns DuckDB's word for a full disk or a damaged file into a StateError; other errors pass through."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        if any(mark in text for mark in _NO_ROOM):
            raise _no_room(path, text) from error
        if any(mark in text for mark in _DAMAGED):
            raise _damaged(path, advice) from error
        if _ENDED in text:
            raise StateError(f"{path} could not be used to the end: an error came before.", "Run it again.") from error
        raise


@contextlib.contextmanager
def built(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a new file that takes the name ``path`` when the block ends well: whole, or not there at all.

    The caller holds the lock. A write-ahead log that an earlier file of that name left behind is set aside, because
    DuckDB would replay it into the new file.
    """
    new = path.with_name(f".{path.name}.new")
    with writing_to(path):
        for remains in (new, _log_of(new)):
            remains.unlink(missing_ok=True)
        if _log_of(path).exists():
            set_aside(_log_of(path))
    with opened(new, "Run it again.", read_only=False, known_as=path) as con:
        yield con
    if _log_of(new).exists():  # what is in it would stay behind
        raise _no_room(path, _NO_ROOM[0])
    with writing_to(path):
        new.chmod(0o600)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
        sync_folder(path.parent)


def set_aside(path: Path) -> Path:
    """Renames a file to the first free ``<name>.damaged-<n>`` and returns the new path."""
    number = 1
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    with writing_to(path):
        path.rename(target)
    return target


def set_aside_database(path: Path) -> Path:
    """Renames a database file and its write-ahead log; returns the database's new path."""
    if _log_of(path).exists():
        set_aside(_log_of(path))
    return set_aside(path)


def lock_of(path: Path, *, shared: bool) -> contextlib.AbstractContextManager[None]:
    """The lock beside a database file: readers admit each other, a writer is alone. Not reentrant."""
    return file_lock(path.with_name(f"{path.stem}.lock"), WAIT_SECONDS, shared=shared, why="another command uses it")


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _connected(
    closing: contextlib.ExitStack, path: Path, advice: str, read_only: bool, *, own: bool
) -> duckdb.DuckDBPyConnection:
    import duckdb

    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            if own:
                return closing.enter_context(contextlib.closing(connect(path, read_only=read_only)))
            return closing.enter_context(database(path, read_only=read_only))
        except duckdb.Error as error:
            text = str(error)
            if not any(mark in text for mark in _IN_USE):
                raise _refused(path, advice, text) from error
            if time.monotonic() >= until:
                raise PartitionBusy(
                    f"{path} has been open in another program for {WAIT_SECONDS:g} seconds.",
                    "Close that program, and run it again.",
                ) from error
        time.sleep(_POLL_SECONDS)


def _refused(path: Path, advice: str, text: str) -> StateError:
    if any(mark in text for mark in _NO_ROOM):
        return _no_room(path, text)
    if "Permission denied" in text:
        return StateUnreadable(f"{path} cannot be opened: permission denied.", "Give your user access to it.")
    if "version number" in text:
        return StateTooNew(f"{path} was written by a later version.", "Update deletion-sync, and run it again.")
    return _damaged(path, advice)


def _no_room(path: Path, text: str) -> StateUnwritable:
    reason = next(mark for mark in _NO_ROOM if mark in text)
    return StateUnwritable(
        f"{path} cannot be written: {reason}.", "Make room on that disk and run it again; what was saved before stands."
    )


def _damaged(path: Path, advice: str) -> StateCorrupt:
    return StateCorrupt(f"{path} is damaged: it does not hold what was written to it.", advice)
