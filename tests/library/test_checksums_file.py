"""Reading a file of checksums."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from library.checksums_file import ChecksumsFile, parse_checksums, register_checksums_file
from library.errors import ChecksumsFileError
from tests.deployments.upping import until

A, B = (base64.b64encode(hashlib.sha1(word).digest()).decode() for word in (b"a", b"b"))


def read(data: bytes) -> list[str]:
    return [str(value) for value in parse_checksums(data, "sums.txt").to_pylist()]


@pytest.mark.parametrize(
    "data",
    [
        f"{A}\n{B}\n",
        f"{B}\n{A}",
        f"{A}\r\n{B}\r\n",
        f"\n\n{A}\n  \n{B}\n\n",
        f"# from the server\n{A}\n#{B}\n{B}\n",
        f"\ufeff{A}\n{B}\n",
        f"{A}\n{B}\n{A}\n{A}\n",
        f" {A}\t\n{B}\n",
    ],
)
def test_what_editors_add_is_passed_over_and_duplicates_collapse(data: str) -> None:
    assert read(data.encode()) == sorted([A, B])


@pytest.mark.parametrize(
    "line",
    [
        A[:-1],
        A + "=",
        A[:-2] + "==",
        A[:26] + "B=",  # its last two bits are not zero: not the text of any 20 bytes
        A.replace(A[3], "-"),
        hashlib.sha1(b"a").hexdigest(),
        f"{A},{B}",
        f"{A} IMG_1.jpg",
        '{"checksums": []}',
    ],
)
def test_a_bad_line_is_refused_by_its_number(line: str) -> None:
    with pytest.raises(ChecksumsFileError, match=r"Line 3 of sums\.txt is no base64 SHA-1") as caught:
        read(f"{B}\n\n{line}\n{A}\n".encode())
    assert caught.value.exit_code == 2


def test_an_error_quotes_too_little_to_give_a_secret_away() -> None:
    with pytest.raises(ChecksumsFileError) as caught:
        read(b"sk-abcdefghijklmnopqrstuvwxyz0123456789")
    assert "sk-a" in str(caught.value)
    assert "bcdef" not in str(caught.value)


def test_a_line_that_is_not_utf8_is_refused_by_its_number() -> None:
    with pytest.raises(ChecksumsFileError, match="Line 2"):
        read(f"{A}\n".encode() + b"\xff\xfe\n")


def test_a_file_in_utf16_is_refused() -> None:
    with pytest.raises(ChecksumsFileError, match="Line 1"):
        read(f"{A}\n".encode("utf-16"))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing\n", b"\xef\xbb\xbf"])
def test_lesson_85_an_empty_file_is_an_empty_table_for_the_rail_to_find(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "sums").write_bytes(data)
    listing = ChecksumsFile("L", "sums", tmp_path / "sums").enumerate()
    assert listing.complete
    assert listing.table.num_rows == 0


def test_a_row_has_no_name_size_or_album(tmp_path: Path) -> None:
    (tmp_path / "sums").write_text(A)
    row = ChecksumsFile("L", "sums", tmp_path / "sums").enumerate().table.to_pylist()[0]
    assert row == {
        "library_id": "L",
        "local_id": A,
        "part": "primary",
        "file_name": "",
        "size": None,
        "modified_ns": None,
        "file_identity": None,
        "albums": [],
        "checksum": A,
        "in_trash": False,
    }


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sums")
    with pytest.raises(ChecksumsFileError, match="not a regular file"):
        ChecksumsFile("L", "sums", tmp_path / "sums").enumerate()


def test_registering_a_bad_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sums").write_text("nonsense")
    with pytest.raises(ChecksumsFileError):
        register_checksums_file(tmp_path / "sums")


def test_lesson_86_a_file_that_grows_while_it_is_read_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "sums"
    line = f"{A}\n".encode()
    path.write_bytes(line * 300_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(line)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        library = ChecksumsFile("L", "sums", path)
        # On a busy machine the writer's turn comes late.
        until(lambda: not library.enumerate().complete, "the growth")
    finally:
        stop.set()
        writer.join()


def test_a_million_lines_take_seconds() -> None:
    data = b"".join(base64.b64encode(number.to_bytes(20, "big")) + b"\n" for number in range(1_000_000))
    start = time.process_time()
    assert len(parse_checksums(data, "sums")) == 1_000_000
    assert time.process_time() - start < 20
