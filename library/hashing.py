"""Hashing local parts on all cores: which rows are read by whom, in which order, and what becomes of their outcomes.

How one file is hashed safely lives in ``library.hash_file``; what a capture time is, in ``library.capture_time``.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

import pyarrow as pa

from library import hash_workers
from library.hash_cluster import Cluster, ClusterWorker
from library.hash_file import (
    CHANGED_BEFORE,
    CHANGED_DURING,
    CHUNK,
    KILLED,
    STOPPED,
    Outcome,
    Wanted,
    encoded,
    failed,
    hash_file,
    metadata,
    unreadable,
)
from library.hash_workers import Worker
from library.protocol import Hashed, Library, Progress, silent

_BATCH_FILES = 64
_BATCH_BYTES = 32 << 20
_BATCH_PATHS = 16_384  # bytes of paths: two batches fit into a pipe, so that no side waits for the other for ever
_LARGE = 16 << 20
_WORTH_PROCESSES = 200  # parts; for fewer the start of a process costs more than it gains
_WORTH_CLUSTER = 1000  # parts; for fewer the connection costs more than it gains
_AHEAD = 16  # batches a worker may be ahead of whoever takes the outcomes
_GLANCE = 0.2  # seconds between two looks whether it is enough

_COLUMNS = ("library_id", "local_id", "part", "file_name", "size", "modified_ns", "file_identity", "checksum")
_Row = tuple[Any, ...]  # the values of _COLUMNS


@dataclass(frozen=True, slots=True)
class _Most:
    """What a batch holds at most."""

    files: int
    size: int  # bytes
    paths: int  # bytes


# For a cluster: a task costs its scheduler about a millisecond; a worker that dies loses one.
_FOR_CLUSTER = _Most(files=256, size=512 << 20, paths=1 << 20)


def hash_parts(
    libraries: Mapping[str, Library], wanted: pa.Table, *, workers: int | None = None, progress: Progress = silent
) -> Iterator[Hashed]:
    """``hash_groups`` part by part, in the order in which they are done. Reports the phase 'hash' to ``progress``."""
    total, done = wanted.num_rows, 0
    keys = wanted.select(["library_id", "local_id", "part", "size", "modified_ns"])
    for group in hash_groups(libraries, wanted, workers=workers):
        rows = keys.take([row for row, _ in group]).to_pylist()
        for row, (_, (checksum, captured_at, content_id, problem)) in zip(rows, group, strict=True):
            done += 1
            progress("hash", done, total)
            yield Hashed(
                library_id=row["library_id"],
                local_id=row["local_id"],
                part=row["part"],
                checksum=checksum,
                size=row["size"] or 0,
                modified_ns=row["modified_ns"] or 0,
                captured_at=captured_at,
                content_id=content_id,
                problem=None if problem is None else problem[1],
            )


def hash_groups(
    libraries: Mapping[str, Library],
    wanted: pa.Table,
    *,
    workers: int | None = None,
    enough: Callable[[], bool] = lambda: False,
    cluster: Cluster | None = None,
) -> Generator[list[tuple[int, Outcome]], None, None]:
    """Row numbers of ``wanted`` (ENUMERATED) with their outcomes, in groups, as they are done (spec, item 5.1).

    The capture time is in microseconds since 1970: the EXIF or QuickTime time as UTC where the file says its offset,
    else the wall clock of the place; a file that says nothing has its modification time, in UTC.
    A part that is gone, unreadable, or not the bytes that were listed has a problem and no checksum; it never
    has a wrong one. So has what a worker process held that was killed. Rows with a checksum of their own (a checksums
    file) are passed through.

    Files that a library can name by path (``path_of``) are read by the ``cluster`` where one is given, else by worker
    processes where there are many; everything else by threads. Memory stays flat: one chunk a worker (default: one for
    each usable core) and a few batches in flight. ``enough`` is asked several times a second; once it is true, or when
    the iterator is closed, the workers stop within a chunk (a cluster's after their batch, which nobody waits for),
    and what was not handed out was not hashed.
    """
    count = workers or (_usable_cores() if cluster is None else cluster.lanes)
    job = _Job(
        libraries,
        _batches(libraries, wanted, _most(cluster)),
        threading.Semaphore(_AHEAD * count),
        by_processes=cluster is not None or wanted.num_rows >= _WORTH_PROCESSES,
        start=hash_workers.start if cluster is None else cluster.start,
    )
    lanes = [threading.Thread(target=_lane, args=(job,), name=f"hash-{n}", daemon=True) for n in range(count)]
    for lane in lanes:
        lane.start()
    try:
        running = count
        while running and not enough():
            try:
                done = job.finished.get(timeout=_GLANCE)
            except Empty:
                continue
            if isinstance(done, BaseException):
                raise done
            if done is None:
                running -= 1
            else:
                job.room.release()
                yield done
    finally:
        job.stop.set()
        for _ in lanes:
            job.room.release()
        with job.lock:
            for worker in job.workers:
                worker.kill()
        for lane in lanes:
            lane.join()


def _most(cluster: Cluster | None) -> _Most:
    return _Most(_BATCH_FILES, _BATCH_BYTES, _BATCH_PATHS) if cluster is None else _FOR_CLUSTER


def worth_a_cluster(wanted: pa.Table) -> bool:
    """Whether there is enough to read for other computers."""
    return bool(wanted.num_rows >= _WORTH_CLUSTER)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _Batch:
    """Rows that are done together: files with a path, rows of libraries without one, or outcomes that are known."""

    rows: list[int] = field(default_factory=list)
    files: list[Wanted] = field(default_factory=list)
    streams: list[_Row] = field(default_factory=list)
    known: list[Outcome] = field(default_factory=list)
    size: int = 0  # bytes of the files


@dataclass(slots=True)
class _Job:
    """What the lanes of one call share. ``finished`` gets groups, an error, and None from each lane that ends."""

    libraries: Mapping[str, Library]
    batches: Iterator[_Batch]
    room: threading.Semaphore
    by_processes: bool
    start: Callable[[], Worker | ClusterWorker | None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    finished: SimpleQueue[list[tuple[int, Outcome]] | BaseException | None] = field(default_factory=SimpleQueue)
    workers: list[Worker | ClusterWorker] = field(default_factory=list)

    def next_batch(self) -> _Batch | None:
        self.room.acquire()
        with self.lock:
            return None if self.stop.is_set() else next(self.batches, None)

    def done(self, rows: list[int], outcomes: list[Outcome]) -> None:
        self.finished.put(list(zip(rows, outcomes, strict=True)))


def _batches(libraries: Mapping[str, Library], wanted: pa.Table, most: _Most) -> Iterator[_Batch]:
    """The rows of ``wanted`` by the way they are read. A stream (a phone) is a batch of its own."""
    files, paths, number = _Batch(), 0, 0
    for piece in wanted.select(_COLUMNS).to_batches(max_chunksize=1024):
        known = _Batch()
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            library = libraries[row[0]]
            try:
                path = _path(library, row)
                ready: Outcome | None = None if row[7] is None else (row[7], None, None, None)
            except OSError as error:
                path, ready = None, unreadable(error)
            if ready is not None:
                known.rows.append(number)
                known.known.append(ready)
            elif path is None:
                yield _Batch([number], streams=[row])
            else:
                size = row[4] or 0
                if files.rows and (
                    files.size + size > most.size or paths + len(path) > most.paths or len(files.rows) == most.files
                ):
                    yield files
                    files, paths = _Batch(), 0
                files.size += size
                paths += len(path)
                files.rows.append(number)
                files.files.append((path, *row[3:7]))
            number += 1
        if known.rows:
            yield known
    if files.rows:
        yield files


def _path(library: Library, row: _Row) -> bytes | None:
    """Where the part is, if its library can say so. Raises OSError."""
    path_of: Callable[[str, str], bytes | None] | None = getattr(library, "path_of", None)
    return None if path_of is None or row[7] is not None else path_of(row[1], row[2])


def _lane(job: _Job) -> None:
    """One worker's life: take batches until there are none; files go to a process where that is worth it."""
    worker: Worker | ClusterWorker | None = None
    by_process = job.by_processes
    chunk = memoryview(bytearray(CHUNK))
    try:
        while (batch := job.next_batch()) is not None:
            if not batch.files:
                job.done(batch.rows, batch.known or [_hash_stream(job, row, chunk) for row in batch.streams])
                continue
            if by_process and worker is None:
                worker = _started(job)
                by_process = worker is not None
            if worker is None:
                job.done(batch.rows, [hash_file(file, chunk, job.stop.is_set) for file in batch.files])
                continue
            worker.give(batch.rows, batch.files)
            # It has the next batch while the answer to a small one is looked at; behind a large one nothing waits.
            while worker is not None and len(worker.sent) > (batch.size < _LARGE):
                worker = _answered(job, worker)
        while worker is not None and worker.sent:
            worker = _answered(job, worker)
    except BaseException as error:
        job.finished.put(error)
    finally:
        if worker is not None:
            worker.end()
        job.finished.put(None)


def _started(job: _Job) -> Worker | ClusterWorker | None:
    with job.lock:
        worker = None if job.stop.is_set() else job.start()
        if worker is not None:
            job.workers.append(worker)
        return worker


def _answered(job: _Job, worker: Worker | ClusterWorker) -> Worker | ClusterWorker | None:
    """Take the oldest answer. A worker that ended leaves problems, and no worker."""
    try:
        rows = worker.sent[0]
        job.done(rows, worker.take())
    except EOFError:
        for rows in worker.sent:
            job.done(rows, [failed(KILLED)] * len(rows))
        worker.end()
        with job.lock:
            job.workers.remove(worker)
        return None
    return worker


def _hash_stream(job: _Job, row: _Row, chunk: memoryview) -> Outcome:
    """The outcome of a part that its library opens."""
    library = job.libraries[row[0]]
    try:
        with library.open_bytes(row[1], row[2]) as stream:
            return _read(library, row, stream, chunk, job.stop)
    except OSError as error:
        return unreadable(error)


def _read(library: Library, row: _Row, stream: BinaryIO, chunk: memoryview, stop: threading.Event) -> Outcome:
    """The outcome of an open stream.

    The path is looked at before and after, and the open file as well: a replaced file changes the path, a file that
    is written to changes both. ``st_ctime_ns`` notices a writer that puts the modification time back.
    Bytes that come from another device have no open file here: of those the library's stamp alone tells.
    """
    _, local_id, part, name, *listed = row[:7]
    opened = _status(stream)
    if _stamp(library, local_id, part) != listed or (opened is not None and _key(opened) != listed):
        return failed(CHANGED_BEFORE)
    digest = hashlib.sha1(usedforsecurity=False)
    captured_at, content_id, size = None, None, 0
    while count := _fill(stream, chunk):
        if stop.is_set():
            return failed(STOPPED)
        digest.update(chunk[:count])
        if size == 0:
            captured_at, content_id = metadata(name, chunk[:count], stream)
        size += count
    if size != row[4] or _stamp(library, local_id, part) != listed or _was_written_to(stream, opened):
        return failed(CHANGED_DURING)
    return encoded(digest.digest()), row[5] // 1000 if captured_at is None else captured_at, content_id, None


def _fill(stream: BinaryIO, chunk: memoryview) -> int:
    """Fill ``chunk`` as far as the stream goes. An unbuffered stream may give less than was asked for."""
    filled = 0
    while filled < len(chunk):
        count = stream.readinto(chunk[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return filled


def _stamp(library: Library, local_id: str, part: str) -> list[int | str]:
    stamp = library.stamp(local_id, part)
    return [stamp.size, stamp.modified_ns, stamp.file_identity]


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


def _key(status: os.stat_result) -> list[int | str]:
    return [status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}"]
