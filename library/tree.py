"""Walking a folder tree: one ``scandir`` a folder, nothing followed. What the finds mean is decided elsewhere."""

from __future__ import annotations

import functools
import os
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from library.media_types import Kind, is_left_out, is_placeholder, media_kind
from library.paths import to_text

# Opened itself, never a link in its place; what is in it is looked up from there, not along the whole path.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Folder:
    """One folder of the tree. ``path`` is relative to the root and empty for the root itself.

    Its ``files`` can be asked for their status while the walk stands at this folder, and not later.
    """

    path: bytes
    modified_ns: int
    is_mount: bool  # another file system begins here
    files: list[os.DirEntry[str]] = field(default_factory=list)  # regular media files, by name
    videos: list[bytes] = field(default_factory=list)  # the names of those that are videos
    links: list[bytes] = field(default_factory=list)  # names of links that lead to something the tree does not list
    placeholders: list[bytes] = field(default_factory=list)  # names of photos that a cloud drive keeps elsewhere
    hidden: list[bytes] = field(default_factory=list)  # names of folders that are left out
    passed_over: array[int] = field(default_factory=lambda: array("Q"))  # inodes of the files that are not listed
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
            descriptor = os.open(absolute, _FOLDER)
        except OSError as error:
            yield _unread(path, error)
            continue
        try:
            try:
                os.stat(".", dir_fd=descriptor)  # a folder that shows names and hides what is behind them
                status = os.fstat(descriptor)
                folder = Folder(path, status.st_mtime_ns, parent_device not in (None, status.st_dev))
                subfolders = _read(root, absolute, descriptor, folder)
            except OSError as error:
                yield _unread(path, error)
                continue
            waiting.extend((join(path, name), status.st_dev) for name in sorted(subfolders, reverse=True))
            yield folder
        finally:
            os.close(descriptor)


def _unread(path: bytes, error: OSError) -> Folder:
    return Folder(path, 0, is_mount=False, problem=error.strerror or type(error).__name__)


def _read(root: bytes, absolute: bytes, descriptor: int, folder: Folder) -> list[bytes]:
    """Sort one folder's entries into ``folder``; returns the names of its sub-folders."""
    subfolders = []
    files = folder.files
    with os.scandir(descriptor) as entries:
        for entry in entries:
            text = entry.name
            kind = _kind_of(text[text.rfind(".") + 1 :])
            # The many, first: no name that is left out has the extension of a photo, but for a dot in front.
            if kind is not None and text[0] != "." and "." in text and entry.is_file(follow_symlinks=False):
                files.append(entry)
                if kind == "video":
                    folder.videos.append(os.fsencode(text))
                continue
            name = os.fsencode(text)
            if is_left_out(name):
                if is_placeholder(name):
                    folder.placeholders.append(name)
                if entry.is_dir(follow_symlinks=False):
                    folder.hidden.append(name)
                else:
                    folder.passed_over.append(entry.inode())
            elif entry.is_dir(follow_symlinks=False):
                subfolders.append(name)
            elif entry.is_symlink():
                if _leads_elsewhere(root, absolute + b"/" + name, name):
                    folder.links.append(name)
            elif media_kind(name) is not None and entry.is_file(follow_symlinks=False):  # in a trash, by its name
                files.append(entry)
                if media_kind(name) == "video":
                    folder.videos.append(name)
            elif is_placeholder(name):
                folder.placeholders.append(name)
            elif entry.is_file(follow_symlinks=False):
                folder.passed_over.append(entry.inode())
    files.sort(key=attrgetter("name"))
    return subfolders


@functools.lru_cache(maxsize=1024)
def _kind_of(extension: str) -> Kind | None:
    """The kind of a file with this extension, as it is written."""
    return media_kind(b"x." + os.fsencode(extension))


def files_with(root: bytes, folder: bytes, inodes: Container[int], *, below: bool) -> Iterator[os.stat_result]:
    """The status of each regular file of a folder (and of those ``below`` it) that has one of the inodes, whatever its
    name. No other file is asked; what cannot be read is passed over."""
    waiting = [join(root, folder)]
    while waiting:
        path = waiting.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if below:
                            waiting.append(entry.path)
                    elif entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_ino in inodes:
                            yield status
        except OSError:
            continue


def _leads_elsewhere(root: bytes, path: bytes, name: bytes) -> bool:
    """Whether a link stands for photos that the tree does not list: a folder, or a file named like a photo, that is
    outside the root or in a part of it that is left out. A target that is missing (a disk that is away) counts."""
    target = os.path.realpath(path)
    is_folder = os.path.isdir(path)  # noqa: PTH112  (pathlib knows no bytes)
    if not is_folder and media_kind(name) is None:
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
