"""Worker processes of hashing: as right as one thread, gone when nobody wants them, and harmless when killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from library.hash_file import CHUNK
from library.hashing import hash_groups, hash_parts
from library.protocol import Hashed
from tests.library.test_hashing import sha1
from tests.library.worlds import MODIFIED_NS, REPOSITORY, library_of, put

MANY = 300  # enough for processes

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see the children")


def all_children() -> set[int]:
    """Of this process, those that were not waited for yet included."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found |= {int(pid) for pid in path.read_text().split()}
    return found


@pytest.fixture
def children() -> Callable[[], set[int]]:
    """The children that this process has now and had not when the test began."""
    before = all_children()
    return lambda: all_children() - before


def many(root: Path, count: int = MANY) -> pa.Table:
    put(root, *(f"{number % 7}/{number}.jpg" for number in range(count)))
    return library_of(root).enumerate().table


@needs_proc
def test_many_files_are_read_by_processes_and_are_as_few_read_by_threads(
    tmp_path: Path, children: Callable[[], set[int]]
) -> None:
    for number in range(MANY):
        put(tmp_path, f"{number % 7}/{number}.jpg", content=os.urandom(number * 7919 % (3 * CHUNK)))
    library = library_of(tmp_path)
    table = library.enumerate().table
    seen: set[int] = set()
    by_processes = []
    for hashed in hash_parts({"L": library}, table, workers=3):
        by_processes.append(hashed)
        seen |= children()
    by_threads = [
        hashed for start in range(0, MANY, 50) for hashed in hash_parts({"L": library}, table.slice(start, 50))
    ]
    assert seen
    assert not children()

    def key(hashed: Hashed) -> str:
        return hashed.local_id

    assert sorted(by_processes, key=key) == sorted(by_threads, key=key)
    assert {h.local_id: h.checksum for h in by_processes} == {
        str(path.relative_to(tmp_path)): sha1(path.read_bytes()) for path in tmp_path.rglob("*.jpg")
    }


def test_processes_notice_what_changed_vanished_or_became_something_else(tmp_path: Path) -> None:
    table = many(tmp_path)
    (tmp_path / "0/0.jpg").unlink()
    (tmp_path / "1/1.jpg").write_bytes(b"other")
    os.utime(tmp_path / "1/1.jpg", ns=(MODIFIED_NS, MODIFIED_NS))
    (tmp_path / "2/2.jpg").unlink()
    (tmp_path / "2/2.jpg").symlink_to(tmp_path / "3/3.jpg")
    (tmp_path / "4/4.jpg").unlink()
    os.mkfifo(tmp_path / "4/4.jpg")
    hashed = {h.local_id: h for h in hash_parts({"L": library_of(tmp_path)}, table)}
    bad = {name: h.problem for name, h in hashed.items() if h.problem is not None}
    assert all(hashed[name].checksum is None for name in bad)
    assert bad.keys() == {"0/0.jpg", "1/1.jpg", "2/2.jpg", "4/4.jpg"}
    assert bad["0/0.jpg"] == "it is gone"
    assert bad["1/1.jpg"] == "it changed after it was listed"
    assert str(bad["2/2.jpg"]).startswith("it cannot be read")
    assert bad["4/4.jpg"] == "it cannot be read: It is not a regular file"
    assert len(hashed) == MANY


@needs_proc
def test_a_worker_that_is_killed_leaves_problems_and_no_wrong_checksum(
    tmp_path: Path, children: Callable[[], set[int]]
) -> None:
    table = many(tmp_path)
    library = library_of(tmp_path)
    put(tmp_path, "a.mov", content=b"")
    os.truncate(tmp_path / "a.mov", 1 << 40)  # it keeps a worker busy until it is killed
    os.utime(tmp_path / "a.mov", ns=(MODIFIED_NS, MODIFIED_NS))
    table = library.enumerate().table
    outcomes: list[Hashed] = []
    for hashed in hash_parts({"L": library}, table, workers=2):
        outcomes.append(hashed)
        if len(outcomes) == MANY:  # all others are done, or wait behind it
            break
        if len(outcomes) >= 64:
            for pid in children():
                with contextlib.suppress(ProcessLookupError):  # one that was killed before
                    os.kill(pid, signal.SIGKILL)
    bad = [h for h in outcomes if h.problem is not None]
    assert bad
    assert {h.problem for h in bad} == {"the process that read it was killed"}
    assert not any(h.checksum for h in bad)
    for h in outcomes:
        assert h.problem is not None or h.checksum == sha1(h.local_id.encode())


@needs_proc
def test_closing_ends_the_processes_in_the_middle_of_a_file(tmp_path: Path, children: Callable[[], set[int]]) -> None:
    many(tmp_path)
    for number in range(4):
        put(tmp_path, f"{number}.mov", content=b"")
        os.truncate(tmp_path / f"{number}.mov", 1 << 40)
    library = library_of(tmp_path)
    groups = hash_groups({"L": library}, library.enumerate().table, workers=2)
    next(groups)
    groups.close()
    assert not children()


def test_hashing_ends_within_a_chunk_when_it_is_enough(tmp_path: Path) -> None:
    many(tmp_path)
    put(tmp_path, "a.mov", content=b"")
    os.truncate(tmp_path / "a.mov", 1 << 40)
    library = library_of(tmp_path)
    table = library.enumerate().table
    asked: list[int] = []

    def enough() -> bool:
        asked.append(1)
        return len(asked) > 20

    done = [row for group in hash_groups({"L": library}, table, enough=enough) for row, _ in group]
    assert 0 < len(done) <= MANY
    assert len(set(done)) == len(done)


@needs_proc
def test_workers_end_when_whoever_started_them_was_killed(tmp_path: Path) -> None:
    many(tmp_path)
    for number in range(2):
        put(tmp_path, f"{number}.mov", content=b"")
        os.truncate(tmp_path / f"{number}.mov", 1 << 40)
    code = """
import pathlib, sys
from library.hashing import hash_groups
from tests.library.worlds import library_of
library = library_of(pathlib.Path(sys.argv[1]))
for group in hash_groups({"L": library}, library.enumerate().table, workers=2):
    pids = " ".join(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children"))
    if len(pids.split()) == 2:
        print(pids, flush=True)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    try:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
    finally:
        parent.kill()
        parent.communicate()
    assert len(workers) == 2
    until = time.monotonic() + 60
    while any(_runs(pid) for pid in workers):
        assert time.monotonic() < until


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@needs_proc
def test_ctrl_c_ends_hashing_and_its_processes(tmp_path: Path) -> None:
    many(tmp_path)
    put(tmp_path, "a.mov", content=b"")
    os.truncate(tmp_path / "a.mov", 1 << 40)
    code = """
import pathlib, signal, sys
from library.hashing import hash_groups
from tests.library.worlds import library_of
signal.signal(signal.SIGINT, signal.default_int_handler)
library = library_of(pathlib.Path(sys.argv[1]))
try:
    for group in hash_groups({"L": library}, library.enumerate().table, workers=2):
        print("reading", flush=True)
except KeyboardInterrupt:
    left = "".join(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children"))
    print("interrupted", left or "none left", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "reading\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert out.splitlines()[-1] == "interrupted none left"
    assert err == ""
