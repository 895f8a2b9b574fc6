"""The kinds of local library, and how a stored one is opened. A new kind is one module and one line in ``_KINDS``.

How a person registers one is in ``cli.library_kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from library.android_adb import AndroidLibrary, load_android_config
from library.apple_photos import ApplePhotosConfig, ApplePhotosLibrary
from library.checksums_file import ChecksumsFile
from library.errors import LibraryError
from library.folder import FolderLibrary
from library.identity import load_folder_config
from library.protocol import Library


def _folder(library_id: str, label: str, config: Mapping[str, Any]) -> Library:
    return FolderLibrary(library_id, label, load_folder_config(config, label))


def _checksums_file(library_id: str, label: str, config: Mapping[str, Any]) -> Library:
    return ChecksumsFile(library_id, label, Path(str(config["path"])))


def _apple_photos(library_id: str, label: str, config: Mapping[str, Any]) -> Library:
    return ApplePhotosLibrary(
        library_id, label, ApplePhotosConfig(path=str(config["path"]), store=str(config["store"]))
    )


def _android(library_id: str, label: str, config: Mapping[str, Any]) -> Library:
    return AndroidLibrary(library_id, label, load_android_config(config, label))


_KINDS: dict[str, Callable[[str, str, Mapping[str, Any]], Library]] = {
    "folder": _folder,
    "checksums_file": _checksums_file,
    "apple_photos": _apple_photos,
    "android": _android,
}


def kinds() -> tuple[str, ...]:
    """The kinds of library that can be opened."""
    return tuple(_KINDS)


def open_library(library_id: str, kind: str, label: str, config: Mapping[str, Any]) -> Library:
    """The library of a stored row; ``config`` is what its registration gave.

    Reads no photo and not the folder itself. Raises LibraryError for an unknown kind or a damaged configuration.
    """
    if kind not in _KINDS:
        raise LibraryError(
            f"The library {label!r} is of the unknown kind {kind!r}.", f"Known kinds: {', '.join(_KINDS)}."
        )
    try:
        return _KINDS[kind](library_id, label, config)
    except (KeyError, TypeError):
        raise LibraryError(
            f"What is remembered of the library {label!r} is damaged.", "Remove the library and register it again."
        ) from None
