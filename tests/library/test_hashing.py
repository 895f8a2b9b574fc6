"""Hashing parts: right, in parallel, in flat memory, and never for bytes other than those that were listed."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from library import hash_file
from library.folder import FolderLibrary
from library.hash_file import CHUNK
from library.hashing import hash_parts
from library.protocol import Hashed
from tests.library.worlds import MODIFIED_NS, library_of, put, run_python


def sha1(content: bytes) -> str:
    return base64.b64encode(hashlib.sha1(content).digest()).decode()


def hash_all(library: FolderLibrary, table: pa.Table, **options: Any) -> dict[tuple[str, str], Hashed]:
    return {(h.local_id, h.part): h for h in hash_parts({library.library_id: library}, table, **options)}


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5_000_000, 5 * CHUNK])
def test_a_file_of_any_length_has_the_checksum_of_its_bytes(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    put(tmp_path, "1.jpg", content=content)
    library = library_of(tmp_path)
    hashed = hash_all(library, library.enumerate().table)[("1.jpg", "primary")]
    assert (hashed.checksum, hashed.size, hashed.modified_ns) == (sha1(content), size, MODIFIED_NS)
    assert hashed.problem is None


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_checksum_is_what_openssl_says(tmp_path: Path) -> None:
    put(tmp_path, "1.mov", content=os.urandom(5_000_000))
    library = library_of(tmp_path)
    told = subprocess.run(
        ["openssl", "dgst", "-sha1", "-binary", str(tmp_path / "1.mov")], capture_output=True, check=True
    ).stdout
    assert (
        hash_all(library, library.enumerate().table)[("1.mov", "primary")].checksum == base64.b64encode(told).decode()
    )


def test_a_read_is_of_one_megabyte() -> None:
    assert CHUNK == 1_048_576


def test_both_halves_of_a_live_photo_have_their_own_checksum(tmp_path: Path) -> None:
    put(tmp_path, "IMG_1.HEIC", "IMG_1.MOV")
    library = library_of(tmp_path)
    hashed = hash_all(library, library.enumerate().table)
    assert {key: h.checksum for key, h in hashed.items()} == {
        ("IMG_1.HEIC", "primary"): sha1(b"IMG_1.HEIC"),
        ("IMG_1.HEIC", "motion"): sha1(b"IMG_1.MOV"),
    }


def test_many_files_in_parallel_are_as_one_after_the_other(tmp_path: Path) -> None:
    for number in range(300):
        put(tmp_path, f"{number % 7}/{number}.jpg", content=os.urandom(number * 997))
    library = library_of(tmp_path)
    table = library.enumerate().table
    serial, parallel = hash_all(library, table, workers=1), hash_all(library, table, workers=8)
    assert serial == parallel
    assert {key[0]: h.checksum for key, h in parallel.items()} == {
        str(path.relative_to(tmp_path)): sha1(path.read_bytes()) for path in tmp_path.rglob("*.jpg")
    }


def test_rows_of_several_libraries_come_back_under_their_own(tmp_path: Path) -> None:
    put(tmp_path / "a", "1.jpg", content=b"a")
    put(tmp_path / "b", "1.jpg", content=b"b")
    libraries = {name: library_of(tmp_path / name, name) for name in ("a", "b")}
    wanted = pa.concat_tables(library.enumerate().table for library in libraries.values())
    hashed = list(hash_parts(libraries, wanted))
    assert {h.library_id: h.checksum for h in hashed} == {"a": sha1(b"a"), "b": sha1(b"b")}


def test_progress_counts_every_part_once(tmp_path: Path) -> None:
    put(tmp_path, *(f"{number}.jpg" for number in range(50)))
    library = library_of(tmp_path)
    told: list[tuple[str, int, int | None]] = []
    hash_all(library, library.enumerate().table, progress=lambda *words: told.append(words))
    assert told == [("hash", done, 50) for done in range(1, 51)]


# Files that others touch


def only_problem(library: FolderLibrary, table: pa.Table) -> str:
    hashed = hash_all(library, table)
    bad = [h for h in hashed.values() if h.problem is not None]
    assert len(bad) == 1
    assert bad[0].checksum is None
    assert bad[0].captured_at is None
    return str(bad[0].problem)


def test_lesson_86_a_file_that_vanished_has_a_problem_and_the_others_their_checksum(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg", "2.jpg")
    library = library_of(tmp_path)
    table = library.enumerate().table
    (tmp_path / "1.jpg").unlink()
    assert only_problem(library, table) == "it is gone"
    assert hash_all(library, table)[("2.jpg", "primary")].checksum == sha1(b"2.jpg")


def test_lesson_86_a_folder_that_vanished_is_no_error_of_the_run(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    library = library_of(tmp_path)
    table = library.enumerate().table
    shutil.rmtree(tmp_path / "a")
    assert only_problem(library, table) == "it is gone"


@pytest.mark.parametrize("how", ["longer", "same size", "older", "replaced", "replaced with the same time"])
def test_lesson_77_a_file_that_changed_after_it_was_listed_has_no_checksum(tmp_path: Path, how: str) -> None:
    put(tmp_path, "1.jpg", content=b"12345")
    library = library_of(tmp_path)
    table = library.enumerate().table
    path = tmp_path / "1.jpg"
    if how.startswith("replaced"):
        (tmp_path / "new").write_bytes(b"54321")
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(b"123456" if how == "longer" else b"54321")
    shift = {"longer": 0, "same size": 1, "older": -1, "replaced": 1, "replaced with the same time": 0}[how]
    os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS + shift))
    assert only_problem(library, table) == "it changed after it was listed"


@pytest.mark.parametrize("how", ["grows", "shrinks", "rewritten", "rewritten, time put back", "replaced", "deleted"])
def test_a_file_that_changes_while_it_is_read_has_no_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The file is a real one; its reader waits after the first megabytes until it was changed."""
    begun, changed = held_at(3, monkeypatch)
    path = tmp_path / "1.mov"
    path.touch()
    os.truncate(path, 16 << 20)
    os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))
    library = library_of(tmp_path)
    table = library.enumerate().table
    outcome: list[Hashed] = []
    reader = threading.Thread(target=lambda: outcome.extend(hash_parts({"L": library}, table, workers=1)))
    reader.start()
    assert begun.wait(60)
    if how == "grows":
        with path.open("ab") as file:
            file.write(b"more")
    elif how == "shrinks":
        os.truncate(path, 4 << 20)
    elif how.startswith("rewritten"):
        with path.open("r+b") as file:
            file.write(b"other")
        if how.endswith("put back"):
            os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))
    elif how == "replaced":
        (tmp_path / "new").touch()
        os.truncate(tmp_path / "new", 16 << 20)
        os.utime(tmp_path / "new", ns=(MODIFIED_NS, MODIFIED_NS))
        (tmp_path / "new").replace(path)
    else:
        path.unlink()
    assert reader.is_alive()
    changed.set()
    reader.join()
    assert [(h.checksum, h.problem) for h in outcome] == [
        (None, "it is gone" if how == "deleted" else "it changed while it was read")
    ]


def held_at(chunk: int, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Whoever hashes in this process waits with its n-th chunk: the events that it got there, and that it may go on."""
    begun, may_go_on = threading.Event(), threading.Event()

    class Held:
        def __init__(self, **options: Any) -> None:
            self.made, self.chunks = hashlib.sha1(**options), 0

        def update(self, data: memoryview) -> None:
            self.chunks += 1
            if self.chunks == chunk:
                begun.set()
                assert may_go_on.wait(60)
            self.made.update(data)

        def digest(self) -> bytes:
            return self.made.digest()

    monkeypatch.setattr(hash_file, "hashlib", SimpleNamespace(sha1=Held))
    return begun, may_go_on


def test_an_unreadable_file_has_a_problem(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    library = library_of(tmp_path)
    table = library.enumerate().table
    (tmp_path / "1.jpg").unlink()
    (tmp_path / "1.jpg").mkdir()
    assert only_problem(library, table).startswith("it cannot be read")


def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "root/1.jpg", "outside.jpg")
    library = library_of(tmp_path / "root")
    table = library.enumerate().table
    (tmp_path / "root/1.jpg").unlink()
    (tmp_path / "root/1.jpg").symlink_to(tmp_path / "outside.jpg")
    assert only_problem(library, table).startswith("it cannot be read")


# Resources


def test_closing_the_iterator_stops_the_workers_and_closes_the_files(tmp_path: Path) -> None:
    for number in range(8):
        put(tmp_path, f"{number}.mov", content=b"")
        os.truncate(tmp_path / f"{number}.mov", 1 << 40)
    put(tmp_path, "0.jpg")
    library = library_of(tmp_path)
    hashing = hash_parts({"L": library}, library.enumerate().table, workers=2)
    assert isinstance(hashing, Iterator)
    assert next(hashing).local_id == "0.jpg"
    hashing.close()  # type: ignore[attr-defined]  # terabytes are not read
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hash")]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see the memory of a process")
def test_memory_stays_flat_over_large_and_many_files(tmp_path: Path) -> None:
    for number in range(2):
        put(tmp_path, f"{number}.mov", content=b"")
        os.truncate(tmp_path / f"{number}.mov", 400 << 20)
    put(tmp_path, *(f"small/{number}.jpg" for number in range(3000)))
    grown = run_python(
        """
        import pathlib, sys
        from library.hashing import hash_parts
        from tests.library.worlds import library_of
        def peak():  # in KiB; what getrusage tells includes the parent's
            return int(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
        root = pathlib.Path(sys.argv[1])
        library = library_of(root)
        table = library.enumerate().table
        list(hash_parts({"L": library}, table.slice(10, 100), workers=1))
        before = peak()
        for hashed in hash_parts({"L": library}, table, workers=4):
            assert hashed.problem is None
        print(peak() - before)
        """,
        tmp_path,
    )
    assert int(grown) < 24 * 1024  # KiB
