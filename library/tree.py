"""Walking a folder tree: one ``scandir`` a folder, nothing followed. What the finds mean is decided elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from library.media_types import is_left_out, is_placeholder, media_kind
from library.paths import to_text


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of the tree. ``path`` is relative to the root and empty for the root itself."""

    path: bytes
    modified_ns: int
    is_mount: bool  # another file system begins here
    files: list[os.DirEntry[bytes]] = field(default_factory=list)  # regular media files
    links: list[bytes] = field(default_factory=list)  # names of links that lead to something the tree does not list
    placeholders: list[bytes] = field(default_factory=list)  # names of photos that a cloud drive keeps elsewhere
    problem: str | None = None  # why the folder could not be read; its content is unknown


def join(folder: bytes, name: bytes) -> bytes:
    """A relative path below the root; ``folder`` is empty for the root."""
    return folder + b"/" + name if folder else name


def walk(root: bytes) -> Iterator[Folder]:
    """Every folder below ``root`` (an absolute real path), the root first; hidden and system ones are left out.

    Symbolic links are never followed, so a loop cannot occur and nothing outside the root is reached. A link whose
    target the tree lists anyway (or never would) is passed over; the others are named in ``links``.
    """
    waiting: list[tuple[bytes, int | None]] = [(b"", None)]
    while waiting:
        path, parent_device = waiting.pop()
        absolute = root + b"/" + path if path else root
        try:
            status = os.lstat(absolute)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(20, "Not a directory")
            os.stat(absolute + b"/.")  # noqa: PTH116  (a folder that shows names and hides what is behind them)
            folder = Folder(path, status.st_mtime_ns, parent_device not in (None, status.st_dev))
            subfolders = _read(root, absolute, folder)
        except OSError as error:
            yield Folder(path, 0, is_mount=False, problem=error.strerror or type(error).__name__)
            continue
        waiting.extend((join(path, name), status.st_dev) for name in sorted(subfolders, reverse=True))
        yield folder


def _read(root: bytes, absolute: bytes, folder: Folder) -> list[bytes]:
    """Sort one folder's entries into ``folder``; returns the names of its sub-folders."""
    subfolders = []
    with os.scandir(absolute) as entries:
        for entry in entries:
            name = entry.name
            if is_left_out(name):
                if is_placeholder(name):
                    folder.placeholders.append(name)
            elif entry.is_dir(follow_symlinks=False):
                subfolders.append(name)
            elif entry.is_symlink():
                if _leads_elsewhere(root, entry):
                    folder.links.append(name)
            elif media_kind(name) is not None and entry.is_file(follow_symlinks=False):
                folder.files.append(entry)
    return subfolders


def _leads_elsewhere(root: bytes, entry: os.DirEntry[bytes]) -> bool:
    """Whether a link stands for photos that the tree does not list: a folder, or a file named like a photo, that is
    outside the root or in a part of it that is left out. A target that is missing (a disk that is away) counts."""
    target = os.path.realpath(entry.path)
    try:
        is_folder = entry.is_dir()
    except OSError:
        is_folder = False
    if not is_folder and media_kind(entry.name) is None:
        # A missing target with no photo's name may have been a folder on a disk that is away.
        return not os.path.lexists(target) and not _is_listed(root, target)
    return not _is_listed(root, target) or (not is_folder and media_kind(target) is None)


def _is_listed(root: bytes, target: bytes) -> bool:
    if target == root:
        return True
    return target.startswith(root.rstrip(b"/") + b"/") and not any(
        is_left_out(part) for part in target[len(root) :].split(b"/") if part
    )


def changed_folders(root: bytes, seen: dict[bytes, int]) -> list[str]:
    """Which of the folders (relative path to modification time) changed since they were read.

    A photo that moves from a folder not read yet into one already read would be missed by a walk; this notices.
    """
    changed = []
    for path, modified_ns in seen.items():
        try:
            now = os.lstat(root + b"/" + path).st_mtime_ns
        except OSError:
            now = -1
        if now != modified_ns:
            changed.append(to_text(path) or ".")
    return changed
