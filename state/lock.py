"""Locks that the operating system frees when their holder dies. The lock files stay; what is locked lives elsewhere.

Order, where several are held: partition, exclusions, database, journal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import PartitionBusy
from state.errors import StateUnwritable
from state.files import ensure_folder, writing_to

if TYPE_CHECKING:
    from state.partition import Partition

_POLL_SECONDS = 0.01
_LOOK_SECONDS = 0.5  # whoever only looks who holds a partition has it for much less


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a partition. ``since`` is UTC, RFC 3339; ``host``: the computer's name, "" where it is not known."""

    pid: int
    what: str
    since: str
    host: str = ""


@contextlib.contextmanager
def partition_lock(partition: Partition, what: str) -> Iterator[None]:
    """Holds the partition for one run, or raises PartitionBusy within a second, saying who holds it (lesson 52).

    Two threads of one process exclude each other too. ``what`` is a word or two, such as ``reconcile``.
    """
    descriptor = _open(partition.run_lock)
    try:
        until = time.monotonic() + _LOOK_SECONDS
        while not _taken(descriptor, partition.run_lock, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                raise _busy(_read_holder(descriptor))
            time.sleep(_POLL_SECONDS)
        holder = Holder(os.getpid(), what, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), platform.node())
        with writing_to(partition.run_lock):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)  # closing frees the lock


def holder(partition: Partition) -> Holder | None:
    """Who holds the partition now, or None. For display: it may change at once."""
    if not partition.run_lock.exists():
        return None
    descriptor = _open(partition.run_lock)
    try:
        if _taken(descriptor, partition.run_lock, fcntl.LOCK_SH):
            return None
        return _read_holder(descriptor) or Holder(0, "another run", "")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def file_lock(path: Path, wait_seconds: float, *, shared: bool = False, why: str = "") -> Iterator[None]:
    """Holds a short lock on the file, which is made if missing. Raises PartitionBusy after ``wait_seconds``.

    ``shared`` holders admit each other. It is not reentrant: taking it twice in one thread waits for oneself.
    ``why`` says what the other side may be doing.
    """
    descriptor = _open(path)
    try:
        until = time.monotonic() + wait_seconds
        while not _taken(descriptor, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            if time.monotonic() >= until:
                raise PartitionBusy(
                    f"{path.name} has been in use for {wait_seconds:g} seconds{why and ': '}{why}.",
                    "Wait for the other command to finish, and run it again.",
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    ensure_folder(path.parent)
    with writing_to(path):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(descriptor: int, path: Path, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
            return False
        raise StateUnwritable(
            f"{path} cannot be locked: {error.strerror}.",
            "Set DELETION_SYNC_HOME to a folder on a local disk: this file system has no locks.",
        ) from error
    return True


def _read_holder(descriptor: int) -> Holder | None:
    """None while the holder is still writing its name."""
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(found["pid"]), str(found["what"]), str(found["since"]), str(found.get("host", "")))
    except (ValueError, TypeError, KeyError):
        return None


def _busy(found: Holder | None) -> PartitionBusy:
    if found is None:
        return PartitionBusy("Another run holds this account's state.", "Wait until it ends.")
    since = found.since[11:16]
    if found.host and found.host != platform.node():
        return PartitionBusy(
            f"Another run ({found.what}) on {found.host} holds this account's state since {since} UTC.",
            f"Wait until it ends, or look at it there with `ps -p {found.pid}`.",
        )
    return PartitionBusy(
        f"Another run ({found.what}, pid {found.pid}) holds this account's state since {since} UTC.",
        f"Wait until it ends, or look at it with `ps -p {found.pid}`.",
    )
