"""The identifier that a Live Photo's still and its video share, as their own bytes say. Bounded work, never an error.

Which still and which video then make a pair is decided in ``library.pairs``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

from library.media_types import media_kind

_MAX_META = 262_144  # bytes looked at of one metadata structure; a phone writes a few thousand
_MAX_BOXES_OF_FILE = 200  # beyond the first chunk each of them is a read
_MAX_BOXES_OF_META = 10_000
_MAX_SEGMENTS = 64
_MAX_EXTENTS = 16
_MAX_IDENTIFIER = 200  # characters; a UUID has 36

_EXIF_DIRECTORY, _MAKER_NOTE, _CONTENT_IDENTIFIER = 0x8769, 0x927C, 0x0011
_APPLE_NOTE = b"Apple iOS\0\0\1"  # then the byte order, then a directory whose offsets count from the note's start
_KEY = b"com.apple.quicktime.content.identifier"

ReadAt = Callable[[int, int], bytes]


def content_identifier(file_name: str, head: bytes | memoryview, stream: BinaryIO) -> str | None:
    """The content identifier, in upper case without padding, or None where the file has none (spec, item 5.2).

    Of a still (JPEG, or HEIF with its relatives, told apart by content): tag 0x0011 of the Apple maker note. Of a
    video: the QuickTime metadata key ``com.apple.quicktime.content.identifier`` of the whole film.

    ``head`` is the first chunk of the file. What stands behind it is read from ``stream``, which is left where it
    was; of a stream that cannot seek only the head is known. Damaged bytes have no identifier.
    """
    kind = media_kind(file_name.encode())
    try:
        if kind == "still" and bytes(head[:2]) == b"\xff\xd8":
            return _of_jpeg(head)
        if kind == "video" or bytes(head[4:8]) == b"ftyp":
            return _with_reader(_of_video if kind == "video" else _of_heif, head, stream)
    except (ValueError, OverflowError, OSError, struct.error):  # what damaged metadata and offsets beyond reason cause
        pass
    return None


def _with_reader(find: Callable[[ReadAt], str | None], head: bytes | memoryview, stream: BinaryIO) -> str | None:
    here = stream.tell() if stream.seekable() else None

    def read_at(offset: int, count: int) -> bytes:
        if here is None or offset + count <= len(head):
            return bytes(head[offset : offset + count])
        stream.seek(offset)
        return stream.read(count) or b""

    try:
        return find(read_at)
    finally:
        if here is not None:
            stream.seek(here)


def _of_jpeg(head: bytes | memoryview) -> str | None:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        mark, kind, length = struct.unpack(">BBH", head[at : at + 4])
        if mark != 0xFF or kind in (0xD9, 0xDA):  # the end, or the picture itself
            return None
        if kind == 0xE1 and bytes(head[at + 4 : at + 10]) == b"Exif\0\0":
            found = _of_exif(bytes(head[at + 10 : at + 2 + length]))
            if found is not None:
                return found
        at += 2 + length
    return None


def _of_heif(read_at: ReadAt) -> str | None:
    """By way of the item list (iinf), which names the Exif item, and of the item locations (iloc)."""
    for kind, start, end in _boxes(read_at, 0, None, _MAX_BOXES_OF_FILE):
        if kind == b"meta":
            meta = _content(read_at, start + 4, end)
            exif = _exif_item(meta, read_at) if b"Exif" in meta else b""
            skipped = 4 + _number(exif, 0, 4) if exif else 0  # says how far behind itself the TIFF structure begins
            return _of_exif(exif[skipped:])
    return None


def _exif_item(meta: bytes, read_at: ReadAt) -> bytes:
    inside = _reader(meta)
    boxes = {kind: (start, end) for kind, start, end in _boxes(inside, 0, len(meta), _MAX_BOXES_OF_META)}
    if b"iinf" not in boxes or b"iloc" not in boxes:
        return b""
    start, end = boxes[b"iinf"]
    count_size = 2 if _number(meta, start, 1) == 0 else 4
    for kind, at, _ in _boxes(inside, start + 4 + count_size, end, _MAX_BOXES_OF_META):
        id_size = 2 if _number(meta, at, 1) < 3 else 4
        if kind == b"infe" and meta[at + 6 + id_size : at + 10 + id_size] == b"Exif":
            wanted = _number(meta, at + 4, id_size)
            own = boxes.get(b"idat", (0, 0))
            return _item(_content(inside, *boxes[b"iloc"]), wanted, (read_at, _reader(meta[own[0] : own[1]])))
    return b""


def _item(iloc: bytes, wanted: int, sources: tuple[ReadAt, ReadAt]) -> bytes:
    """The bytes of one item; ``sources`` are the file and the ``idat`` box, as the construction method numbers them."""
    version = _number(iloc, 0, 1)
    sizes = _number(iloc, 4, 2)
    offset_size, length_size, base_size, index_size = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    id_size = 4 if version == 2 else 2
    method_size, index_size = (2, index_size) if version in (1, 2) else (0, 0)
    extent_size = index_size + offset_size + length_size
    at = 6 + id_size
    for _ in range(_number(iloc, 6, id_size)):
        item = _number(iloc, at, id_size)
        method = _number(iloc, at + id_size, method_size) & 15
        base_at = at + id_size + method_size + 2
        base = _number(iloc, base_at, base_size)
        extents = _number(iloc, base_at + base_size, 2)
        at = base_at + base_size + 2
        if item == wanted:
            if method > 1:
                return b""
            found = b""
            for start in range(at, at + min(extents, _MAX_EXTENTS) * extent_size, extent_size or 1):
                offset = base + _number(iloc, start + index_size, offset_size)
                length = _number(iloc, start + index_size + offset_size, length_size)
                found += sources[method](offset, min(length, _MAX_META - len(found)))
            return found
        at += extents * extent_size
    return b""


def _of_exif(tiff: bytes) -> str | None:
    if _APPLE_NOTE not in tiff:  # nearly every photo of another camera ends here
        return None
    order = {b"MM": ">", b"II": "<"}.get(tiff[:2])
    if order is None:
        return None
    (first,) = struct.unpack_from(f"{order}I", tiff, 4)
    (exif,) = struct.unpack(f"{order}I", _value(tiff, first, _EXIF_DIRECTORY, order)[:4])
    note = _value(tiff, exif, _MAKER_NOTE, order)
    order = {b"MM": ">", b"II": "<"}.get(note[12:14])
    if order is None or not note.startswith(_APPLE_NOTE):
        return None
    return _normal(_value(note, 14, _CONTENT_IDENTIFIER, order))


def _value(tiff: bytes, directory: int, wanted: int, order: str) -> bytes:
    """The bytes of a tag of one, or for a number of four; none where the directory does not have it."""
    (count,) = struct.unpack_from(f"{order}H", tiff, directory)
    entries = tiff[directory + 2 : directory + 2 + 12 * count]
    for tag, kind, length, where in struct.iter_unpack(f"{order}HHI4s", entries[: len(entries) // 12 * 12]):
        if tag == wanted:
            if kind not in (1, 2, 7) or length <= 4:  # bytes and text may lie elsewhere; all else of ours is one number
                return bytes(where)
            (start,) = struct.unpack(f"{order}I", where)
            return tiff[start : start + length]
    return b""


def _of_video(read_at: ReadAt) -> str | None:
    if read_at(4, 4) not in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"):
        return None
    for kind, start, end in _boxes(read_at, 0, None, _MAX_BOXES_OF_FILE):
        if kind == b"moov":
            metas = _metas(read_at, start, end)
            return next((_of_keys(meta) for meta in metas if _KEY in meta), None)
    return None


def _metas(read_at: ReadAt, start: int, end: int) -> Iterator[bytes]:
    """The content of each ``meta`` box in a stretch; a phone writes it in ``moov``, FFmpeg in ``udta`` in there."""
    for kind, at, last in _boxes(read_at, start, end, _MAX_BOXES_OF_FILE):
        if kind == b"meta":
            yield _content(read_at, at, last)
        elif kind == b"udta":
            inside = _boxes(read_at, at, last, _MAX_BOXES_OF_FILE)
            yield from (_content(read_at, first, past) for inner, first, past in inside if inner == b"meta")


def _of_keys(meta: bytes) -> str | None:
    """The value of the one key: its place in ``keys`` is the name of its box in ``ilst``."""
    inside = _reader(meta)
    start = 0 if meta[4:8] == b"hdlr" else 4  # QuickTime writes the box bare, MP4 with a version before its content
    boxes = {kind: (at, end) for kind, at, end in _boxes(inside, start, len(meta), _MAX_BOXES_OF_META)}
    if b"keys" not in boxes or b"ilst" not in boxes:
        return None
    at, end = boxes[b"keys"]
    keys = _boxes(inside, at + 8, end, _MAX_BOXES_OF_META)  # each entry is shaped like a box: size, namespace, name
    for number, (namespace, name_at, name_end) in enumerate(keys, start=1):
        if namespace == b"mdta" and meta[name_at:name_end] == _KEY:
            for item, item_at, item_end in _boxes(inside, *boxes[b"ilst"], _MAX_BOXES_OF_META):
                if int.from_bytes(item, "big") == number and meta[item_at + 4 : item_at + 8] == b"data":
                    return _normal(meta[item_at + 16 : item_end])  # behind a type and a language
    return None


def _boxes(read_at: ReadAt, start: int, end: int | None, most: int) -> Iterator[tuple[bytes, int, int]]:
    """Type, start and end of the content of each box in a stretch; an end of None is the file's."""
    for _ in range(most):
        if end is not None and start + 8 > end:
            return
        header = read_at(start, 8)
        if len(header) < 8:
            return
        size, skip = int.from_bytes(header[:4], "big"), 8
        if size == 1:
            size, skip = _number(read_at(start + 8, 8), 0, 8), 16
        last = start + size if size else end if end is not None else 1 << 62
        if last < start + skip or (end is not None and last > end):
            return
        yield header[4:8], start + skip, last
        if size == 0:
            return
        start = last


def _content(read_at: ReadAt, start: int, end: int) -> bytes:
    return read_at(start, max(0, min(end - start, _MAX_META)))


def _reader(content: bytes) -> ReadAt:
    return lambda offset, count: content[offset : offset + count]


def _number(content: bytes, at: int, size: int) -> int:
    if at + size > len(content):
        raise ValueError
    return int.from_bytes(content[at : at + size], "big")


def _normal(value: bytes) -> str | None:
    text = value.decode("ascii").strip("\0 \t\r\n").upper()
    return text if text.isprintable() and 0 < len(text) <= _MAX_IDENTIFIER else None
