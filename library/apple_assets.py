"""What a Photos library holds, as osxphotos reads it: which file is which part of which asset.

The private copy of the database comes from ``library.apple_database``; no file is opened here.
"""

from __future__ import annotations

import gc
import importlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from library.apple_database import State, assets_of_others, private_copy, read_state
from library.errors import LibraryUnavailable

_INSTALL = "Install it with `pip install 'deletion-sync[apple]'`."

# What osxphotos warns of when it concerns labels, camera settings or the macOS that it runs on. Any other warning may
# mean that photos are misread, so it makes the listing incomplete.
_HARMLESS = ("could not find search db", "Error reading photo labels", "duplicate exifinfo record")
_HARMLESS_START = "WARNING: This module has only been tested with macOS"

_reading = threading.Lock()  # a reading borrows the logger of osxphotos


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an asset. ``path`` is None where the file is not on this computer."""

    name: str
    file_name: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Asset:
    """A photo or video of the library's owner. ``albums`` are ids."""

    local_id: str
    parts: tuple[Part, ...]
    albums: tuple[str, ...]
    recently_deleted: bool


@dataclass(frozen=True, slots=True)
class Holdings:
    """All that a library holds at one moment. ``problems`` not empty: it was not read whole.

    ``withheld``: ids of what belongs to others too (library.protocol.Enumeration). ``albums``: id to title.
    ``paths``: local id and part to file.
    """

    state: State
    assets: tuple[Asset, ...]
    withheld: frozenset[str]
    albums: dict[str, str]
    paths: dict[tuple[str, str], str | None]
    problems: tuple[str, ...]


def require_osxphotos() -> Any:
    """The module. Raises LibraryUnavailable where it is not installed."""
    try:
        return importlib.import_module("osxphotos")
    except ImportError:
        raise LibraryUnavailable(
            "Reading Photos libraries needs osxphotos, which is not installed.", _INSTALL
        ) from None


def read_holdings(bundle: Path) -> Holdings:
    """What the bundle's database names and where the files are now. Raises LibraryUnavailable."""
    osxphotos = require_osxphotos()
    with private_copy(bundle) as copy, _quiet() as complaints:
        state = read_state(copy, bundle)
        try:
            return _read(osxphotos, copy, bundle, state, complaints)
        except Exception as error:  # a schema that osxphotos does not know fails in any way there is
            reason = repr(error)
        gc.collect()  # what the failed reading left half-made has a folder of its own, which goes with it
    raise LibraryUnavailable(
        f"osxphotos {osxphotos.__version__} cannot read {bundle} (version {state.model}): {reason}.",
        "Upgrade osxphotos; the library may be from a newer Photos than it knows.",
    )


def _read(osxphotos: Any, copy: Path, bundle: Path, state: State, complaints: list[str]) -> Holdings:
    # Search terms are of no use here and would be read from the bundle itself.
    database = osxphotos.PhotosDB(dbfile=str(copy), library_path=str(bundle), _skip_searchinfo=True)
    try:
        others = assets_of_others(copy)
        albums = {album.uuid: album.title or "" for album in database.album_info}
        photos = database.photos_by_uuid(sorted(others))  # the others leave burst frames or the trash out
        withheld = frozenset(photo.uuid for photo in photos if others[photo.uuid] or _is_shared(photo))
        assets = tuple(_asset(photo, albums) for photo in photos if photo.uuid not in withheld)
        problems = [f"{bundle}: {complaint}" for complaint in complaints]
        unread = others.keys() - {photo.uuid for photo in photos}
        if unread:
            problems.append(f"{bundle}: {len(unread)} of its assets cannot be read, {min(unread)} among them")
        paths = {(asset.local_id, part.name): part.path for asset in assets for part in asset.parts}
        return Holdings(state, assets, withheld, albums, paths, tuple(problems))
    finally:
        database._tempdir.cleanup()  # it would complain about being left to the garbage collector


def _is_shared(photo: Any) -> bool:
    """Shared albums, the shared library, and what others sent and was not saved."""
    return bool(photo.shared or photo.shared_library or (photo.syndicated and not photo.saved_to_library))


def _asset(photo: Any, albums: dict[str, str]) -> Asset:
    return Asset(
        local_id=photo.uuid,
        parts=tuple(_parts(photo)),
        albums=tuple(sorted(album.uuid for album in photo.album_info if album.uuid in albums)),
        recently_deleted=bool(photo.intrash),
    )


def _parts(photo: Any) -> Iterator[Part]:
    """What the library shows is 'primary' (and 'motion'); what an edit replaced is still there, so it is listed too.

    An edited asset whose edited file is not here has a primary part without a path: its bytes are not known, and
    those of the original would be the wrong ones.
    """
    name = str(photo.original_filename or photo.filename)
    if photo.hasadjustments:
        yield Part("primary", _typed(name, photo.path_edited), photo.path_edited)
        yield Part("original", name, photo.path)
    else:
        yield Part("primary", name, photo.path)
    if photo.live_photo:
        video = None if photo.path_live_photo is None else str(photo.path_live_photo)
        edited = photo.path_edited_live_photo if photo.hasadjustments else None
        yield Part("motion", _typed(name, edited or video, ".mov"), edited or video)
        if edited:
            yield Part("original_motion", _typed(name, video, ".mov"), video)
    if photo.has_raw:
        yield Part("raw", _typed(name, photo.path_raw), photo.path_raw)


def _typed(name: str, path: str | None, suffix: str = "") -> str:
    """The name that the user knows, with the type of the file, or with ``suffix`` where there is no file."""
    suffix = suffix if path is None else PurePath(path).suffix
    return name if suffix.lower() in ("", PurePath(name).suffix.lower()) else PurePath(name).stem + suffix


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Collect what osxphotos warns of, instead of letting it reach the screen with names and paths."""
    complaints: list[str] = []
    handler = logging.Handler(logging.WARNING)

    def emit(record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not text.startswith(_HARMLESS_START) and not any(known in text for known in _HARMLESS):
            complaints.append(text)

    handler.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger("osxphotos")
    with _reading, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # connections that it leaves to the garbage collector
        before = logger.handlers, logger.propagate  # it brings a handler of its own, which prints
        logger.handlers, logger.propagate = [handler], False
        try:
            yield complaints
        finally:
            logger.handlers, logger.propagate = before
