"""What makes a folder the folder that was registered: its marker or its file system, its mounts and its links.

Registration writes it down; nothing here lists photos.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from library.errors import LibraryError, LibraryRefused
from library.paths import to_bytes, to_text
from library.tree import join, walk

MARKER_NAME = b".deletion-sync-library"
_MARKER_PREFIX = "deletion-sync library "


class FolderConfig(TypedDict):
    """What is remembered of a registered folder, ready for JSON. Paths are in the form of ``library.paths``."""

    root: str  # absolute, links resolved
    marker: str | None  # the random id in the marker file; null where the folder cannot be written to
    inode: int
    filesystem: str
    mounts: list[str]  # relative folders where another file system was mounted
    links: list[str]  # relative links that lead to something the tree does not list
    generation: int  # grows with every renewal, so that change tokens of before expire


def register_folder(path: str | bytes | Path, others: Iterable[FolderConfig] = ()) -> FolderConfig:
    """Look at a folder and write its marker where it may. Raises LibraryRefused, before anything is written, for a
    path that is no readable folder or is the same as, inside, or around one of ``others``."""
    root = os.path.realpath(os.fsencode(path))
    shown = to_text(root)
    try:
        status = os.stat(root)  # noqa: PTH116  (pathlib knows no bytes)
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            os.scandir(root).close()
    except OSError as error:
        raise LibraryRefused(f"{shown} cannot be read: {error.strerror}.", "Name a folder that exists.") from None
    if not is_folder:
        raise LibraryRefused(f"{shown} is not a folder.", "Name the folder that holds the photos.")
    config = FolderConfig(
        root=shown,
        marker=None,
        inode=status.st_ino,
        filesystem=filesystem_of(root),
        mounts=[],
        links=[],
        generation=1,
    )
    other = overlaps(config, others)
    if other is not None:
        raise LibraryRefused(
            f"{shown} overlaps the registered library {other['root']}.",
            "A photo may belong to one library only: register the outer folder alone.",
        )
    for folder in walk(root):
        if folder.is_mount:
            config["mounts"].append(to_text(folder.path))
        config["links"].extend(to_text(join(folder.path, name)) for name in folder.links)
    config["marker"] = _write_marker(root)
    return config


def renew_folder(config: FolderConfig) -> FolderConfig:
    """Register the same root again: its present marker, mounts and links become the expected ones, and change tokens
    of before expire. Raises LibraryRefused as ``register_folder`` does."""
    renewed = register_folder(to_bytes(config["root"]))
    renewed["generation"] = config["generation"] + 1
    return renewed


def overlaps(config: FolderConfig, others: Iterable[FolderConfig]) -> FolderConfig | None:
    """The first of ``others`` whose root is the same as, inside, or around that of ``config``; None: none is.

    Compared by path and, for roots that exist, by device and inode, so that a second mount of a folder counts as it.
    """
    root = to_bytes(config["root"])
    for other in others:
        other_root = to_bytes(other["root"])
        if _is_in(root, other_root) or _is_in(other_root, root):
            return other
    return None


def _is_in(inner: bytes, outer: bytes) -> bool:
    if inner == outer or inner.startswith(outer.rstrip(b"/") + b"/"):
        return True
    outer_key = _key(outer)
    while outer_key is not None:
        if _key(inner) == outer_key:
            return True
        parent = os.path.dirname(inner)  # noqa: PTH120  (pathlib knows no bytes)
        if parent == inner:
            return False
        inner = parent
    return False


def _key(path: bytes) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def load_folder_config(payload: Mapping[str, Any], label: str) -> FolderConfig:
    """A stored configuration, checked. Raises LibraryError for one that is damaged."""
    try:
        config = FolderConfig(
            root=str(payload["root"]),
            marker=None if payload["marker"] is None else str(payload["marker"]),
            inode=int(payload["inode"]),
            filesystem=str(payload["filesystem"]),
            mounts=[str(path) for path in payload["mounts"]],
            links=[str(path) for path in payload["links"]],
            generation=int(payload["generation"]),
        )
    except (KeyError, TypeError, ValueError):
        config = None
    if config is None or not os.path.isabs(to_bytes(config["root"])):  # noqa: PTH117  (pathlib knows no bytes)
        raise LibraryError(
            f"What is remembered of the library {label!r} is damaged.", "Remove the library and register it again."
        ) from None
    return config


def root_problem(config: FolderConfig) -> str | None:
    """Why the root is not the folder that was registered; None: it is (spec, Permission guard)."""
    shown = config["root"]
    root = to_bytes(shown)
    try:
        status = os.lstat(root)
    except OSError as error:
        return f"{shown} cannot be read: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{shown} is not a folder any more"
    if config["marker"] is not None:
        return _marker_problem(root, shown, config["marker"])
    # Without a marker the folder is known by its place: the inode of a mount point differs from that of the folder
    # under it. With one, it may have moved to another disk: what the marker came with is what is listed.
    if status.st_ino != config["inode"] or filesystem_of(root) != config["filesystem"]:
        return f"{shown} is another folder, or on another file system, than the one that was registered"
    return None


def mount_problems(config: FolderConfig) -> list[str]:
    """The recorded mount points below the root where nothing is mounted now."""
    root = to_bytes(config["root"])
    problems = []
    for mount in config["mounts"]:
        path = join(root, to_bytes(mount))
        try:
            mounted = os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev  # noqa: PTH120
        except OSError:
            mounted = False
        if not mounted:
            problems.append(f"{to_text(path)}: nothing is mounted here, and something was")
    return problems


def filesystem_of(path: bytes) -> str:
    """The id and, where it is cheap to tell, the type of the file system that holds ``path``."""
    device = os.stat(path).st_dev  # noqa: PTH116  (pathlib knows no bytes)
    number = f"{os.major(device)}:{os.minor(device)}"
    kind = ""
    try:
        with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == number and " - " in line:
                    kind = line.partition(" - ")[2].split()[0]
                    break
    except OSError:
        pass  # not Linux: the id has to do
    return f"{os.statvfs(path).f_fsid:x}/{kind}"


def _marker_problem(root: bytes, shown: str, expected: str) -> str | None:
    try:
        found = _read_marker(root)
    except FileNotFoundError:
        return f"{shown} has lost its marker file {MARKER_NAME.decode()}: a disk may not be mounted"
    except OSError as error:
        return f"the marker file of {shown} cannot be read: {error.strerror}"
    if found != expected:
        return f"{shown} has the marker file of another library"
    return None


def _read_marker(root: bytes) -> str | None:
    descriptor = os.open(join(root, MARKER_NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, 200).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    return text.removeprefix(_MARKER_PREFIX) if text.startswith(_MARKER_PREFIX) else None


def _write_marker(root: bytes) -> str | None:
    """The id of the root's marker, written now where there is none; None where the folder cannot be written to."""
    try:
        found = _read_marker(root)
    except OSError:
        found = None
    if found:
        return found
    marker = secrets.token_hex(16)
    path = join(root, MARKER_NAME)
    unfinished = path + b".new"
    try:
        with open(unfinished, "w", encoding="ascii") as file:  # noqa: PTH123  (pathlib knows no bytes)
            file.write(f"{_MARKER_PREFIX}{marker}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)  # noqa: PTH108
        return None
    return marker
