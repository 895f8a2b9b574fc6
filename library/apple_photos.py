"""An Apple Photos library (a ``.photoslibrary`` bundle) as a local library; on macOS, or a copy of it anywhere.

Reading its database lives in ``library.apple_database`` and ``library.apple_assets``.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, cast

import pyarrow as pa

from library.apple_assets import Holdings, read_holdings, require_osxphotos
from library.apple_database import State, bundle_problem, state_of
from library.changes import difference, with_withheld
from library.errors import LibraryRefused, LibraryUnavailable
from library.paths import to_bytes, to_text
from library.protocol import ENUMERATED, Access, Changes, Enumeration, Stamp

NOT_HERE = "It is in iCloud and not on this computer; let Photos download the originals"


class ApplePhotosConfig(TypedDict):
    """What is remembered of a registered Photos library, ready for JSON."""

    path: str  # absolute, links resolved, in the form of ``library.paths``
    store: str  # the id that Photos gave the database when it made it


@dataclass(frozen=True, slots=True)
class ApplePhotosLibrary:
    """A registered Photos library (spec, What the service does, items 5 and 6; Edit handling).

    - local id: the asset's UUID. Every burst frame and hidden photo is an asset like any other.
    - parts: 'primary' is what Photos shows, the edited version of an edited photo; beside it 'original' holds what the
      edit replaced, because the server may have either. 'motion' and 'original_motion' are the same for the video of
      a Live Photo, 'raw' is the other file of a RAW and JPEG pair.
    - albums: the user's own, by UUID; no folders, no shared albums.
    - a file that is only in iCloud is a row without size and time; opening it is an OSError.
    """

    library_id: str
    label: str
    config: ApplePhotosConfig = field(repr=False)
    kind: str = "apple_photos"
    has_change_log: bool = True
    pairs_by_content: bool = False
    _read: list[Holdings] = field(default_factory=list, init=False, repr=False, compare=False)  # none, or the latest
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def access(self) -> Access:
        """'limited' when the bundle, its database or its originals are missing or cannot be read, when osxphotos is
        not installed, or when it is another library than the registered one (spec, Permission guard)."""
        problem = bundle_problem(self._bundle)
        if problem is not None:
            return Access("limited", (problem,))
        try:
            require_osxphotos()
            self._require_same(state_of(self._bundle))
        except LibraryUnavailable as error:
            return Access("limited", (error.what.rstrip("."),))
        return Access("full")

    def change_token(self) -> str:
        """The id of the database and the newest keys that it gave out, as JSON. Raises LibraryUnavailable."""
        self._require_bundle()
        return _token(state_of(self._bundle))

    def changes_since(self, token: str, known: pa.Table, now: pa.Table) -> Changes:
        """The difference of two listings. What the library withholds from one (``Enumeration.withheld``) is withheld.

        Expired when the token is of another database, or of a later state of this one: an older copy came back, and
        what it lacks was not deleted. Raises LibraryUnavailable.
        """
        holdings = self._latest()
        if not _precedes(token, holdings.state):
            return Changes(expired=True)
        return Changes(expired=False, table=with_withheld(difference(known, now), holdings.withheld))

    def enumerate(self) -> Enumeration:
        """Every asset of the library's owner, Recently Deleted included; what others share is never listed.

        Raises LibraryUnavailable when the bundle is gone, is another library, or its database cannot be read whole.
        ``problems`` says what osxphotos could not make out.
        """
        self._require_bundle()
        holdings = read_holdings(self._bundle)
        self._require_same(holdings.state)
        table = _table(self.library_id, holdings)
        self._require_bundle()  # a disk that went away meanwhile makes every file look as if it were in iCloud
        with self._lock:
            self._read[:] = [holdings]
        return Enumeration(
            table,
            _token(holdings.state),
            holdings.problems,
            withheld=holdings.withheld,
        )

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """An unbuffered stream of the file. Raises OSError; one that is not here says so."""
        descriptor = os.open(self._path(local_id, part), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "It is not a regular file", local_id)
        return cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))

    def path_of(self, local_id: str, part: str) -> bytes | None:
        """The absolute path of the file, for whoever opens it by itself; None for a link, which is for ``open_bytes``
        to follow. Raises OSError where it is not here."""
        path = self._path(local_id, part)
        return None if os.path.islink(path) else os.fsencode(path)  # noqa: PTH114

    def stamp(self, local_id: str, part: str) -> Stamp:
        """Size, modification time and identity of the file now. Raises OSError where it is not here."""
        status = os.stat(self._path(local_id, part))  # noqa: PTH116
        return Stamp(status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}")

    def albums(self) -> dict[str, str]:
        """Album UUID to title. Raises LibraryUnavailable."""
        return dict(self._latest().albums)

    @property
    def _bundle(self) -> Path:
        return Path(os.fsdecode(to_bytes(self.config["path"])))

    def _require_bundle(self) -> None:
        problem = bundle_problem(self._bundle)
        if problem is not None:
            raise LibraryUnavailable(
                f"The library {self.label!r} is not available: {problem}.",
                "Connect or mount it, or remove the library and register it again.",
            )

    def _require_same(self, state: State) -> None:
        if state.store != self.config["store"]:
            raise LibraryUnavailable(
                f"{self._bundle} is another Photos library than the one that was registered as {self.label!r}.",
                "Put the registered one back, or remove the library and register it again.",
            )

    def _latest(self) -> Holdings:
        """What the last listing read; without one, what there is now."""
        with self._lock:
            if not self._read:
                self._require_bundle()
                holdings = read_holdings(self._bundle)
                self._require_same(holdings.state)
                self._read.append(holdings)
            return self._read[0]

    def _path(self, local_id: str, part: str) -> str:
        try:
            holdings = self._latest()
        except LibraryUnavailable as error:
            raise OSError(errno.EIO, error.what, local_id) from None
        path = holdings.paths.get((local_id, part), "")
        if path == "":
            raise FileNotFoundError(errno.ENOENT, "The library has no such part any more", local_id)
        if path is None:
            raise OSError(errno.EIO, NOT_HERE, local_id)
        return path


def register_apple_photos(path: str | bytes | Path, others: Iterable[ApplePhotosConfig] = ()) -> ApplePhotosConfig:
    """The configuration of a Photos library; nothing is written into it.

    Raises LibraryRefused for what is no Photos library, cannot be read, or is one of ``others`` already.
    """
    bundle = os.path.realpath(os.fsencode(path))
    place = Path(os.fsdecode(bundle))
    problem = bundle_problem(place)
    if problem is not None:
        raise LibraryRefused(f"{problem}.", "Name a library of Photos, a folder that ends in .photoslibrary.")
    for other in others:
        if _is_same_place(bundle, to_bytes(other["path"])):
            raise LibraryRefused(f"{place} is registered already.", "One registration is enough.")
    try:
        require_osxphotos()
        state = state_of(place)
    except LibraryUnavailable as error:
        raise LibraryRefused(error.what, error.next_step) from None
    return ApplePhotosConfig(path=to_text(bundle), store=state.store)


def _is_same_place(one: bytes, other: bytes) -> bool:
    try:
        return one == other or os.path.samefile(one, other)  # noqa: PTH121  (pathlib knows no bytes)
    except OSError:
        return False


def _token(state: State) -> str:
    return json.dumps({"store": state.store, "newest": state.newest}, sort_keys=True)


def _precedes(token: str, state: State) -> bool:
    """Whether the token is of this database, and not from its future."""
    try:
        read: Any = json.loads(token)
        return bool(
            read["store"] == state.store
            and all(int(key) <= state.newest.get(name, -1) for name, key in read["newest"].items())
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _table(library_id: str, holdings: Holdings) -> pa.Table:
    """ENUMERATED rows, ordered by local id. A file that is not here has neither size nor time."""
    columns: dict[str, list[Any]] = {name: [] for name in ENUMERATED.names}
    for asset in holdings.assets:
        for part in asset.parts:
            stamp = _stamp(part.path)
            values = (
                library_id,
                asset.local_id,
                part.name,
                part.file_name,
                *stamp,
                list(asset.albums),
                None,
                asset.recently_deleted,
            )
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    table = pa.table(columns, schema=ENUMERATED)
    return table.sort_by([("local_id", "ascending"), ("part", "ascending")])


def _stamp(path: str | None) -> tuple[int | None, int | None, str | None]:
    if path is None:
        return None, None, None
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None, None, None  # it went away after the database was read; hashing says so
    return status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}"
