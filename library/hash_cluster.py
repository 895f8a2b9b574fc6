"""Hashing on a Dask cluster whose workers see the library under the same path, as the lanes of ``library.hashing`` see
it. What a worker does with one file is in ``library.hash_file``; which rows go there, in ``library.hashing``.

Whatever goes wrong with the cluster leaves parts without a checksum, never with a wrong one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from library.hash_file import CHANGED_BEFORE, CHANGED_DURING, CHUNK, Outcome, Wanted, failed, hash_file, unreadable

VARIABLE = "DELETION_SYNC_DASK"

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/@]+:\d{1,5}")
_CHECKSUM = re.compile(r"[A-Za-z0-9+/]{27}=")
_CONNECT_SECONDS = 10
_GLANCE_SECONDS = 5.0  # between two looks whether the cluster still has a worker
_CODE = "no_worker"  # engine.deferral.Reason; a worker's own words follow


@dataclass(slots=True)
class Cluster:
    """A connection, or the ``problem`` that there is instead. ``lanes``: how many batches it reads at a time."""

    lanes: int
    client: Any = None  # distributed.Client
    problem: str = ""

    def start(self) -> ClusterWorker:
        """Stands for one of its threads, as ``hash_workers.start`` for a process."""
        return ClusterWorker(self)

    def has_worker(self) -> bool:
        """Whether somebody is there who could answer. False too where the scheduler does not say."""
        try:
            return bool(self.client.nthreads())
        except Exception:
            return False


@dataclass(slots=True)
class ClusterWorker:
    """What a lane gives its batches to. ``sent`` holds the row numbers of each that waits, the oldest first."""

    cluster: Cluster
    sent: deque[list[int]] = field(default_factory=deque)
    _asked: deque[tuple[list[Wanted], Any]] = field(default_factory=deque)

    def give(self, rows: list[int], files: list[Wanted]) -> None:
        """Hand over a batch. What stands in the way shows when its answer is taken."""
        self.sent.append(rows)
        future = None
        if not self.cluster.problem:
            with suppress(Exception):
                future = self.cluster.client.submit(hash_batch, files, source_mark(), pure=False, retries=1)
        self._asked.append((files, future))

    def take(self) -> list[Outcome]:
        """The answer to the oldest batch, looked at: what is no checksum of the listed file is none."""
        files, future = self._asked.popleft()
        self.sent.popleft()
        try:
            answer = None if future is None else self._awaited(future)
        except (Exception, asyncio.CancelledError) as error:
            return [_not_read(f"no Dask worker read it ({type(error).__name__})")] * len(files)
        if answer is None:
            return [_not_read(self.cluster.problem or "the Dask cluster took no work")] * len(files)
        if isinstance(answer, str):
            return [_not_read(answer)] * len(files)
        if not isinstance(answer, list) or len(answer) != len(files):
            return [_not_read("a Dask worker gave an answer that is none")] * len(files)
        return [_looked_at(file, outcome) for file, outcome in zip(files, answer, strict=True)]

    def kill(self) -> None:
        """Wake whoever waits for an answer. A worker in the middle of a batch goes on to its end, for nobody."""
        for _, future in list(self._asked):
            if future is not None:
                with suppress(Exception):
                    future.cancel()

    def end(self) -> None:
        """Nothing more will be asked."""
        self.kill()

    def _awaited(self, future: Any) -> Any:
        """The result; None where there is no worker left that could have one."""
        while True:
            try:
                return future.result(timeout=_GLANCE_SECONDS)
            except TimeoutError:
                if future.done():
                    raise
                if not self.cluster.has_worker():
                    self.cluster.problem = "the Dask cluster has no worker left"
                    return None


def cluster_address(environ: Mapping[str, str]) -> str | None:
    """The scheduler's address in DELETION_SYNC_DASK, or None. Raises UsageError for what is no such address."""
    address = environ.get(VARIABLE, "").strip()
    if not address:
        return None
    if not _ADDRESS.fullmatch(address):
        raise UsageError(f"{VARIABLE} is not the address of a Dask scheduler.", "Write it like tcp://scheduler:8786.")
    return address


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster at that address. One that does not answer, or has no worker, is a Cluster with a problem.

    Raises UsageError where Dask is not installed.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            f"{VARIABLE} is set, and Dask is not installed.",
            "Install it with `pip install 'deletion-sync[scale]'`, or unset the variable.",
        ) from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, name="deletion-sync")
    except (Exception, asyncio.CancelledError) as error:
        yield Cluster(1, problem=f"the Dask cluster could not be reached ({type(error).__name__})")
        return
    try:
        threads = sum(client.nthreads().values())
        yield Cluster(max(1, threads), client, "" if threads else "the Dask cluster has no worker")
    finally:
        with suppress(Exception):
            client.close(timeout=_GLANCE_SECONDS)


def hash_batch(files: list[Wanted], mark: str) -> list[Outcome] | str:
    """On a worker: the outcome of each file, or in words why this worker must not read them.

    The device number is each computer's own, so of ``device:inode`` the inode counts here.
    """
    if mark != source_mark():
        return "a Dask worker has another version of deletion-sync"
    chunk = memoryview(bytearray(CHUNK))
    return [_hash_here(wanted, chunk) for wanted in files]


@cache
def source_mark() -> str:
    """Stands for the code that decides what a checksum is: equal exactly where every module of this package is."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _hash_here(wanted: Wanted, chunk: memoryview) -> Outcome:
    path, name, size, modified_ns, identity = wanted
    try:
        status = os.lstat(path)
    except OSError as error:
        return unreadable(error)
    if identity is None or identity.rpartition(":")[2] != str(status.st_ino):
        return failed(CHANGED_BEFORE)
    return hash_file((path, name, size, modified_ns, f"{status.st_dev}:{status.st_ino}"), chunk, lambda: False)


def _looked_at(wanted: Wanted, outcome: Any) -> Outcome:
    """The outcome as it may be believed: the file is the listed one here, too, and the answer has the form of one.

    Of a file that is well here, a worker's trouble is the worker's: it says nothing about the file.
    """
    path, _, *listed = wanted
    try:
        status = os.lstat(path)
    except OSError as error:
        return unreadable(error)
    if [status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}"] != listed:
        return failed(CHANGED_DURING)
    match outcome:
        case (str() as checksum, int() as captured_at, str() | None as content_id, None) if _CHECKSUM.fullmatch(
            checksum
        ):
            return checksum, captured_at, content_id, None
        case (None, None, None, (str(), str() as words)):
            return _not_read(f"a Dask worker says: {words}")
    return _not_read("a Dask worker gave an answer that is none")


def _not_read(words: str) -> Outcome:
    return failed((_CODE, words))
