"""Stills and videos as a phone writes them, with the identifier that makes two of them a Live Photo."""

from __future__ import annotations

import io
import struct
from itertools import pairwise
from pathlib import Path

import av
from PIL import Image

CHUNK = 1_048_576  # what the hash reads of a file at once
EXIF_IFD, MAKER_NOTE = 0x8769, 0x927C
KEY = "com.apple.quicktime.content.identifier"


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content) + 8, kind) + content


def apple_note(identifier: str, *, order: str = ">") -> bytes:
    """A maker note with a number, the identifier and a short text, as the phone orders them."""
    text = identifier.encode() + b"\0"
    short = len(text) <= 4  # then it stands in its entry
    head = b"Apple iOS\0\0\1" + (b"MM" if order == ">" else b"II")
    behind = len(head) + 2 + 3 * 12 + 4
    entries = struct.pack(f"{order}HHIi", 0x0001, 9, 1, 14)
    entries += struct.pack(f"{order}HHI", 0x0011, 2, len(text))
    entries += text.ljust(4, b"\0") if short else struct.pack(f"{order}I", behind)
    entries += struct.pack(f"{order}HHI4s", 0x0015, 2, 4, b"abc\0")
    return head + struct.pack(f"{order}H", 3) + entries + bytes(4) + text


def exif_of(note: bytes | None) -> Image.Exif:
    exif = Image.Exif()
    exif[0x010F] = "Apple" if note else "Another"
    if note is not None:
        exif.get_ifd(EXIF_IFD)[MAKER_NOTE] = note
    return exif


def picture(note: bytes | None, kind: str = "JPEG") -> bytes:
    """A small JPEG or AVIF (a relative of HEIC: the same boxes), written by their own libraries."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, kind, exif=exif_of(note))
    return file.getvalue()


def heic(note: bytes | None, *, version: int = 1, far: int = 0, in_idat: bool = False, extents: int = 1) -> bytes:
    """A HEIC file: 60 picture items, then the Exif item, ``far`` bytes behind the pictures or inside ``meta``."""
    tiff = exif_of(note).tobytes().removeprefix(b"Exif\0\0")
    exif = struct.pack(">I", 6) + b"Exif\0\0" + tiff
    wide = version == 2
    number = ">I" if wide else ">H"
    infe = b""
    for item in range(1, 62):
        kind = b"Exif" if item == 61 else b"hvc1"
        infe += box(b"infe", bytes([3 if wide else 2, 0, 0, 0]) + struct.pack(number, item) + bytes(2) + kind + b"\0")
    iinf = box(b"iinf", bytes([1 if wide else 0, 0, 0, 0]) + struct.pack(number, 61) + infe)

    def iloc(start: int) -> bytes:
        rows = b""
        for item in range(1, 62):
            method = 1 if in_idat and item == 61 else 0
            rows += struct.pack(number, item) + (struct.pack(">H", method) if version else b"") + bytes(2)
            if item < 61:
                rows += struct.pack(">IHII", 0, 1, 40, 4)
                continue
            base = 0 if in_idat else start
            rows += struct.pack(">IH", base, extents)
            cuts = [len(exif) * n // extents for n in range(extents + 1)]
            for begin, end in pairwise(cuts):
                rows += struct.pack(">II", begin, end - begin)
        return box(b"iloc", bytes([version, 0, 0, 0]) + b"\x44\x40" + struct.pack(number, 61) + rows)

    def meta(start: int) -> bytes:
        idat = box(b"idat", exif) if in_idat else b""
        hdlr = box(b"hdlr", bytes(8) + b"pict" + bytes(13))
        return box(b"meta", bytes(4) + hdlr + iinf + box(b"iprp", bytes(50)) + iloc(start) + idat)

    front = box(b"ftyp", b"heic" + bytes(4) + b"mif1heic")
    start = len(front) + len(meta(0)) + 8 + far
    return front + meta(start) + box(b"mdat", bytes(far) + exif)


def film(path: Path, identifier: str | None, *, faststart: bool = False, padding: int = 0) -> bytes:
    """A short video that FFmpeg writes, MOV or MP4 by the name, with other metadata keys before and after."""
    flags = "+use_metadata_tags" + ("+faststart" if faststart else "")
    with av.open(str(path), "w", options={"movflags": flags}) as container:
        container.metadata["com.apple.quicktime.make"] = "Apple"
        if identifier is not None:
            container.metadata[KEY] = identifier
        container.metadata["com.apple.quicktime.software"] = "17.0"
        stream = container.add_stream("mpeg4", rate=1)
        stream.width = stream.height = 16
        container.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        container.mux(stream.encode())
    if padding:  # ahead of everything, so that the header lies behind the first chunk
        content = path.read_bytes()
        size = struct.unpack(">I", content[:4])[0]
        path.write_bytes(content[:size] + box(b"free", bytes(padding)) + content[size:])
    return path.read_bytes()


def apple_film(identifier: str, *, mdat: int = 99) -> bytes:
    """A MOV as a phone writes it: the header at the end, ``meta`` without a version."""
    name = KEY.encode()
    keys = bytes(4) + struct.pack(">I", 2) + box(b"mdta", b"com.apple.quicktime.make") + box(b"mdta", name)
    ilst = box(b"\0\0\0\1", box(b"data", struct.pack(">II", 1, 0) + b"Apple"))
    ilst += box(b"\0\0\0\2", box(b"data", struct.pack(">II", 1, 0) + identifier.encode()))
    meta = box(b"meta", box(b"hdlr", bytes(8) + b"mdta" + bytes(12)) + box(b"keys", keys) + box(b"ilst", ilst))
    moov = box(b"moov", box(b"mvhd", bytes(100)) + box(b"trak", b"t" * 400) + meta)
    return box(b"ftyp", b"qt  " + bytes(4)) + box(b"wide", b"") + box(b"mdat", bytes(mdat)) + moov
