"""An Android phone behind adb as a local library: what its media index lists, and the bytes of it.

How the index is asked lives in ``library.android_media``. A Motion Photo is one file and one asset: its moving half is
inside the JPEG, so nothing is paired.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypedDict, cast

import pyarrow as pa

from library import android_link as link
from library import android_media as media
from library.android_link import Phone
from library.android_media import Index, Item
from library.android_rows import Unreadable
from library.changes import difference, with_updated
from library.errors import LibraryError, LibraryRefused, LibraryUnavailable
from library.paths import to_text
from library.protocol import ENUMERATED, Access, Changes, Enumeration, Stamp

_LISTING_ATTEMPTS = 3  # of a phone that takes a photo meanwhile
_TRASHED = re.compile(rb"\A\.trashed-\d+-")  # what the platform puts before the name of a trashed file
_SECOND = 1_000_000_000


class AndroidConfig(TypedDict):
    """What is remembered of a registered phone, ready for JSON."""

    host: str  # of the adb server
    port: int
    serial: str  # by which the adb server knows the phone
    hardware: str  # by which the phone knows itself: a network address can become another phone's
    database: str  # of its media index
    volumes: list[str]


def register_android(serial: str | None, host: str = "127.0.0.1", port: int = 5037) -> AndroidConfig:
    """The configuration of the phone with that serial, or of the only one there is.

    Raises LibraryRefused when it cannot be read now, or when there are several and none was named.
    """
    try:
        phone = Phone(host, port, serial or _only_one(host, port))
        problem = link.state_problem(phone)
        if problem is not None:
            raise LibraryRefused(
                f"The phone {phone.serial} cannot be registered: {problem}.", "Then register it again."
            )
        return AndroidConfig(
            host=host,
            port=port,
            serial=phone.serial,
            hardware=media.hardware(phone),
            database=media.index(phone).database,
            volumes=sorted(media.mounted(phone)),
        )
    except (OSError, Unreadable) as error:
        raise LibraryRefused(f"The phone cannot be registered: {_text(error)}.", "Then register it again.") from None


def load_android_config(payload: Mapping[str, Any], label: str) -> AndroidConfig:
    """A stored configuration, checked. Raises LibraryError for one that is damaged."""
    host, port, serial, hardware, database, volumes = (payload.get(key) for key in AndroidConfig.__annotations__)
    if (
        all(isinstance(text, str) and text for text in (host, serial, hardware, database))
        and isinstance(port, int)
        and isinstance(volumes, list)
        and volumes
    ):
        return AndroidConfig(
            host=str(host),
            port=port,
            serial=str(serial),
            hardware=str(hardware),
            database=str(database),
            volumes=[str(volume) for volume in volumes],
        )
    raise LibraryError(
        f"What is remembered of the library {label!r} is damaged.", "Remove the library and register it again."
    )


@dataclass(frozen=True, slots=True)
class AndroidLibrary:
    """A registered phone (spec, What the service does, item 5).

    - local id: volume, row number and a digest of the media index's id, because numbers begin anew in a rebuilt index.
    - albums: the folder of a file, as the gallery shows it (a bucket).
    - a photo in the phone's trash is listed like any other, and said to be in the trash; a gallery's own trash folder
      counts where the media index knows what is in it. A pending one, which is still being written, is not listed.
    - a photo that a .nomedia file hides is listed: hidden is not deleted. Apps' own folders below Android/ and folders
      whose names begin with a dot are left out unless the gallery shows what is in them.
    - every volume of the registration must be mounted, and no other: photos move between a phone and its card.
    """

    library_id: str
    label: str
    config: AndroidConfig = field(repr=False)
    kind: str = "android"
    has_change_log: bool = True
    pairs_by_content: bool = False
    _items: dict[str, Item] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def access(self) -> Access:
        """'limited' when the phone is not there, not ready, not the one that was registered, or lacks a volume."""
        problem = self._problem()
        return Access("full") if problem is None else Access("limited", (f"{self._place}: {problem}",))

    def change_token(self) -> str:
        """The version and the generation of the media index now, as JSON. Raises LibraryUnavailable."""
        self._require()
        with self._answering():
            return _token(media.index(self._phone))

    def changes_since(self, token: str, known: pa.Table, now: pa.Table) -> Changes:
        """The difference of two listings, and what else the index says has changed since.

        Expired when the version of the index is another one than the token's, or its generation an earlier one: then an
        older copy of the index came back. Raises LibraryUnavailable.
        """
        since = _index_of(token)
        if since is None:
            return Changes(expired=True)
        with self._answering():
            current = media.index(self._phone)
            if current.version != since.version or current.generation < since.generation:
                return Changes(expired=True)
            touched = {
                local_id
                for volume in self.config["volumes"]
                for local_id in self._local_ids(volume, f"generation_modified>{since.generation}")
            }
        return Changes(expired=False, table=with_updated(difference(known, now), touched, known, now))

    def enumerate(self) -> Enumeration:
        """Every image and video. Raises LibraryUnavailable when the phone is not what it was, before or after.

        ``problems`` names what the index is unsure of, and answers of it that do not agree.
        """
        for attempt in range(1, _LISTING_ATTEMPTS + 1):
            self._require()
            disagreements: list[str] = []
            items: list[Item] = []
            with self._answering():
                token = _token(media.index(self._phone))
                for volume in self.config["volumes"]:
                    try:
                        items += media.items(self._phone, volume)
                    except Unreadable as error:
                        disagreements.append(f"{self._place}: {error}")
            self._require()
            if not disagreements or attempt == _LISTING_ATTEMPTS:
                break
        table, doubts = self._listing(items)
        return Enumeration(table, token, (*disagreements, *doubts))

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """The bytes as they come from the phone, once, without seeking. Raises OSError, at the end too: when fewer or
        more arrived than the file has. A file whose size is not what the media index shows is refused."""
        item = self._item(local_id, part)
        found = link.status(self._phone, item.path)
        if found.size != item.size:
            raise OSError(
                errno.ESTALE, f"the phone's media index shows {item.size} bytes, and the file has {found.size}"
            )
        return cast(BinaryIO, link.opened(self._phone, item.path, found.size))

    def stamp(self, local_id: str, part: str) -> Stamp:
        """Size and modification time of the file itself, in the form of a listing. Raises OSError."""
        found = link.status(self._phone, self._item(local_id, part).path)
        return Stamp(found.size, found.modified * _SECOND, local_id)

    def albums(self) -> dict[str, str]:
        """Every bucket: its id to the name of its folder. Raises LibraryUnavailable."""
        self._require()
        found: dict[int, str] = {}
        with self._answering():
            for volume in self.config["volumes"]:
                found |= media.buckets(self._phone, volume)
        return {str(bucket): found[bucket] for bucket in sorted(found)}

    @property
    def _phone(self) -> Phone:
        return Phone(self.config["host"], self.config["port"], self.config["serial"])

    @property
    def _place(self) -> str:
        return f"phone {self.config['serial']}"

    def _problem(self) -> str | None:
        """Why the phone cannot be read whole; None: it can (spec, Permission guard)."""
        try:
            not_ready = link.state_problem(self._phone)
            if not_ready is not None:
                return not_ready
            if media.hardware(self._phone) != self.config["hardware"]:
                return "this is another phone than the one that was registered"
            if media.index(self._phone).database != self.config["database"]:
                return (
                    "its media index was rebuilt, or the phone was reset, so nothing can be told from what it lacks: "
                    "remove the library and register it again"
                )
            present, expected = media.mounted(self._phone), frozenset(self.config["volumes"])
        except (OSError, Unreadable) as error:
            return _text(error)
        if expected - present:
            return f"its storage {', '.join(sorted(expected - present))} is not mounted"
        if present - expected:
            return (
                f"its storage {', '.join(sorted(present - expected))} was not there when it was registered: "
                "take it out, or register the phone again"
            )
        return None

    def _require(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise self._unavailable(problem)

    def _unavailable(self, problem: str) -> LibraryUnavailable:
        return LibraryUnavailable(
            f"The library {self.label!r} is not available: {self._place}: {problem}.",
            "Connect the phone and unlock it, or register it again if this is how it should be.",
        )

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (OSError, Unreadable) as error:
            raise self._unavailable(_text(error)) from None

    def _local_id(self, volume: str, number: int) -> str:
        return f"{volume}:{number}:{_digest(self.config['database'])}"

    def _local_ids(self, volume: str, where: str) -> set[str]:
        return {self._local_id(volume, number) for number in media.numbers_where(self._phone, volume, where)}

    def _listing(self, items: list[Item]) -> tuple[pa.Table, list[str]]:
        """The rows of what is listed (ENUMERATED), and what cannot be relied on."""
        doubts: list[str] = []
        self._items.clear()
        for item in items:
            shown = to_text(item.path) or f"{item.volume}, number {item.number}"
            if item.pending:
                # A new photo that is not finished was never listed; an old one that is pending was, and is not gone.
                if item.changed != item.added:
                    doubts.append(f"{shown}: an app is writing to it")
            elif not item.path or item.size is None or item.modified is None:
                doubts.append(f"{shown}: the phone's media index does not know it completely yet")
            elif item.shown or item.trashed or not _is_private(item.path):
                self._items[self._local_id(item.volume, item.number)] = item
        listed = list(self._items.items())
        columns = {
            "library_id": [self.library_id] * len(listed),
            "local_id": [local_id for local_id, _ in listed],
            "part": ["primary"] * len(listed),
            "file_name": [_name(item.path) for _, item in listed],
            "size": [item.size for _, item in listed],
            "modified_ns": [(item.modified or 0) * _SECOND for _, item in listed],
            "file_identity": [local_id for local_id, _ in listed],
            "albums": [[] if item.bucket is None else [str(item.bucket)] for _, item in listed],
            "checksum": [None] * len(listed),
            "in_trash": [item.trashed for _, item in listed],
        }
        return pa.table(columns, schema=ENUMERATED), doubts

    def _item(self, local_id: str, part: str) -> Item:
        """The row of a photo as it was listed; whoever opens the library anew lists it once. Raises OSError."""
        with self._lock:
            if not self._items:
                try:
                    for volume in self.config["volumes"]:
                        items = media.items(self._phone, volume)
                        self._items.update((self._local_id(volume, item.number), item) for item in items if item.path)
                except Unreadable as error:
                    self._items.clear()
                    raise OSError(errno.EIO, str(error)) from None
        if part != "primary" or local_id not in self._items:
            raise FileNotFoundError(errno.ENOENT, "The phone has no such photo", local_id)
        return self._items[local_id]


def _only_one(host: str, port: int) -> str:
    found = link.devices(host, port)
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise LibraryRefused("No phone is connected.", "Connect it with USB debugging allowed, then register it again.")
    raise LibraryRefused(f"Several phones are connected: {', '.join(sorted(found))}.", "Name one by its serial.")


def _token(index: Index) -> str:
    return json.dumps({"version": index.version, "generation": index.generation})


def _index_of(token: str) -> Index | None:
    try:
        read: Any = json.loads(token)
        return Index(str(read["version"]), int(read["generation"]))
    except (ValueError, TypeError, KeyError):
        return None


def _is_private(path: bytes) -> bool:
    """Whether a file that the gallery does not show belongs to an app or the system rather than to the user."""
    folders = path.rpartition(b"/")[0]
    return b"/." in folders or b"/Android/" in folders + b"/"


def _name(path: bytes) -> str:
    return to_text(_TRASHED.sub(b"", path.rpartition(b"/")[2]))


def _digest(database: str) -> str:
    return hashlib.sha256(database.encode()).hexdigest()[:8]


def _text(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
