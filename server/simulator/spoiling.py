"""The change stream's body on its way out: which bytes go in which pieces, and where they stop.

Faults of whole answers (a status, a delay, no answer) are in faults.py.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PIECE = 1 << 20  # bytes that are handed to the socket at a time, at most
GZIP = 16 + zlib.MAX_WBITS

# Lines for StreamFault.insert.
UNKNOWN_TYPE = (
    b'{"type":"AssetHologramV9","data":{"id":"1"},"ack":"AssetHologramV9|01a1fb7e-0000-7000-8000-000000000000"}'
)
WITHOUT_ACK = b'{"type":"AssetDeleteV1","data":{"assetId":"0aea2f54-f79e-4108-8b29-4c4452ade010"}}'
WRONG_DATA = b'{"type":"AssetDeleteV1","data":{"asset":7},"ack":"AssetDeleteV1|01a1fb7e-0000-7000-8000-000000000000"}'
NOT_JSON = b"<html>upstream timed out</html>"
BLANK = b""


class End(enum.Enum):
    """How a body stops before its end: the connection is cut, or nothing more comes."""

    CUT = "cut"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class StreamFault:
    """What happens to one answer of the change stream.

    - ``cut_after_lines``, ``cut_after_bytes``: the connection is cut after so many whole lines, or after so many bytes
      of the body as sent (compressed where it is compressed), wherever that is. A shorter body is not cut.
    - ``hang_after_lines``, ``hang_after_bytes``: likewise, but the connection stays open and nothing more comes.
    - ``no_complete``: the body ends well, without its last line.
    - ``insert``: lines (without newline) by the number of the line before which they are put; 0 is the first line and
      -1 the last one.
    - ``chunk_bytes``: the body goes in chunks of so many bytes, at least 1. ``pause``: seconds after each chunk.
    - ``gzip``: compressed, even if the client does not take that.
    """

    cut_after_lines: int | None = None
    cut_after_bytes: int | None = None
    hang_after_lines: int | None = None
    hang_after_bytes: int | None = None
    no_complete: bool = False
    insert: Mapping[int, bytes] = field(default_factory=dict)
    chunk_bytes: int = PIECE
    pause: float = 0.0
    gzip: bool = False


AS_IT_IS = StreamFault()


def long_line(size: int) -> bytes:
    """A line of an unknown type with so many bytes or a few more, without newline."""
    return UNKNOWN_TYPE.replace(b'"1"', b'"' + b"x" * (size - len(UNKNOWN_TYPE) + 1) + b'"')


def sent(blocks: Iterator[bytes], fault: StreamFault, *, gzipped: bool, hangs: bool) -> Iterator[bytes | End]:
    """The pieces of the body. An End is the last one; without it the body ends as it should.

    ``blocks`` are whole lines with their newlines; with ``hangs`` they hang at their end by themselves.
    """
    plain: Iterator[bytes | End] = blocks
    if fault != AS_IT_IS:
        plain = _spoiled(_lines(blocks), fault)
    if hangs:
        plain = _then_hang(plain)
    return _pieces(_compressed(plain) if gzipped else plain, fault)


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield from block.splitlines(keepends=True)


def _spoiled(lines: Iterator[bytes], fault: StreamFault) -> Iterator[bytes | End]:
    """The lines with those that are put in, up to the line after which the body stops."""
    stops = {fault.cut_after_lines: End.CUT, fault.hang_after_lines: End.HANG}
    if 0 in stops:
        yield stops[0]
        return
    for count, line in enumerate(_with_inserted(lines, fault), start=1):
        yield line
        if count in stops:
            yield stops[count]
            return


def _with_inserted(lines: Iterator[bytes], fault: StreamFault) -> Iterator[bytes]:
    last: bytes | None = None
    for number, line in enumerate(lines):
        if last is not None:
            yield last
        if number in fault.insert:
            yield fault.insert[number] + b"\n"
        last = line
    if -1 in fault.insert:
        yield fault.insert[-1] + b"\n"
    if last is not None and not fault.no_complete:
        yield last


def _then_hang(pieces: Iterator[bytes | End]) -> Iterator[bytes | End]:
    yield from pieces
    yield End.HANG


def _compressed(pieces: Iterator[bytes | End]) -> Iterator[bytes | End]:
    """gzip, flushed after each piece so that a reader sees it at once."""
    packer = zlib.compressobj(1, zlib.DEFLATED, GZIP)
    for piece in pieces:
        if isinstance(piece, End):
            yield piece
            return
        yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def _pieces(pieces: Iterator[bytes | End], fault: StreamFault) -> Iterator[bytes | End]:
    """Pieces of at most ``chunk_bytes``, up to the byte after which the body stops."""
    limits = {fault.cut_after_bytes: End.CUT, fault.hang_after_bytes: End.HANG}
    limits.pop(None, None)
    limit = min((one for one in limits if one is not None), default=None)
    count = 0
    for piece in pieces:
        if isinstance(piece, End):
            yield piece
            return
        for start in range(0, len(piece), fault.chunk_bytes):
            part = piece[start : start + fault.chunk_bytes]
            if limit is not None and count + len(part) >= limit:
                if limit > count:
                    yield part[: limit - count]
                yield limits[limit]
                return
            count += len(part)
            yield part
