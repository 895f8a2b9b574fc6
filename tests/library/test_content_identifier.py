"""What makes a still and a video one Live Photo, read from their bytes; and that damaged bytes never stop a hash."""

from __future__ import annotations

import io
import struct
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from library.content_identifier import content_identifier
from tests.library.live_photo_files import CHUNK, KEY, apple_film, apple_note, box, exif_of, film, heic, picture

UUID = "4A1B2C3D-0000-4E5F-8899-AABBCCDDEEFF"
OTHER = "99999999-0000-4E5F-8899-AABBCCDDEEFF"


def identifier(name: str, content: bytes, stream: BinaryIO | None = None) -> str | None:
    return content_identifier(name, memoryview(content)[:CHUNK], io.BytesIO(content) if stream is None else stream)


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize(("kind", "name"), [("JPEG", "1.JPG"), ("AVIF", "1.avif"), ("JPEG", "jpeg-named.HEIC")])
def test_a_still_of_a_live_photo_tells_its_identifier(kind: str, name: str, order: str) -> None:
    assert identifier(name, picture(apple_note(UUID, order=order), kind)) == UUID


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("name", ["1.HEIC", "1.heif", "heic-named.jpg"])
def test_a_heic_still_tells_its_identifier(name: str, version: int) -> None:
    assert identifier(name, heic(apple_note(UUID), version=version)) == UUID


@pytest.mark.parametrize("extents", [1, 3])
@pytest.mark.parametrize(("far", "in_idat"), [(2 * CHUNK, False), (CHUNK - 1500, False), (0, True)])
def test_the_exif_item_of_a_heic_is_found_wherever_it_lies(far: int, in_idat: bool, extents: int) -> None:
    assert identifier("1.heic", heic(apple_note(UUID), far=far, in_idat=in_idat, extents=extents)) == UUID


@pytest.mark.parametrize("padding", [0, 2 * CHUNK])
@pytest.mark.parametrize("faststart", [False, True])
@pytest.mark.parametrize("name", ["1.MOV", "1.mp4"])
def test_a_video_of_a_live_photo_tells_its_identifier(tmp_path: Path, name: str, faststart: bool, padding: int) -> None:
    content = film(tmp_path / name, UUID, faststart=faststart, padding=padding)
    assert identifier(name, content) == UUID
    with (tmp_path / name).open("rb", buffering=0) as stream:
        assert identifier(name, content, stream) == UUID


@pytest.mark.parametrize("mdat", [99, 3 * CHUNK])
def test_a_video_as_a_phone_writes_it_tells_its_identifier(mdat: int) -> None:
    assert identifier("IMG_1.MOV", apple_film(UUID, mdat=mdat)) == UUID


def test_the_last_box_of_a_file_may_leave_its_length_open() -> None:
    content = apple_film(UUID)
    at = content.index(b"moov") - 4
    assert identifier("1.mov", content[:at] + bytes(4) + content[at + 4 :]) == UUID


def test_files_of_other_cameras_have_none(tmp_path: Path) -> None:
    assert identifier("1.jpg", picture(None)) is None
    assert identifier("1.jpg", picture(b"Nikon\0\2\x10\0\0MM\0*")) is None
    assert identifier("1.avif", picture(None, "AVIF")) is None
    assert identifier("1.heic", heic(None)) is None
    assert identifier("1.mov", film(tmp_path / "1.mov", None)) is None
    assert identifier("1.png", picture(None, "PNG")) is None
    for name in ("1.jpg", "1.heic", "1.mov", "1.mkv", "1.txt", ""):
        for content in (b"", b"\xff", b"\xff\xd8", b"no metadata here", box(b"ftyp", b"heic"), b"\xff\xd8\xff\xe1"):
            assert identifier(name, content) is None


def test_the_text_in_a_picture_is_not_taken_for_a_maker_note() -> None:
    content = picture(None)
    comment = apple_note(UUID)
    marked = content[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + content[2:]
    assert identifier("1.jpg", marked) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (UUID.lower(), UUID),
        (f" {UUID}\0\0\n", UUID),
        ("ab1", "AB1"),
        ("", None),
        (" \0", None),
        ("x" * 201, None),
        ("\x01\x02", None),
        ("ünï", None),
    ],
)
def test_an_identifier_reads_the_same_from_both_halves(written: str, read: str | None) -> None:
    assert identifier("1.jpg", picture(apple_note(written))) == read
    assert identifier("1.mov", apple_film(written)) == read


@pytest.mark.parametrize("at", [0, 7, CHUNK, 3 * CHUNK])
@pytest.mark.parametrize("name", ["1.mov", "1.heic"])
def test_the_stream_is_left_where_it_was(name: str, at: int) -> None:
    content = apple_film(UUID, mdat=3 * CHUNK) if name == "1.mov" else heic(apple_note(UUID), far=3 * CHUNK)
    stream = io.BytesIO(content)
    stream.seek(at)
    assert identifier(name, content, stream) == UUID
    assert stream.tell() == at


class OneWay(io.RawIOBase):
    """Bytes that come once, from a phone."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise AssertionError("bytes that the hash needs were taken")


def test_of_a_stream_that_cannot_seek_only_the_head_is_read() -> None:
    with OneWay() as raw:
        stream: BinaryIO = raw  # type: ignore[assignment]
        assert identifier("1.mov", apple_film(UUID), stream) == UUID
        assert identifier("1.heic", heic(apple_note(UUID)), stream) == UUID
        assert identifier("1.mov", apple_film(UUID, mdat=2 * CHUNK), stream) is None
        assert identifier("1.heic", heic(apple_note(UUID), far=2 * CHUNK), stream) is None


WHOLE = [
    ("1.jpg", picture(apple_note(UUID))),
    ("1.heic", heic(apple_note(UUID), version=2, in_idat=True, extents=3)),
    ("1.heic", heic(apple_note(UUID), far=50)),
    ("1.avif", picture(apple_note(UUID), "AVIF")),
    ("1.mov", apple_film(UUID)),
]
BYTE = st.one_of(st.sampled_from([0, 1, 2, 4, 8, 127, 128, 255]), st.integers(0, 255))


@settings(max_examples=200)
@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 3000), BYTE), max_size=12),
    st.none() | st.integers(0, 3000),
    st.integers(16, 4000),
)
def test_damaged_bytes_are_no_error_and_leave_the_stream_alone(
    whole: tuple[str, bytes], damage: list[tuple[int, int]], cut: int | None, head: int
) -> None:
    name, content = whole
    damaged = bytearray(content[:cut])
    for at, value in damage:
        if damaged:
            damaged[at % len(damaged)] = value
    stream = io.BytesIO(damaged)
    stream.seek(head)
    start = time.process_time()
    found = content_identifier(name, memoryview(damaged)[:head], stream)
    assert time.process_time() - start < 2
    assert found is None or found == found.strip().upper()
    assert stream.tell() == head
    if not damage and cut is None:
        assert found == UUID or (name == "1.jpg" and head < len(content))


@settings(max_examples=200)
@given(st.sampled_from(["1.jpg", "1.heic", "1.mov"]), st.binary(max_size=400))
def test_any_bytes_are_no_error(name: str, content: bytes) -> None:
    starts = {"1.jpg": b"\xff\xd8\xff\xe1\1\0Exif\0\0MM\0*", "1.heic": b"\0\0\0\x08ftyp", "1.mov": b"\0\0\0\x08ftyp"}
    start = time.process_time()
    identifier(name, starts[name] + content)
    assert time.process_time() - start < 2


def test_a_file_that_is_made_to_take_long_ends() -> None:
    start = time.process_time()
    front = box(b"ftyp", b"heic" + bytes(4))
    infe = box(b"infe", bytes([2, 0, 0, 0]) + struct.pack(">HH", 9, 0) + b"Exif\0")
    iinf = box(b"iinf", bytes(4) + struct.pack(">H", 1) + infe)
    # 40,000 items that each claim 65,535 extents of no length, and one of as many long ones
    empty = box(b"iloc", bytes([1, 0, 0, 0]) + bytes(2) + b"\xff\xff" + struct.pack(">HHHH", 1, 0, 0, 65_535) * 30_000)
    assert identifier("1.heic", front + box(b"meta", bytes(4) + iinf + empty)) is None
    longest = struct.pack(">HHHIH", 9, 0, 0, 0, 65_535) + struct.pack(">II", 0, 0xFFFFFFFF) * 20_000
    greedy = box(b"iloc", bytes([1, 0, 0, 0]) + b"\x44\x40" + struct.pack(">H", 1) + longest)
    assert identifier("1.heic", front + box(b"meta", bytes(4) + iinf + greedy) + bytes(2 * CHUNK)) is None
    for endless in (
        b"\0\0\0\1junk" + bytes(8),
        b"\0\0\0\1junk" + b"\xff" * 8,
        b"\0\0\0\7junk",
        b"\0\0\0\x08junk" * 10**6,
    ):
        assert identifier("1.mov", box(b"ftyp", b"qt  ") + endless) is None
        assert identifier("1.heic", front + endless) is None
        assert identifier("1.mov", box(b"ftyp", b"qt  ") + box(b"moov", box(b"meta", endless + KEY.encode()))) is None
    crowded = b"MM\0*\0\0\0\x08" + b"\xff\xff" + struct.pack(">HHII", 0x8769, 4, 1, 8) * 5000 + apple_note(UUID)
    assert identifier("1.jpg", b"\xff\xd8\xff\xe1\xff\xffExif\0\0" + crowded) is None
    assert identifier("1.jpg", b"\xff\xd8" + b"\xff\xe1\0\0" * 10**6) is None
    assert time.process_time() - start < 10


def test_a_photo_without_an_identifier_costs_little() -> None:
    exif = exif_of(None)
    exif[0x010E] = "x" * 60_000
    file = io.BytesIO()
    Image.effect_noise((600, 600), 90).save(file, "JPEG", exif=exif, quality=90)
    content = file.getvalue()
    times = []
    for _ in range(50):
        start = time.process_time()
        assert identifier("1.jpg", content) is None
        times.append(time.process_time() - start)
    assert min(times) < 0.001
