"""The bytes of thumbnails: a webp of one colour per checksum, and a jpeg. No image library is needed."""

from __future__ import annotations

import base64
import struct

WEBP_SIDE = 64
GREY_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8"
    "ybqmx5moq6T/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AR//Z"
)


def webp_of(checksum: str) -> bytes:
    """A lossless webp in a colour that follows from the checksum, so that two assets can be told apart."""
    red, green, blue = base64.b64decode(checksum)[:3]
    bits = _Bits()
    for value, width in ((0x2F, 8), (WEBP_SIDE - 1, 14), (WEBP_SIDE - 1, 14), (0, 1), (0, 3), (0, 3)):
        bits.add(value, width)  # signature, width, height, no alpha, version; no transform, no cache, one code group
    for symbol in (green, red, blue, 255):
        bits.add(0b101, 3)  # a simple code of one symbol of eight bits, so that each pixel takes no bit at all
        bits.add(symbol, 8)
    bits.add(0b0001, 4)  # the distance code: one symbol of one bit, zero
    data = bits.bytes()
    data += b"\0" * (len(data) % 2)
    return struct.pack("<4sI4s4sI", b"RIFF", 12 + len(data), b"WEBP", b"VP8L", len(data)) + data


def jpeg_of(content: bytes | None) -> bytes:
    """The uploaded bytes where they are a jpeg, else a small grey one."""
    return content if content is not None and content.startswith(b"\xff\xd8") else GREY_JPEG


class _Bits:
    """Bits written least significant first."""

    def __init__(self) -> None:
        self.value = 0
        self.width = 0

    def add(self, value: int, width: int) -> None:
        self.value |= value << self.width
        self.width += width

    def bytes(self) -> bytes:
        return self.value.to_bytes((self.width + 7) // 8, "little")
