"""Hashing on a real Dask cluster, a scheduler and workers in processes of their own, gives what hashing here gives;
whatever is wrong with the cluster leaves files without a checksum, and never one with a wrong one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from engine.errors import UsageError
from library import hash_cluster, hashing
from library.hash_cluster import cluster_address, connected, hash_batch, source_mark
from library.hash_file import Outcome
from library.hashing import hash_groups
from state import deferred
from state.home import Home
from tasks.hash import Limits, hash_listing, without_checksum
from tests.deployments.upping import until
from tests.free_ports import free_port
from tests.library.worlds import MODIFIED_NS, REPOSITORY, library_of, put
from tests.world import small_world

pytest.importorskip("distributed", reason="Dask is not installed: pip install .[scale]")

MANY = 1200  # enough for a cluster


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there may answer late on a busy machine; whether a worker is left is looked at often."""
    monkeypatch.setattr(hash_cluster, "_CONNECT_SECONDS", 60)
    monkeypatch.setattr(hash_cluster, "_GLANCE_SECONDS", 1.0)


@contextmanager
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address where nobody listens, and soon given up: what is not there answers no later either."""
    with socket.socket() as held, monkeypatch.context() as patched:
        held.bind(("127.0.0.1", 0))
        patched.setattr(hash_cluster, "_CONNECT_SECONDS", 2)
        yield f"tcp://127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def program(*arguments: str, code: Path = REPOSITORY) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Dask's that finds deletion-sync in ``code``, killed at the end of the block."""
    environment = {**os.environ, "PYTHONPATH": str(code), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        env=environment, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def scheduler() -> Iterator[str]:
    """The address of a scheduler without workers."""
    address = f"tcp://127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]
    with program("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"):
        yield address


@contextmanager
def worker(address: str, tmp: Path, code: Path = REPOSITORY) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process of one thread, once the scheduler knows it."""
    from distributed import Client

    listen = ["--host", "127.0.0.1", "--no-dashboard", "--no-nanny", "--nthreads", "1"]
    with Client(address, timeout=60, set_as_default=False) as client:
        before = len(client.nthreads())
        with program("dask_worker", address, *listen, "--local-directory", str(tmp / "dask"), code=code) as process:
            until(lambda: len(client.nthreads()) > before, "the worker")
            yield process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers."""
    tmp = tmp_path_factory.mktemp("cluster")
    with scheduler() as address, worker(address, tmp), worker(address, tmp):
        yield address


@pytest.fixture
def empty() -> Iterator[str]:
    """The address of a scheduler of this test's own."""
    with scheduler() as address:
        yield address


def photos(root: Path, count: int = MANY) -> Path:
    """Many small files, among them what no JPEG is."""
    for number in range(count):
        put(root, f"{number % 7}/{number}.jpg", content=os.urandom(number * 7919 % 20_000))
    return root


Listed = Callable[..., tuple[dict[str, str | None], list[str], dict[str, int]]]


@pytest.fixture
def hashed(tmp_path: Path) -> Iterator[Listed]:
    """Checksums by local id, problems and reasons of hashing a folder as the step does, each time anew."""
    number = iter(range(100))

    def run(root: Path, address: str | None, before: Callable[[], object] = bool) -> object:
        home = Home(tmp_path / f"home-{next(number)}")
        library = library_of(root)
        table = library.enumerate().table
        before()
        local, facts = hash_listing(home, {"L": library}, table, Limits(retries=3), address)
        assert local.num_rows == table.num_rows
        waiting = deferred.deferred(home, ["L"]).num_rows
        assert waiting == without_checksum(local).num_rows == sum(facts.deferred.values())
        rows = local.select(["local_id", "checksum"]).to_pylist()
        return {row["local_id"]: row["checksum"] for row in rows}, facts.problems, facts.deferred

    yield run  # type: ignore[misc]


def test_on_the_cluster_every_outcome_is_as_here(cluster: str, tmp_path: Path) -> None:
    library = library_of(photos(tmp_path / "photos"))
    table = library.enumerate().table

    def outcomes(address: str | None) -> dict[int, object]:
        with ExitStack() as stack:
            found = None if address is None else stack.enter_context(connected(address))
            assert found is None or found.lanes == 2
            groups = hash_groups({"L": library}, table, cluster=found)
            return {row: outcome for group in groups for row, outcome in group}

    there = outcomes(cluster)
    assert len(there) == MANY and there == outcomes(None)


def test_the_step_hashes_there_and_remembers_the_same(cluster: str, tmp_path: Path, hashed: Listed) -> None:
    root = photos(tmp_path / "photos")
    there, problems, _ = hashed(root, cluster)
    assert problems == [] and None not in there.values()
    assert there == hashed(root, None)[0]


def test_what_changed_or_vanished_after_the_listing_gets_no_checksum(
    cluster: str, tmp_path: Path, hashed: Listed
) -> None:
    root = photos(tmp_path / "photos")

    def change() -> None:
        (root / "0/0.jpg").unlink()
        put(root, "1/1.jpg", content=b"x" * (root / "1/1.jpg").stat().st_size)  # same size and time, written in place
        (root / "2/2.jpg").write_bytes(b"other")
        shutil.copy2(root / "3/3.jpg", root / "copy")
        (root / "copy").replace(root / "3/3.jpg")  # same size and time, another file

    there, problems, reasons = hashed(root, cluster, change)
    missing = {name for name, checksum in there.items() if checksum is None}
    assert missing == {"0/0.jpg", "2/2.jpg", "3/3.jpg"} and len(problems) == 3
    assert reasons == {"changed": 3}


def test_a_worker_that_sees_another_folder_under_the_path_gives_nothing(
    empty: str, tmp_path: Path, hashed: Listed
) -> None:
    """As a host where the share is not mounted: its trouble says nothing about the files."""
    from distributed import Client

    root = photos(tmp_path / "photos")
    elsewhere = tmp_path / "elsewhere"
    with worker(empty, tmp_path), Client(empty, set_as_default=False) as client:
        client.run(_read_from, str(root), str(elsewhere))
        there, problems, reasons = hashed(root, empty)
        assert set(there.values()) == {None} and reasons == {"no_worker": MANY}
        assert "it is gone" in problems[0]
        shutil.copytree(root, elsewhere)  # sizes and times are the same, the files are others
        there, problems, reasons = hashed(root, empty)
        assert set(there.values()) == {None} and reasons == {"no_worker": MANY}
        assert "it changed after it was listed" in problems[0]


def _read_from(root: str, elsewhere: str) -> None:
    """On a worker: paths below ``root`` lead to ``elsewhere``."""
    import os

    for name in ("lstat", "open"):
        former = getattr(os, name)

        def led(path: bytes, *rest: int, former: Callable[..., object] = former) -> object:
            if isinstance(path, bytes):
                path = path.replace(root.encode(), elsewhere.encode(), 1)
            return former(path, *rest)

        setattr(os, name, led)


def test_a_worker_with_another_version_gives_nothing(empty: str, tmp_path: Path, hashed: Listed) -> None:
    other = tmp_path / "code"
    for package in ("library", "engine"):
        shutil.copytree(REPOSITORY / package, other / package)
    with (other / "library/capture_time.py").open("a") as module:
        module.write("# another version\n")
    root = photos(tmp_path / "photos")
    with worker(empty, tmp_path, other):
        there, problems, reasons = hashed(root, empty)
    assert set(there.values()) == {None} and reasons == {"no_worker": MANY}
    assert "another version" in problems[0]


def test_a_worker_without_deletion_sync_gives_nothing(empty: str, tmp_path: Path, hashed: Listed) -> None:
    (tmp_path / "code/library").mkdir(parents=True)
    (tmp_path / "code/library/__init__.py").touch()
    root = photos(tmp_path / "photos")
    with worker(empty, tmp_path, tmp_path / "code"):
        there, _, reasons = hashed(root, empty)
    assert set(there.values()) == {None} and reasons == {"no_worker": MANY}


def test_no_cluster_and_no_worker_read_nothing_and_blame_no_file(
    empty: str, tmp_path: Path, hashed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = photos(tmp_path / "photos")

    def left_unread(address: str, words: str) -> None:
        there, problems, reasons = hashed(root, address)
        assert set(there.values()) == {None} and reasons == {"no_worker": MANY}
        assert words in problems[0]

    left_unread(empty, "no worker")
    with nobody(monkeypatch) as address:
        left_unread(address, "could not be reached")


@pytest.mark.parametrize("which", ["worker", "scheduler"])
def test_killed_in_the_middle_it_leaves_files_without_a_checksum_and_the_rest_right(
    which: str, tmp_path: Path, hashed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_cluster, "_CONNECT_SECONDS", 20)  # so long it looks for a scheduler that is gone
    root = photos(tmp_path / "photos")
    right = hashed(root, None)[0]
    (root / "z.mov").touch()
    os.truncate(root / "z.mov", 1 << 40)  # it keeps the worker busy until it is killed
    os.utime(root / "z.mov", ns=(MODIFIED_NS, MODIFIED_NS))
    address = f"tcp://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        listen = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
        processes = {"scheduler": stack.enter_context(program("dask_scheduler", *listen))}
        processes["worker"] = stack.enter_context(worker(address, tmp_path))
        library = library_of(root)
        done: dict[str, Outcome] = {}
        found = stack.enter_context(connected(address))
        names = library.enumerate().table["local_id"].to_pylist()
        for group in hash_groups({"L": library}, library.enumerate().table, cluster=found):
            if not done:
                os.killpg(processes[which].pid, signal.SIGKILL)
            done |= {names[row]: outcome for row, outcome in group}
    assert len(done) == MANY + 1
    left = {name for name, (checksum, *_, problem) in done.items() if checksum is None and problem is not None}
    assert "z.mov" in left
    assert {n: o[0] for n, o in done.items() if n not in left} == {n: c for n, c in right.items() if n not in left}


def test_whoever_has_enough_waits_for_no_worker(cluster: str, tmp_path: Path) -> None:
    library = library_of(photos(tmp_path / "photos", 1000))
    (tmp_path / "photos/a.mov").touch()
    os.truncate(tmp_path / "photos/a.mov", 1 << 30)
    asked: list[int] = []

    def enough() -> bool:
        asked.append(1)
        return len(asked) > 10

    with connected(cluster) as found:
        groups = hash_groups({"L": library}, library.enumerate().table, enough=enough, cluster=found)
        done = [row for group in groups for row in group]
    assert len(done) <= 1000


def test_few_files_are_read_here(tmp_path: Path, hashed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    root = photos(tmp_path / "photos", 20)
    with nobody(monkeypatch) as address:
        there, problems, _ = hashed(root, address)
    assert problems == [] and None not in there.values()
    assert hashing.worth_a_cluster(library_of(root).enumerate().table) is False


def test_an_answer_that_is_none_is_not_believed(tmp_path: Path) -> None:
    from library.hash_cluster import _looked_at

    put(tmp_path, "a.jpg")
    status = (tmp_path / "a.jpg").stat()
    identity = f"{status.st_dev}:{status.st_ino}"
    wanted = (os.fsencode(tmp_path / "a.jpg"), "a.jpg", status.st_size, status.st_mtime_ns, identity)
    right = hash_batch([wanted], source_mark())[0]
    assert _looked_at(wanted, right) == right
    assert not isinstance(right, str)
    checksum, captured_at, content_id, _ = right
    for wrong in (
        None,
        "x",
        (checksum,),
        ("x" * 28, captured_at, content_id, None),
        (checksum, None, content_id, None),
    ):
        got = _looked_at(wanted, wrong)
        assert got[0] is None and got[3] is not None and got[3][0] == "no_worker"


def test_a_run_whose_cluster_fails_deletes_nothing_and_the_next_one_is_right(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.all_backed_up("{}.jpg", 1005)
        world.reconcile()
        world.change_settings(quarantineDays=0, thresholdFloor=100)
        world.remove("7.jpg")
        for number in range(5, 1005):  # every file that stays is to be read again
            if number != 7:
                os.utime(world.folder / f"{number}.jpg", (1_700_000_000, 1_700_000_000))
        world.write("new.jpg")
        world.write("newer.jpg")
        with nobody(monkeypatch) as address:
            monkeypatch.setenv("DELETION_SYNC_DASK", address)
            failed = world.reconcile(dry_run=False)
        assert failed.digest is None and failed.outcome == "aborted" and world.trashed() == set()
        monkeypatch.setenv("DELETION_SYNC_DASK", cluster)
        planned = world.reconcile(dry_run=False)
        assert planned.digest is not None
        world.apply(planned)
        assert world.trashed() == {"7.jpg"}


def test_the_address_is_checked_and_never_repeated() -> None:
    assert cluster_address({}) is None
    assert cluster_address({"DELETION_SYNC_DASK": " tls://scheduler:8786 "}) == "tls://scheduler:8786"
    for wrong in ("scheduler:8786", "http://scheduler:8786", "tcp://me:secret@scheduler:8786", "tcp://scheduler"):
        with pytest.raises(UsageError) as raised:
            cluster_address({"DELETION_SYNC_DASK": wrong})
        assert "secret" not in str(raised.value)
