"""The database inside a Photos library: a private copy that holds still, and what tells this database from another.

Which photos it names is read in ``library.apple_assets``. Nothing is ever written into the bundle.
"""

from __future__ import annotations

import errno
import os
import plistlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from library.errors import LibraryUnavailable

DATABASE = "database/Photos.sqlite"
ORIGINALS = "originals"
_SIDES = ("", "-wal", "-journal")  # what SQLite needs of a database that is in use; it makes -shm anew
_ATTEMPTS = 3  # a database that is being written to is copied again this often
_MAGIC = b"SQLite format 3\0"
_SETTLE = "Quit Photos and wait until it has synchronised, then run again."
_REPAIR = "Open the library in Photos and let it repair itself (hold Option and Command while Photos starts)."
_ALLOW = "Give this program Full Disk Access (System Settings, Privacy & Security), or repair the permissions."

# The largest key ever given out; it grows and never shrinks, unless an older copy of the database came back.
_NEWEST = "SELECT Z_NAME, Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME IN ('Asset', 'GenericAsset', 'TRANSACTION')"
# Each is 0 or NULL for what is the user's alone; older versions lack some. The second is for shared albums since macOS
# 26. The last three tell of the shared library: one is for the library that is in use now, and the others may be set
# while it is being joined or left.
_SCOPES = (
    "ZBUNDLESCOPE",
    "ZCOLLECTIONSHARE",
    "ZACTIVELIBRARYSCOPEPARTICIPATIONSTATE",
    "ZLIBRARYSCOPESHARESTATE",
    "ZLIBRARYSCOPE",
)
_ASSET_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('ZASSET', 'ZGENERICASSET')"


@dataclass(frozen=True, slots=True)
class State:
    """Which database it is and how far it got. ``model`` is the version of its tables."""

    store: str
    model: int
    newest: dict[str, int]


def bundle_problem(bundle: Path) -> str | None:
    """Why nothing can be read from a Photos library; None: it has a database and a folder of originals."""
    try:
        os.scandir(bundle).close()
    except NotADirectoryError:
        return f"{bundle} is not a folder, so it is no Photos library"
    except OSError as error:
        return f"{bundle} cannot be read: {error.strerror}{_permission_hint(error)}"
    database = bundle / DATABASE
    try:
        with database.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        return f"{bundle} is not a library of Photos 5 (macOS 10.15) or later: it has no {DATABASE}"
    except OSError as error:
        return f"{database} cannot be read: {error.strerror}{_permission_hint(error)}"
    if magic != _MAGIC:
        return f"{database} is not a database, or it is damaged"
    try:
        os.scandir(bundle / ORIGINALS).close()
    except OSError as error:
        return f"{bundle / ORIGINALS} cannot be read: {error.strerror}"
    return None


@contextmanager
def private_copy(bundle: Path) -> Iterator[Path]:
    """A copy of the database, whole and checked, that is gone afterwards.

    Raises LibraryUnavailable for a database that cannot be read, is damaged, or would not stay still.
    """
    with tempfile.TemporaryDirectory(prefix="deletion-sync-", ignore_cleanup_errors=True) as place:
        copy = Path(place) / Path(DATABASE).name
        _copy(bundle / DATABASE, copy)
        try:
            with closing(sqlite3.connect(copy)) as con:
                # What waits in the log of a running Photos belongs to the listing too; this takes it in.
                con.execute("PRAGMA journal_mode = DELETE").fetchone()
                sound = con.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except sqlite3.Error:
            sound = False
        if not sound:
            raise LibraryUnavailable(f"The database {bundle / DATABASE} is damaged.", _REPAIR)
        yield copy


def state_of(bundle: Path) -> State:
    """The state of a bundle's database now. Raises LibraryUnavailable as ``private_copy`` does."""
    with private_copy(bundle) as copy:
        return read_state(copy, bundle)


def read_state(copy: Path, bundle: Path) -> State:
    """The state of a private copy. Raises LibraryUnavailable for a database that is none of Photos."""
    try:
        with closing(sqlite3.connect(copy)) as con:
            store, properties = con.execute("SELECT Z_UUID, Z_PLIST FROM Z_METADATA").fetchone()
            newest = {str(name): int(key) for name, key in con.execute(_NEWEST)}
        return State(str(store), int(plistlib.loads(properties)["PLModelVersion"]), newest)
    except (sqlite3.Error, ValueError, TypeError, KeyError, plistlib.InvalidFileException):
        raise LibraryUnavailable(f"{bundle / DATABASE} is not a database of Photos.", _REPAIR) from None


def assets_of_others(copy: Path) -> dict[str, bool]:
    """The id of every asset in a private copy, whatever it is, to whether it lies outside the user's own library: among
    what was received (links, shared albums, messages), or in a library that is shared. Raises sqlite3.Error."""
    found: dict[str, bool] = {}
    with closing(sqlite3.connect(copy)) as con:
        for (table,) in con.execute(_ASSET_TABLES).fetchall():
            there = {str(name) for (_, name, *_) in con.execute(f"PRAGMA table_info({table})")}
            marks = [f"coalesce({column}, 0) <> 0" for column in _SCOPES if column in there]
            rows = con.execute(f"SELECT ZUUID, {' OR '.join(marks) or '0'} FROM {table}")
            found.update((str(key), bool(others)) for key, others in rows)
    return found


def _copy(database: Path, copy: Path) -> None:
    """Copy a database with its log while neither changes: then the copy is a state that the database had."""
    try:
        for _ in range(_ATTEMPTS):
            before = _stamps(database)
            for side in _SIDES:
                target = Path(f"{copy}{side}")
                target.unlink(missing_ok=True)
                if side in before:
                    shutil.copyfile(f"{database}{side}", target)
            if before and _stamps(database) == before:
                return
    except OSError as error:
        raise LibraryUnavailable(
            f"The database {database} cannot be copied: {error.strerror}.",
            _ALLOW if _is_permission(error) else "Make room for a copy, or connect the disk, then run again.",
        ) from None
    raise LibraryUnavailable(f"The database {database} changed while it was read.", _SETTLE)


def _stamps(database: Path) -> dict[str, tuple[int, ...]]:
    stamps: dict[str, tuple[int, ...]] = {}
    for side in _SIDES:
        try:
            status = os.stat(f"{database}{side}")  # noqa: PTH116
        except FileNotFoundError:
            continue
        stamps[side] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return stamps


def _is_permission(error: OSError) -> bool:
    return error.errno in (errno.EPERM, errno.EACCES)


def _permission_hint(error: OSError) -> str:
    return f" ({_ALLOW.rstrip('.')})" if _is_permission(error) else ""
