"""Hashing local parts: SHA-1 in 1 MB chunks on all cores, with the capture time read on the way.

What a capture time is and where it stands in a file lives in ``library.capture_time``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, BinaryIO

import pyarrow as pa

from library.capture_time import capture_time
from library.protocol import Hashed, Library, Progress, silent

CHUNK = 1_048_576  # spec, Limits: hash read chunk

_VANISHED = "it is gone"
_CHANGED_BEFORE = "it changed after it was listed"
_CHANGED_DURING = "it changed while it was read"


def hash_parts(
    libraries: Mapping[str, Library], wanted: pa.Table, *, workers: int | None = None, progress: Progress = silent
) -> Iterator[Hashed]:
    """The checksum of each row of ``wanted`` (ENUMERATED), in the order in which they are done (spec, item 5.1).

    ``captured_at`` is in microseconds since 1970: the EXIF or QuickTime time as UTC where the file says its offset,
    else the wall clock of the place; a file that says nothing has its modification time, in UTC.
    A part that is gone, unreadable, or not the bytes that were listed has a ``problem`` and no checksum; it never
    has a wrong one. Rows with a checksum of their own (a checksums file) are passed through.

    Memory stays flat: one chunk a worker (default: one for each usable core) and a few rows in flight. Closing the
    iterator stops the workers within a chunk. Reports the phase 'hash' to ``progress``.
    """
    count = workers or _usable_cores()
    finished: SimpleQueue[Future[Hashed]] = SimpleQueue()
    stop = threading.Event()
    buffers = threading.local()
    total, done, in_flight = wanted.num_rows, 0, 0
    rows = _rows(wanted)
    pool = ThreadPoolExecutor(count, thread_name_prefix="hash")
    try:
        while True:
            while in_flight < 4 * count and (row := next(rows, None)) is not None:
                future = pool.submit(_hash_row, libraries[row["library_id"]], row, buffers, stop)
                future.add_done_callback(finished.put)
                in_flight += 1
            if not in_flight:
                return
            hashed = finished.get().result()
            in_flight -= 1
            done += 1
            progress("hash", done, total)
            yield hashed
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rows(wanted: pa.Table) -> Iterator[dict[str, Any]]:
    columns = ["library_id", "local_id", "part", "file_name", "size", "modified_ns", "file_identity", "checksum"]
    for batch in wanted.select(columns).to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def _hash_row(library: Library, row: dict[str, Any], buffers: threading.local, stop: threading.Event) -> Hashed:
    local_id, part = row["local_id"], row["part"]
    checksum, captured_at, problem = row["checksum"], None, None
    if checksum is None:
        if not hasattr(buffers, "chunk"):
            buffers.chunk = bytearray(CHUNK)
        try:
            with library.open_bytes(local_id, part) as stream:
                checksum, captured_at, problem = _read(library, row, stream, memoryview(buffers.chunk), stop)
        except FileNotFoundError:
            problem = _VANISHED
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or type(error).__name__}"
    return Hashed(
        library_id=row["library_id"],
        local_id=local_id,
        part=part,
        checksum=checksum,
        size=row["size"] or 0,
        modified_ns=row["modified_ns"] or 0,
        captured_at=captured_at,
        problem=problem,
    )


def _read(
    library: Library, row: dict[str, Any], stream: BinaryIO, chunk: memoryview, stop: threading.Event
) -> tuple[str | None, int | None, str | None]:
    """Checksum, capture time and problem of an open stream: only one of the first and the last is set.

    The path is looked at before and after, and the open file as well: a replaced file changes the path, a file that
    is written to changes both. ``st_ctime_ns`` notices a writer that puts the modification time back.
    Bytes that come from another device have no open file here: of those the library's stamp alone tells.
    """
    listed = (row["size"], row["modified_ns"], row["file_identity"])
    opened = _status(stream)
    if _stamp(library, row) != listed or (opened is not None and _key(opened) != listed):
        return None, None, _CHANGED_BEFORE
    digest = hashlib.sha1(usedforsecurity=False)
    captured_at, size = None, 0
    while count := _fill(stream, chunk):
        if stop.is_set():
            return None, None, "the run was stopped"
        digest.update(chunk[:count])
        if size == 0:
            captured_at = capture_time(row["file_name"], chunk[:count], stream)
        size += count
    if size != row["size"] or _stamp(library, row) != listed or _was_written_to(stream, opened):
        return None, None, _CHANGED_DURING
    if captured_at is None:
        captured_at = row["modified_ns"] // 1000
    return base64.b64encode(digest.digest()).decode("ascii"), captured_at, None


def _fill(stream: BinaryIO, chunk: memoryview) -> int:
    """Fill ``chunk`` as far as the stream goes. An unbuffered stream may give less than was asked for."""
    filled = 0
    while filled < len(chunk):
        count = stream.readinto(chunk[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return filled


def _stamp(library: Library, row: dict[str, Any]) -> tuple[int, int, str]:
    stamp = library.stamp(row["local_id"], row["part"])
    return stamp.size, stamp.modified_ns, stamp.file_identity


def _status(stream: BinaryIO) -> os.stat_result | None:
    """Of the file behind a stream; None: there is none on this computer."""
    try:
        return os.fstat(stream.fileno())
    except io.UnsupportedOperation:
        return None


def _was_written_to(stream: BinaryIO, opened: os.stat_result | None) -> bool:
    """Whether the open file is not as it was when it was ``opened``."""
    closing = _status(stream)
    if opened is None or closing is None:
        return opened is not closing
    return _key(closing) != _key(opened) or closing.st_ctime_ns != opened.st_ctime_ns


def _key(status: os.stat_result) -> tuple[int, int, str]:
    return status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}"
