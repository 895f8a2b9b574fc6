"""How each kind of library is registered: what a person names, and the configuration that comes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError

if TYPE_CHECKING:
    from state.libraries import Registered

FOLDER, APPLE, ANDROID = "folder", "apple_photos", "android"
ONLY_PHONE = "only"
_HOME = (
    "This is your home folder: every picture in it counts as a photo of yours, also what programs keep there. "
    "If your photos are in a folder of their own, remove this library and add that one."
)


@dataclass(frozen=True, slots=True)
class Registration:
    """What `library add` stores: ``config`` is JSON for the kind; ``told`` are sentences for the person."""

    kind: str
    name: str
    place: str
    config: str
    told: tuple[str, ...]


def registration(place: Path | None, phone: str | None, known: Sequence[Registered]) -> Registration:
    """The registration of a folder, of a Photos library (a path that ends in .photoslibrary), or of a phone.

    Raises UsageError when none or both are named, LibraryRefused for what cannot be one.
    """
    if (place is None) == (phone is None):
        raise UsageError("Name one place to register.", "A FOLDER, a .photoslibrary, or --phone SERIAL.")
    if phone is not None:
        return _phone(phone)
    assert place is not None
    if place.name.lower().removesuffix("/").endswith(".photoslibrary"):
        return _apple(place, known)
    return _folder(place, known)


def place_of(text: str | None) -> Path | None:
    """The place that a person named. Raises UsageError for an empty name, which would be the current folder."""
    if text is not None and not text.strip():
        raise UsageError("The folder's name is empty.", "Name the folder that holds the photos; . is the current one.")
    return None if text is None else Path(text)


def left_behind(library: Registered) -> tuple[str, ...]:
    """What stays in a library's place when it is removed, as sentences."""
    from library.identity import MARKER_NAME
    from library.paths import to_bytes

    config = _config(library)
    if library.kind != FOLDER or not config.get("marker"):
        return ()
    marker = Path(os.fsdecode(to_bytes(config["root"]))) / MARKER_NAME.decode()
    if not marker.exists():
        return ()
    return (
        f"The marker file {marker} stays: another account here may know the folder by it. If none does, delete it.",
    )


def renewed(library: Registered) -> str:
    """The configuration of a folder as it is now. Raises UsageError for another kind, LibraryRefused."""
    from library.identity import load_folder_config, renew_folder

    if library.kind != FOLDER:
        raise UsageError("Only a folder can be renewed.", "Remove the library and add it again.")
    return json.dumps(renew_folder(load_folder_config(json.loads(library.config), library.label)))


def _folder(place: Path, known: Sequence[Registered]) -> Registration:
    from library.identity import MARKER_NAME, load_folder_config, register_folder
    from library.paths import to_text

    folders = {row.label: load_folder_config(_config(row), row.label) for row in known if row.kind == FOLDER}
    root = to_text(os.fsencode(os.path.realpath(place)))
    for label, other in folders.items():
        if other["root"] == root:
            raise UsageError(f"{root} is registered already, as “{label}”.", "There is nothing to do.")
    config = register_folder(place, folders.values())
    if config["marker"] is None:
        told = "No marker could be written there, so the folder is known by its place on the disk alone."
    else:
        told = (
            f"The hidden file {MARKER_NAME.decode()} in it tells this folder from an empty mount point. "
            "Leave it there; without it every run aborts."
        )
    name = to_text(os.fsencode(place.resolve().name))
    lines = (told, _HOME) if _is_home(place) else (told,)
    return Registration(FOLDER, name, config["root"], json.dumps(config), lines)


def _is_home(place: Path) -> bool:
    try:
        return place.resolve() == Path.home().resolve()
    except (OSError, RuntimeError):
        return False  # nobody's home is known here


def _apple(place: Path, known: Sequence[Registered]) -> Registration:
    from library.apple_photos import ApplePhotosConfig, register_apple_photos
    from library.paths import to_text

    others = [
        ApplePhotosConfig(path=config["path"], store=config["store"])
        for config in (_config(row) for row in known if row.kind == APPLE)
    ]
    config = register_apple_photos(place, others)
    told = "Nothing is written into it. Photos in Recently Deleted do not count as deleted until they leave it."
    name = to_text(os.fsencode(place.resolve().stem))
    return Registration(APPLE, name, config["path"], json.dumps(config), (told,))


def _phone(serial: str) -> Registration:
    from library.android_adb import register_android

    config = register_android(None if serial == ONLY_PHONE else serial)
    told = "The phone must be connected, with USB debugging allowed, whenever a run is to conclude anything."
    return Registration(ANDROID, f"phone {config['serial']}", config["serial"], json.dumps(config), (told,))


def _config(row: Registered) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(row.config)
    return config
