"""A photo library of real files: JPEGs with EXIF, and Live Photos with a QuickTime video. Same call, same bytes.

Only the demo and the tests use this; what is done with the files is in demo.story.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path

import av
from PIL import Image, ImageDraw, ImageFont

PHOTOS = 24
LIVE_PHOTOS = (5, 11, 17, 23)
ALBUMS = ("2024/Lofoten", "2025/Garden", "2025/Lisbon")
COPIED = 9  # this photo has a copy in the folder COPIES
COPIES = "2025/Favourites"
MAKE, MODEL = "Example", "Pocket 7"

STILL_SIZE = (640, 480)
MOTION_SIZE = (160, 120)
FRAMES_A_SECOND = 10

_EXIF_IFD = 0x8769
_EXIF_MAKE, _EXIF_MODEL, _EXIF_DATE_TIME = 0x010F, 0x0110, 0x0132
_EXIF_ORIGINAL, _EXIF_DIGITIZED, _EXIF_OFFSET, _EXIF_OFFSET_ORIGINAL = 0x9003, 0x9004, 0x9010, 0x9011


@dataclass(frozen=True, slots=True)
class Picture:
    """One photo on disk. ``captured_at`` has the offset that its EXIF says; ``motion`` is a Live Photo's video."""

    path: Path
    captured_at: datetime
    motion: Path | None = None


def write_library(folder: Path) -> tuple[Picture, ...]:
    """24 photos in sub-folders of ``folder``, four of them Live Photos, and one copy of a photo in another folder.

    They are named IMG_0001.JPG to IMG_0024.JPG; the copy has its original's name. About 0.3 MB in all.
    """
    return tuple(_pictures(folder))


def _pictures(folder: Path) -> Iterator[Picture]:
    for number in range(1, PHOTOS + 1):
        path = folder / ALBUMS[number % len(ALBUMS)] / f"IMG_{number:04d}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = captured_at(number)
        path.write_bytes(still(number, taken))
        motion = None
        if number in LIVE_PHOTOS:
            motion = path.with_suffix(".MOV")
            write_motion(motion, number, taken)
        yield Picture(path, taken, motion)
        if number == COPIED:
            copy = folder / COPIES / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            yield Picture(copy, taken)


def captured_at(number: int) -> datetime:
    """When photo ``number`` was taken: each on another day and second, summer ones two hours ahead of UTC."""
    moment = datetime(2024, 7, 1, 9, 30, 15) + timedelta(days=17 * number, seconds=61 * number)  # noqa: DTZ001
    return moment.replace(tzinfo=timezone(timedelta(hours=2 if 4 <= moment.month <= 9 else 1)))


def still(number: int, taken: datetime, *, edited: bool = False) -> bytes:
    """A JPEG with a big number on a colour of its own. ``taken`` must be aware; edited: the same photo in grey tones.

    The EXIF holds camera make and model, the wall clock of the place and its offset from UTC.
    """
    image = _drawing(number, STILL_SIZE, edited=edited)
    exif = Image.Exif()
    wall_clock = taken.strftime("%Y:%m:%d %H:%M:%S")
    offset = taken.isoformat()[-6:]
    exif[_EXIF_MAKE], exif[_EXIF_MODEL], exif[_EXIF_DATE_TIME] = MAKE, MODEL, wall_clock
    exif.get_ifd(_EXIF_IFD).update(
        {
            _EXIF_ORIGINAL: wall_clock,
            _EXIF_DIGITIZED: wall_clock,
            _EXIF_OFFSET: offset,
            _EXIF_OFFSET_ORIGINAL: offset,
        }
    )
    file = BytesIO()
    image.save(file, "JPEG", quality=80, exif=exif)
    return file.getvalue()


def write_motion(path: Path, number: int, taken: datetime) -> None:
    """A second of QuickTime video (Motion JPEG): the number with a bar that moves. Its creation time is ``taken``."""
    with av.open(str(path), "w", format="mov") as container:
        container.metadata["creation_time"] = taken.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stream = container.add_stream("mjpeg", rate=FRAMES_A_SECOND)
        stream.width, stream.height = MOTION_SIZE
        stream.pix_fmt = "yuvj420p"
        background = _drawing(number, MOTION_SIZE)
        for place in range(FRAMES_A_SECOND):
            image = background.copy()
            left = MOTION_SIZE[0] * place // FRAMES_A_SECOND
            ImageDraw.Draw(image).rectangle((left, 0, left + 8, MOTION_SIZE[1]), fill="white")
            container.mux(stream.encode(av.VideoFrame.from_image(image)))  # type: ignore[no-untyped-call]
        container.mux(stream.encode())


def _drawing(number: int, size: tuple[int, int], *, edited: bool = False) -> Image.Image:
    # Steps of the golden ratio put the hues of neighbours far apart.
    red, green, blue = colorsys.hsv_to_rgb(number * 0.618034 % 1.0, 0.65, 0.8)
    image = Image.new("RGB", size, (round(255 * red), round(255 * green), round(255 * blue)))
    middle = (size[0] // 2, size[1] // 2)
    font = ImageFont.load_default(size[1] // 2)
    ImageDraw.Draw(image).text(middle, str(number), fill="white", anchor="mm", font=font)
    return image.convert("L").convert("RGB") if edited else image
