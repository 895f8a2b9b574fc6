"""When a photo or video was taken, as far as its own metadata says. Bounded work, and never an error.

Which time stands in where the metadata is silent is decided in ``library.hashing``.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import BinaryIO

from library.media_types import media_kind

_MAX_BOXES = 200
_MAX_MARKS = 400
_MAX_SEGMENTS = 64
_MAX_TEXT = 64  # a time has 20 characters, an offset 7
_NEAR = 65_536  # where the metadata of a file stands that is none of the containers below
_CONTAINERS = (b"\x89PNG", b"RIFF", b"\0\0\0\x0cJXL ")  # and whatever begins with a box ``ftyp``
_QUICKTIME_EPOCH = 2_082_844_800  # seconds from 1904 to 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXIF_TIME = re.compile(r"\s*(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_OFFSET = re.compile(r"\s*(?:(Z)|([+-])(\d\d):?(\d\d))")
# How a TIFF structure begins, in either order. The pattern starts with the one byte that both have and few others do:
# looking for two bytes at once takes four times as long, which small files would feel beside their hash.
_TIFF = re.compile(rb"\*(?:(?<=II\*)\0|(?<=MM\0\*))")

_ASCII = 2
_EXIF_DIRECTORY = 0x8769
_TIMES = ((0x9003, 0x9011), (0x9004, 0x9012))  # DateTimeOriginal and its offset from UTC, then DateTimeDigitized
_WANTED = frozenset({_EXIF_DIRECTORY, *(tag for pair in _TIMES for tag in pair)})

ReadAt = Callable[[int, int], bytes]


def capture_time(file_name: str, head: bytes | memoryview, stream: BinaryIO) -> int | None:
    """Microseconds since 1970, or None where the file does not say.

    ``head`` is the first chunk of the file. For a still only it is looked at; for a video, whose header may stand
    at the end, ``stream`` is also, and left where it was. UTC where the offset is known (a video's time is UTC by
    its format), else the wall clock of the place taken as if it were UTC.
    """
    kind = media_kind(file_name.encode())
    try:
        return _video_time(head, stream) if kind == "video" else _still_time(head)
    except Exception:  # damaged metadata fails in any way there is; the hash must not
        return None


def _still_time(head: bytes | memoryview) -> int | None:
    start = _tiff_start(head)
    if start is None:
        return None
    tiff = memoryview(head)[start:]
    order = "<" if tiff[0] == 0x49 else ">"
    first = _directory(tiff, order, struct.unpack_from(f"{order}I", tiff, 4)[0])
    pointer = first.get(_EXIF_DIRECTORY)
    exif = {} if pointer is None else _directory(tiff, order, pointer[2])
    for tags in (exif, first):  # a CR3 file keeps the Exif tags in a structure of their own
        for time_tag, offset_tag in _TIMES:
            taken = _exif_time(_text(tiff, order, tags.get(time_tag)), _text(tiff, order, tags.get(offset_tag)))
            if taken is not None:
                return taken
    return None


def _directory(tiff: memoryview, order: str, at: int) -> dict[int, tuple[int, int, int]]:
    """Tag to (type, count, value or where it stands) of one directory, as far as the bytes go."""
    (count,) = struct.unpack_from(f"{order}H", tiff, at)
    entries = tiff[at + 2 : at + 2 + 12 * count]
    whole = entries[: len(entries) // 12 * 12]
    return {tag: rest for tag, *rest in struct.iter_unpack(f"{order}HHII", whole) if tag in _WANTED}  # type: ignore[misc]


def _text(tiff: memoryview, order: str, entry: tuple[int, int, int] | None) -> str:
    """The text of a tag; empty where it is missing or no text."""
    if entry is None or entry[0] != _ASCII:
        return ""
    _, count, at = entry
    found = struct.pack(f"{order}I", at) if count <= 4 else bytes(tiff[at : at + min(count, _MAX_TEXT)])
    return found[:count].partition(b"\0")[0].decode("latin-1")


def _tiff_start(head: bytes | memoryview) -> int | None:
    """Where the TIFF structure begins that EXIF is: at 0 in TIFF and most RAW files, in JPEG in a segment of its own,
    else behind one of the marks that PNG, WebP, HEIF, JPEG XL and camera files put before it."""
    begin = bytes(head[:12])
    if begin[:2] in (b"II", b"MM"):
        return 0
    if begin[:2] == b"\xff\xd8":
        return _in_jpeg(head)
    near = _marked(head, 0, _NEAR)
    if near is None and (begin[4:8] == b"ftyp" or begin.startswith(_CONTAINERS)):
        return _marked(head, _NEAR - 1, len(head))
    return near


def _in_jpeg(head: bytes | memoryview) -> int | None:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        mark, kind, length = struct.unpack_from(">BBH", head, at)
        if mark != 0xFF or kind in (0xD9, 0xDA):  # the end, or the picture itself
            return None
        if kind == 0xE1 and bytes(head[at + 4 : at + 10]) == b"Exif\0\0":
            return at + 10
        at += 2 + length
    return None


def _marked(head: bytes | memoryview, first: int, end: int) -> int | None:
    """The first TIFF structure between two places that stands behind a mark."""
    is_heif = bytes(head[4:8]) == b"ftyp"
    for found in itertools.islice(_TIFF.finditer(head, first, end), _MAX_MARKS):
        star = found.start()
        start = star - (2 if head[star - 1] == 0x49 else 3)
        before = bytes(head[max(0, start - 8) : start])
        if (
            before.endswith((b"Exif\0\0", b"eXIf", b"CMT2"))
            or before[:4] == b"EXIF"
            or (is_heif and before[4:] == bytes(4))
        ):
            return start
    return None


def _exif_time(text: str, offset: str) -> int | None:
    """'2024:05:01 12:00:00' and '+02:00' as microseconds; None for a time that is not set ('0000:00:00 ...')."""
    found = _EXIF_TIME.match(text)
    if found is None:
        return None
    zone = UTC
    known = _OFFSET.match(offset)
    if known is not None and known[1] is None:
        ahead = timedelta(hours=int(known[3]), minutes=int(known[4]))
        zone = timezone(ahead if known[2] == "+" else -ahead)
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return _microseconds(datetime(year, month, day, hour, minute, second, tzinfo=zone))
    except ValueError:
        return None


def _video_time(head: bytes | memoryview, stream: BinaryIO) -> int | None:
    """The creation time in the ``mvhd`` box of an MP4 or QuickTime file."""
    here = stream.tell()

    def read_at(offset: int, count: int) -> bytes:
        if offset + count <= len(head):
            return bytes(head[offset : offset + count])
        stream.seek(offset)
        return stream.read(count)

    try:
        if bytes(head[4:8]) not in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"):
            return None
        movie = next((box for box in _boxes(read_at, 0, None) if box[0] == b"moov"), None)
        if movie is None:
            return None
        header = next((box for box in _boxes(read_at, movie[1], movie[2]) if box[0] == b"mvhd"), None)
        if header is None:
            return None
        version = read_at(header[1], 1)[0]
        seconds = int.from_bytes(read_at(header[1] + 4, 8 if version == 1 else 4), "big")
    finally:
        stream.seek(here)
    if seconds == 0:
        return None
    # Some cameras count from 1970; a time before that year cannot be one of 1904.
    since_1970 = seconds - _QUICKTIME_EPOCH if seconds >= _QUICKTIME_EPOCH else seconds
    return _microseconds(_EPOCH + timedelta(seconds=since_1970))


def _boxes(read_at: ReadAt, start: int, end: int | None) -> Iterator[tuple[bytes, int, int | None]]:
    """Type, start and end of the content of each box in a stretch of the file; an end of None is the file's."""
    for _ in range(_MAX_BOXES):
        header = read_at(start, 8)
        if len(header) < 8 or (end is not None and start >= end):
            return
        size, skip = int.from_bytes(header[:4], "big"), 8
        if size == 1:
            size, skip = int.from_bytes(read_at(start + 8, 8), "big"), 16
        last = end if size == 0 else start + size
        yield header[4:8], start + skip, last
        if last is None or last < start + 8:
            return
        start = last


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
