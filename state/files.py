"""Reads and writes small files safely: whole or not at all, 0600 in 0700 folders. What is in them lives elsewhere."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from state.errors import StateUnreadable, StateUnwritable

_ADVICE = {
    errno.ENOSPC: "Free some space on that disk and run it again.",
    errno.EDQUOT: "Free some space within your quota and run it again.",
    errno.EFBIG: "Raise the file size limit of this process and run it again.",
    errno.EROFS: "The file system is read-only: make it writable, or set DELETION_SYNC_HOME to another folder.",
    errno.EACCES: "Give your user write permission there, or set DELETION_SYNC_HOME to another folder.",
    errno.EPERM: "Give your user write permission there, or set DELETION_SYNC_HOME to another folder.",
}


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turns an OSError inside into StateUnwritable, with what to do about it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        advice = _ADVICE.get(error.errno or 0, "Check the disk and the folder, and run it again.")
        raise StateUnwritable(f"{path} cannot be written: {reason}.", advice) from error


def ensure_folder(path: Path) -> None:
    """Makes the folder, and those above it, with mode 0700. A folder that exists keeps its mode."""
    with writing_to(path):
        for folder in [*reversed(path.parents), path]:
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Makes names created, replaced or removed in the folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """Replaces the file: readers see the old bytes or the new ones, also after a crash. Raises StateUnwritable."""
    ensure_folder(path.parent)
    with writing_to(path):
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)  # 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextlib.contextmanager
def reading_from(path: Path) -> Iterator[None]:
    """Turns an OSError inside into StateUnreadable, except that of a file that is not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateUnreadable(
            f"{path} cannot be read: {error.strerror or type(error).__name__}.",
            "Give your user permission to read it, and run it again.",
        ) from error


def read_bytes(path: Path) -> bytes | None:
    """The file's bytes, or None where there is no such file. Raises StateUnreadable for every other reason."""
    with reading_from(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
