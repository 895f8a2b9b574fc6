"""Photos that a listing lacks because their file was given a name that is left out: hidden is not deleted."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import pyarrow as pa

from library.tree import Folder, files_with, join


@dataclass(slots=True)
class LeftOut:
    """What a walk saw and did not list: hidden folders, and by folder the inodes of the files it passed over."""

    folders: list[bytes] = field(default_factory=list)
    files: dict[bytes, array[int]] = field(default_factory=dict)

    def add(self, folder: Folder) -> None:
        self.folders += [join(folder.path, name) for name in folder.hidden]
        if folder.passed_over:
            self.files[folder.path] = folder.passed_over

    def take(self, other: LeftOut) -> None:
        """Become what another walk saw."""
        self.folders, self.files = other.folders, other.files


def still_there(root: bytes, vanished: pa.Table, left_out: LeftOut) -> pa.Array:
    """The local ids of those ENUMERATED rows whose file lies where the walk passed: same inode, size and time.

    A folder that is hidden is read below too, without asking any file but those with a wanted inode.
    """
    wanted: dict[int, list[tuple[str, int, int]]] = {}
    columns = (vanished[name].to_pylist() for name in ("local_id", "file_identity", "size", "modified_ns"))
    for local_id, identity, size, modified_ns in zip(*columns, strict=True):
        inode = (identity or "").rpartition(":")[2]
        if inode:
            wanted.setdefault(int(inode), []).append((local_id, size, modified_ns))
    places = [(path, False) for path, inodes in left_out.files.items() if not wanted.keys().isdisjoint(inodes)]
    places += [(path, True) for path in left_out.folders]
    found = {
        local_id
        for path, below in places
        if wanted
        for status in files_with(root, path, wanted, below=below)
        for local_id, *stamp in wanted[status.st_ino]
        if stamp == [status.st_size, status.st_mtime_ns]
    }
    return pa.array(sorted(found), pa.string())
