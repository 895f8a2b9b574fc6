"""Hashing one file that has a path, and the program that worker processes run. Only light imports.

Which files are hashed, by whom and in which order is decided in ``library.hashing``.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import marshal
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable
from typing import IO, Any, BinaryIO

from library.capture_time import capture_time
from library.content_identifier import content_identifier

CHUNK = 1_048_576  # spec, Limits: hash read chunk

GONE = ("changed", "it is gone")
CHANGED_BEFORE = ("changed", "it changed after it was listed")
CHANGED_DURING = ("changed", "it changed while it was read")
STOPPED = ("unreadable", "the run was stopped")
KILLED = ("unreadable", "the process that read it was killed")

# What was listed of a part: path, file name, size, modification time in nanoseconds, "device:inode".
Wanted = tuple[bytes, str, int | None, int | None, str | None]
# Checksum, capture time in microseconds since 1970, content identifier; or the problem as a code
# (engine.deferral.Reason) and in words.
Outcome = tuple[str | None, int | None, str | None, tuple[str, str] | None]

READY = "ready"

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not block the open


def failed(problem: tuple[str, str]) -> Outcome:
    """The outcome of a part that has no checksum."""
    return None, None, None, problem


def unreadable(error: OSError) -> Outcome:
    """The outcome of a part that the system refuses."""
    if isinstance(error, FileNotFoundError):
        return failed(GONE)
    return failed(("unreadable", f"it cannot be read: {error.strerror or type(error).__name__}"))


def hash_file(wanted: Wanted, chunk: memoryview, stopped: Callable[[], bool]) -> Outcome:
    """Checksum, capture time and content identifier of a file, if it is and stays the one that was listed.

    The open file has the listed size, time and inode before; size, time, inode and ``st_ctime`` are the same after
    (a writer may put the modification time back), and the path still leads to it. ``chunk`` is the buffer;
    ``stopped`` is asked before each chunk but the first. A link, or anything but a regular file, is refused.
    """
    path, name, *listed = wanted
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        return unreadable(error)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return failed(("unreadable", "it cannot be read: It is not a regular file"))
        if [before.st_size, before.st_mtime_ns, f"{before.st_dev}:{before.st_ino}"] != listed:
            return failed(CHANGED_BEFORE)
        read = _digest(descriptor, name, before.st_size, chunk, stopped)
        if read is None:
            return failed(STOPPED)
        checksum, captured_at, content_id, size = read
        if not _same(before, os.lstat(path)) or not _same(before, os.fstat(descriptor)) or size != before.st_size:
            return failed(CHANGED_DURING)
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(descriptor)
    return checksum, before.st_mtime_ns // 1000 if captured_at is None else captured_at, content_id, None


def encoded(digest: bytes) -> str:
    """A checksum as the server writes it (spec, item 3)."""
    return binascii.b2a_base64(digest, newline=False).decode("ascii")


def metadata(name: str, head: memoryview, stream: BinaryIO) -> tuple[int | None, str | None]:
    """Capture time and content identifier by the first chunk; ``stream`` is left where it was."""
    return capture_time(name, head, stream), content_identifier(name, head, stream)


def _digest(
    descriptor: int, name: str, expected: int, chunk: memoryview, stopped: Callable[[], bool]
) -> tuple[str, int | None, str | None, int] | None:
    """Checksum, capture time, content identifier and length of an open file; None: it was stopped."""
    size, captured_at, content_id = 0, None, None
    digest = hashlib.sha1(usedforsecurity=False)
    while count := os.readv(descriptor, (chunk,)):
        if size == 0:
            while count < min(expected, CHUNK) and (more := os.readv(descriptor, (chunk[count:],))):
                count += more  # some file systems give less than was asked for
            with io.FileIO(descriptor, closefd=False) as stream:
                captured_at, content_id = metadata(name, chunk[:count], stream)
        elif stopped():
            return None
        digest.update(chunk[:count])
        size += count
    return encoded(digest.digest()), captured_at, content_id, size


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (
        one.st_size == other.st_size
        and one.st_mtime_ns == other.st_mtime_ns
        and one.st_ctime_ns == other.st_ctime_ns
        and one.st_ino == other.st_ino
        and one.st_dev == other.st_dev
    )


def send(pipe: IO[bytes], message: Any) -> None:
    """Write one message: its length, then marshal's form of it."""
    data = marshal.dumps(message)
    pipe.write(struct.pack("<I", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message. Raises EOFError where the other side ended, in the middle of one too."""
    (length,) = struct.unpack("<I", _exactly(pipe, 4))
    return marshal.loads(_exactly(pipe, length))  # noqa: S302  (only a process that we started writes it)


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError
    return data


def worker() -> None:
    """Says READY, then answers each batch of Wanted on standard input by its outcomes on standard output.

    Ends when its input does, or when whoever started it is gone. Ctrl-C is for the parent, which then ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    chunk = memoryview(bytearray(CHUNK))

    def orphaned() -> bool:
        return os.getppid() != parent

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    send(sink, READY)
    while True:
        try:
            batch: list[Wanted] = receive(source)
        except EOFError:
            return
        send(sink, [hash_file(wanted, chunk, orphaned) for wanted in batch])
