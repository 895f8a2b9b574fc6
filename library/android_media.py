"""What a phone's media index holds: its identity, its storage, its rows. Reads through adb, and changes nothing.

How the rows become a library lives in ``library.android_adb``; how they are printed, in ``library.android_rows``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from library import android_link as link
from library import android_rows as rows
from library.android_link import Phone
from library.media_types import lies_in_trash

PRIMARY = "external_primary"

# media_type is 1 for images and 3 for videos. A .nomedia file turns it into 0 for a whole folder, while the photos stay
# where they are: hidden from the gallery is not deleted, so these are asked for by what they are.
_MEDIA = "media_type IN (1,3) OR mime_type LIKE 'image/%' OR mime_type LIKE 'video/%'"
_NUMBERS = (
    *("_id", "_size", "date_modified", "generation_added", "generation_modified"),
    *("media_type", "is_trashed", "is_pending", "bucket_id"),
)


@dataclass(frozen=True, slots=True)
class Index:
    """Which media index of which phone. ``database`` is its random id: a rebuilt one has another, and new row ids.

    ``version`` is that and the number of its layout; ``generation`` grows with every change of a row.
    """

    version: str
    generation: int

    @property
    def database(self) -> str:
        return self.version.partition(":")[2] or self.version


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the index. ``size`` (bytes) and ``modified`` (seconds since 1970) are None where it is unsure.

    ``trashed``: flagged so, or in the trash folder that galleries without the platform's trash have of their own.
    """

    volume: str
    number: int
    path: bytes
    size: int | None
    modified: int | None
    bucket: int | None
    added: int  # generations: of its first appearance, and of its last change
    changed: int
    shown: bool  # False: a .nomedia file, or a hidden folder, keeps it out of the gallery
    trashed: bool
    pending: bool


def hardware(phone: Phone) -> str:
    """What tells this phone from any other. Raises OSError."""
    return link.shell(phone, "getprop ro.serialno").decode("ascii", "replace").strip()


def index(phone: Phone) -> Index:
    """The media index as it is now. Raises OSError, Unreadable."""
    version = rows.result(link.shell(phone, rows.call("get_version", PRIMARY)), "android.intent.extra.TEXT")
    if version is None:
        raise rows.Unreadable("the phone does not tell the version of its media index; Android 11 or later is needed")
    try:
        called = link.shell(phone, rows.call("get_generation", PRIMARY))
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        called = b""
    generation = rows.result(called, "android.intent.extra.INDEX")
    if generation is not None and generation.isdigit():
        return Index(version, int(generation))
    newest = link.shell(phone, rows.query(_uri(PRIMARY), ["MAX(generation_modified)"], "_id>0"))
    return Index(version, rows.single(newest))


def mounted(phone: Phone) -> frozenset[str]:
    """The volumes that are there now, by the media index's names for them. Raises OSError, Unreadable."""
    states = rows.volumes(link.shell(phone, "sm list-volumes all"))
    return frozenset(name for name, state in states.items() if state.startswith("mounted"))


def items(phone: Phone, volume: str) -> list[Item]:
    """Every image and video of a volume, pending and trashed ones included. Raises OSError; Unreadable when the answers
    do not agree, be it because one was cut off or because the phone is in use. One shell command, however many."""
    uri = _uri(volume)
    count, numbers, texts = link.answers(
        phone,
        [
            rows.query(uri, ["COUNT(_id)"], _MEDIA),
            rows.query(uri, _NUMBERS, _MEDIA, "_id"),
            rows.query(uri, ["_id", "_data"], _MEDIA, "_id"),
        ],
    )
    counted, known = rows.single(count), rows.numbers(numbers, _NUMBERS)
    if len(known) != counted:
        raise rows.Unreadable(f"the phone's media index counts {counted} photos and videos, and shows {len(known)}")
    paths = rows.texts(texts, [_number(row[0]) for row in known], "_data")
    return [_item(volume, row, path) for row, path in zip(known, paths, strict=True)]


def numbers_where(phone: Phone, volume: str, condition: str) -> frozenset[int]:
    """The numbers of the rows that meet a condition. Raises OSError, Unreadable."""
    command = rows.query(_uri(volume), ["_id"], condition, "_id")
    return frozenset(_number(row[0]) for row in rows.numbers(link.shell(phone, command), ["_id"]))


def buckets(phone: Phone, volume: str) -> dict[int, str]:
    """The folders that hold images and videos: their ids and names. Raises OSError, Unreadable."""
    uri, columns, column = _uri(volume), ["_id", "bucket_id"], "bucket_display_name"
    numbers, texts = link.answers(
        phone, [rows.query(uri, columns, _MEDIA, "_id"), rows.query(uri, ["_id", column], _MEDIA, "_id")]
    )
    known = rows.numbers(numbers, columns)
    names = rows.texts(texts, [_number(row[0]) for row in known], column)
    return {row[1]: _title(name) for row, name in zip(known, names, strict=True) if row[1] is not None}


def _uri(volume: str) -> str:
    return f"content://media/{volume}/file"


def _item(volume: str, row: Sequence[int | None], path: bytes) -> Item:
    number, size, modified, added, changed, media_type, trashed, pending, bucket = row
    return Item(
        volume=volume,
        number=_number(number),
        path=b"" if path == b"NULL" else path,
        size=size,
        modified=modified,
        bucket=bucket,
        added=added or 0,
        changed=changed or 0,
        shown=media_type in (1, 3),
        trashed=bool(trashed) or lies_in_trash(path),
        pending=bool(pending),
    )


def _number(value: int | None) -> int:
    if value is None:
        raise rows.Unreadable("a row of the phone's media index has no number")
    return value


def _title(name: bytes) -> str:
    return name.decode("utf-8", "replace")
