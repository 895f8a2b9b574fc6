"""When a photo or video was taken, as far as its own metadata says. Bounded work, and never an error.

Which time stands in where the metadata is silent is decided in ``library.hashing``.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, BinaryIO, cast

from library.media_types import media_kind

_MAX_READS = 20_000  # an ordinary header takes a few thousand; a damaged one could go round for ever
_MAX_BOXES = 200
_MAX_MARKS = 200
_QUICKTIME_EPOCH = 2_082_844_800  # seconds from 1904 to 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXIF_TIME = re.compile(r"\s*(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_OFFSET = re.compile(r"\s*(?:(Z)|([+-])(\d\d):?(\d\d))")

ReadAt = Callable[[int, int], bytes]


def capture_time(file_name: str, head: memoryview, stream: BinaryIO) -> int | None:
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


class _Header:
    """A chunk as the reader that exifread wants, with a limit to how often it is asked."""

    __slots__ = ("_chunk", "_position", "_reads")

    def __init__(self, chunk: memoryview) -> None:
        self._chunk = chunk
        self._position = 0
        self._reads = 0

    def read(self, count: int = -1) -> bytes:
        self._reads += 1
        if self._reads > _MAX_READS:
            raise EOFError
        start = self._position
        end = len(self._chunk) if count < 0 else min(len(self._chunk), start + count)
        self._position = max(start, end)
        return bytes(self._chunk[start:end])

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + (self._position if whence == io.SEEK_CUR else 0))
        return self._position

    def tell(self) -> int:
        return self._position


def _still_time(head: memoryview) -> int | None:
    import exifread

    logging.getLogger("exifread").setLevel(logging.CRITICAL + 1)  # it logs what it cannot read, with content
    start = _tiff_start(bytes(head))
    if start is None:
        return None
    tags: dict[str, Any] = exifread.process_file(
        cast(BinaryIO, _Header(head[start:])), details=False, extract_thumbnail=False, stop_tag="OffsetTimeDigitized"
    )
    for group in ("EXIF", "Image"):  # a CR3 file keeps the Exif tags in a structure of their own
        for which in ("Original", "Digitized"):
            text, offset = (str(tags.get(f"{group} {tag}{which}", "")) for tag in ("DateTime", "OffsetTime"))
            taken = _exif_time(text, offset)
            if taken is not None:
                return taken
    return None


def _tiff_start(head: bytes) -> int | None:
    """Where the TIFF structure begins that EXIF is: at 0 in TIFF and most RAW files, else behind one of the marks that
    JPEG, PNG, WebP, HEIF, JPEG XL and camera files put before it. exifread knows fewer containers than that."""
    if head[:2] in (b"II", b"MM"):
        return 0
    is_heif = head[4:8] == b"ftyp"
    starts = []
    for order in (b"II*\0", b"MM\0*"):
        at = head.find(order)
        for _ in range(_MAX_MARKS):
            if at < 0:
                break
            before = head[max(0, at - 8) : at]
            if (
                before.endswith((b"Exif\0\0", b"eXIf", b"CMT2"))
                or before[:4] == b"EXIF"
                or (is_heif and before[4:] == bytes(4))
            ):
                starts.append(at)
                break
            at = head.find(order, at + 1)
    return min(starts, default=None)


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


def _video_time(head: memoryview, stream: BinaryIO) -> int | None:
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
