"""Relative paths as text, and back. A name on disk is bytes; an id must be valid UTF-8.

A byte that is not UTF-8 becomes a backslash, ``x`` and two hexadecimal digits. A backslash that would read as such
an escape is itself escaped (``\\x5c``), so that every name has exactly one id and every id exactly one name.
"""

from __future__ import annotations

import errno
import os
import re

_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
_AMBIGUOUS = re.compile(r"\\(?=x[0-9a-f]{2})")
_SURROGATE = re.compile("[\udc80-\udcff]")


def to_text(name: bytes) -> str:
    """A name or relative path as valid UTF-8 text; ``to_bytes`` is its inverse for any bytes."""
    text = name.decode("utf-8", "surrogateescape")
    if "\\" in text:
        text = _AMBIGUOUS.sub(r"\\x5c", text)
    if not text.isascii():
        text = _SURROGATE.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
    return text


def to_bytes(text: str) -> bytes:
    """The bytes of a name or relative path that ``to_text`` made."""
    if "\\" not in text:
        return text.encode("utf-8")
    pieces = _ESCAPE.split(text)
    literal = (piece.encode("utf-8") for piece in pieces[::2])
    escaped = (bytes.fromhex(piece) for piece in [*pieces[1::2], ""])
    return b"".join(part for pair in zip(literal, escaped, strict=True) for part in pair)


def below(root: bytes, local_id: str) -> bytes:
    """The absolute path of a local id. Raises FileNotFoundError for an id that would lead out of the root."""
    relative = to_bytes(local_id)
    if b"\0" in relative or any(part in (b"", b".", b"..") for part in relative.split(b"/")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), local_id)
    return os.path.join(root, relative)  # noqa: PTH118  (pathlib knows no bytes)
