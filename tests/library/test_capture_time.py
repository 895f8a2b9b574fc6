"""When a photo or video was taken, as its own metadata says; and that damaged metadata never stops a hash."""

from __future__ import annotations

import io
import logging
import random
import struct
import time
from datetime import UTC, datetime
from pathlib import Path

import av
import pytest
from PIL import Image

from library.capture_time import capture_time
from library.hash_file import CHUNK
from library.hashing import hash_parts
from tests.library.worlds import MODIFIED_NS, library_of, put

EXIF_IFD = 0x8769
ORIGINAL, DIGITIZED, OFFSET_ORIGINAL, OFFSET_DIGITIZED, MODIFIED = 0x9003, 0x9004, 0x9011, 0x9012, 0x0132


def photo(kind: str, **tags: str) -> bytes:
    """A small picture with the EXIF times given by tag name."""
    exif = Image.Exif()
    exif[0x010F] = "A camera"
    names = {
        "original": ORIGINAL,
        "digitized": DIGITIZED,
        "offset_original": OFFSET_ORIGINAL,
        "offset_digitized": OFFSET_DIGITIZED,
    }
    inner = exif.get_ifd(EXIF_IFD)
    for name, value in tags.items():
        if name == "modified":
            exif[MODIFIED] = value
        else:
            inner[names[name]] = value
    if kind == "TIFF":
        return exif.tobytes().removeprefix(b"Exif\0\0")
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind, exif=exif)
    return file.getvalue()


def micro(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def taken(name: str, content: bytes) -> int | None:
    return capture_time(name, memoryview(content)[:CHUNK], io.BytesIO(content))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "PNG", "WEBP", "AVIF"])
def test_a_photo_of_any_kind_tells_its_time(kind: str) -> None:
    name = {"JPEG": "1.jpg", "TIFF": "1.tif", "PNG": "1.png", "WEBP": "1.webp", "AVIF": "1.avif"}[kind]
    assert taken(name, photo(kind, original="2023:07:01 12:34:56")) == micro("2023-07-01 12:34:56")


@pytest.mark.parametrize("mark", [b"\0\0\0\6Exif\0\0", bytes(4)])
@pytest.mark.parametrize("brand", [b"heic", b"heix", b"mif1", b"avif"])
def test_a_heif_photo_tells_its_time(brand: bytes, mark: bytes) -> None:
    exif = photo("TIFF", original="2023:07:01 12:34:56", offset_original="+02:00")
    content = box(b"ftyp", brand + bytes(4)) + box(b"meta", bytes(40)) + box(b"mdat", b"x" * 99 + mark + exif)
    assert taken("1.heic", content) == micro("2023-07-01 10:34:56")


def test_a_raw_photo_in_boxes_tells_its_time() -> None:
    exif = photo("TIFF", original="2023:07:01 12:34:56")
    order = "<" if exif.startswith(b"II") else ">"
    tag = exif.index(struct.pack(f"{order}HHI", EXIF_IFD, 4, 1))
    inner = exif[:4] + exif[tag + 8 : tag + 12] + exif[8:]  # the Exif directory as the first one
    assert taken("1.cr3", box(b"ftyp", b"crx ") + box(b"CMT2", inner)) == micro("2023-07-01 12:34:56")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"original": "2023:07:01 12:34:56"}, "2023-07-01 12:34:56"),
        ({"original": "2023:07:01 12:34:56", "offset_original": "+02:00"}, "2023-07-01 10:34:56"),
        ({"original": "2023:07:01 12:34:56", "offset_original": "-09:30"}, "2023-07-01 22:04:56"),
        ({"original": "2023:07:01 12:34:56", "offset_original": "Z"}, "2023-07-01 12:34:56"),
        ({"original": "2023:07:01 12:34:56", "offset_original": "   :  "}, "2023-07-01 12:34:56"),
        ({"original": "2023:07:01 12:34:56", "offset_digitized": "+02:00"}, "2023-07-01 12:34:56"),
        ({"digitized": "2022:01:02 03:04:05", "offset_digitized": "+01:00"}, "2022-01-02 02:04:05"),
        ({"original": "0000:00:00 00:00:00", "digitized": "2022:01:02 03:04:05"}, "2022-01-02 03:04:05"),
        ({"original": "1969:12:31 23:59:59"}, "1969-12-31 23:59:59"),
        ({"original": "2023:13:01 12:00:00"}, None),
        ({"original": "    :  :     :  :  "}, None),
        ({"modified": "2023:07:01 12:34:56"}, None),  # when it was edited, not when it was taken
        ({}, None),
    ],
)
def test_the_time_is_utc_where_the_offset_is_known_and_else_the_wall_clock(
    tags: dict[str, str], expected: str | None
) -> None:
    assert taken("1.jpg", photo("JPEG", **tags)) == (None if expected is None else micro(expected))


@pytest.mark.parametrize("faststart", [False, True])
@pytest.mark.parametrize("name", ["1.mov", "1.mp4"])
def test_a_video_tells_its_time_wherever_its_header_stands(tmp_path: Path, name: str, faststart: bool) -> None:
    path = tmp_path / name
    options = {"movflags": "+faststart"} if faststart else {}
    with av.open(str(path), "w", options=options) as container:
        container.metadata["creation_time"] = "2023-07-01T12:34:56Z"
        stream = container.add_stream("mpeg4", rate=1)
        stream.width = stream.height = 16
        container.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        container.mux(stream.encode())
    assert taken(name, path.read_bytes()) == micro("2023-07-01 12:34:56")


def box(kind: bytes, content: bytes, *, long: bool = False) -> bytes:
    if long:
        return struct.pack(">I4sQ", 1, kind, len(content) + 16) + content
    return struct.pack(">I4s", len(content) + 8, kind) + content


SECONDS = 2_082_844_800 + 1_688_214_896  # 2023-07-01 12:34:56, counted from 1904


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (bytes(4) + struct.pack(">I", SECONDS), "2023-07-01 12:34:56"),
        (b"\1" + bytes(3) + struct.pack(">Q", SECONDS), "2023-07-01 12:34:56"),
        (bytes(4) + struct.pack(">I", 1_688_214_896), "2023-07-01 12:34:56"),  # counted from 1970
        (bytes(8), None),
        (b"\1" + bytes(3) + b"\xff" * 8, None),
        (b"", None),
    ],
)
@pytest.mark.parametrize("long", [False, True])
def test_the_time_of_a_movie_header(header: bytes, expected: str | None, long: bool) -> None:
    film = box(b"ftyp", b"qt  ") + box(b"mdat", bytes(2 * CHUNK), long=long)
    film += box(b"moov", box(b"udta", b"x" * 20) + box(b"mvhd", header and header + bytes(90)))
    assert taken("1.MOV", film) == (None if expected is None else micro(expected))


def test_the_stream_is_left_where_it_was() -> None:
    film = box(b"ftyp", b"qt  ") + box(b"mdat", bytes(2 * CHUNK)) + box(b"moov", box(b"mvhd", bytes(100)))
    stream = io.BytesIO(film)
    stream.seek(CHUNK)
    capture_time("1.mov", memoryview(film)[:CHUNK], stream)
    assert stream.tell() == CHUNK


def test_a_long_video_has_the_checksum_of_all_its_bytes_in_order(tmp_path: Path) -> None:
    import base64
    import hashlib

    header = box(b"mvhd", bytes(4) + struct.pack(">I", SECONDS) + bytes(90))
    film = box(b"ftyp", b"qt  ") + box(b"mdat", random.Random(1).randbytes(3 * CHUNK)) + box(b"moov", header)
    put(tmp_path, "1.mov", content=film)
    library = library_of(tmp_path)
    [hashed] = hash_parts({"L": library}, library.enumerate().table)
    assert hashed.checksum == base64.b64encode(hashlib.sha1(film).digest()).decode()
    assert hashed.captured_at == micro("2023-07-01 12:34:56")


@pytest.mark.parametrize("name", ["1.jpg", "1.mkv", "1.heic", "1.cr3", "1.mov", "empty.png"])
def test_a_file_that_says_nothing_has_its_modification_time(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, content=b"" if name.startswith("empty") else b"no metadata here")
    library = library_of(tmp_path)
    [hashed] = hash_parts({"L": library}, library.enumerate().table)
    assert hashed.captured_at == MODIFIED_NS // 1000
    assert hashed.checksum is not None


def test_damaged_metadata_costs_little_and_is_never_an_error(caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(20230701)
    whole = [
        ("1.jpg", photo("JPEG", original="2023:07:01 12:34:56", offset_original="+02:00")),
        ("1.tif", photo("TIFF", original="2023:07:01 12:34:56")),
        ("1.png", photo("PNG", original="2023:07:01 12:34:56")),
        ("1.webp", photo("WEBP", original="2023:07:01 12:34:56")),
        ("1.avif", photo("AVIF", original="2023:07:01 12:34:56")),
        ("1.mov", box(b"ftyp", b"qt  ") + box(b"moov", box(b"mvhd", bytes(4) + struct.pack(">I", SECONDS)))),
    ]
    slowest = 0.0
    with caplog.at_level(logging.DEBUG):
        for _ in range(400):
            for name, content in whole:
                damaged = bytearray(content[: chance.randint(0, len(content))] if chance.random() < 0.3 else content)
                for _ in range(chance.randint(1, 12)):
                    if damaged:
                        damaged[chance.randrange(min(len(damaged), 400))] = chance.choice(
                            (0, 1, 255, chance.getrandbits(8))
                        )
                start = time.process_time()
                taken(name, bytes(damaged))
                slowest = max(slowest, time.process_time() - start)
    assert slowest < 5
    assert not caplog.records


def test_a_header_that_is_made_to_take_long_ends() -> None:
    entry = struct.pack("<HHII", EXIF_IFD, 4, 1, 8)
    loop = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 400) + entry * 400 + struct.pack("<I", 8)
    start = time.process_time()
    assert taken("1.tif", loop) is None
    entry = struct.pack("<HHII", 0x0100, 3, 999, 8)  # 65,535 entries that each name the same 999 numbers
    crowded = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 65_535) + entry * 65_535 + bytes(4)
    assert taken("1.tif", crowded) is None
    endless_box = b"\0\0\0\x18ftypheic" + bytes(12) + b"\0\0\0\1junk" + bytes(8)
    assert taken("1.heic", endless_box) is None
    assert taken("1.mov", box(b"ftyp", b"qt  ") + b"\0\0\0\1junk" + bytes(8) + bytes(100)) is None
    assert time.process_time() - start < 10
