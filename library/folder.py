"""A folder of photos as a local library. Hidden and system files are left out; sub-folders are its albums.

Identity and registration live in ``library.identity``, the walk in ``library.tree``.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from library.changes import difference, with_withheld
from library.errors import LibraryUnavailable
from library.folder_listing import Listing
from library.hidden import LeftOut, still_there
from library.identity import FolderConfig, mount_problems, root_problem
from library.live_photos import motions_of
from library.media_types import lies_in_trash
from library.paths import below, to_bytes, to_text
from library.protocol import Access, Changes, Enumeration, Stamp
from library.tree import Folder, changed_folders, join, walk

_LISTING_ATTEMPTS = 3  # a folder that is being written to is listed again this often


@dataclass(frozen=True, slots=True)
class FolderLibrary:
    """A registered folder (spec, What the service does, item 5).

    - local id: the relative POSIX path of the file, of the still for a Live Photo (see ``library.paths``).
    - albums: the file's folder and every folder around it up to the root, which itself is none; so choosing an
      album chooses what is nested in it.
    - symbolic links are never followed. One that leads to photos which the tree does not list is a problem, unless
      it was there at registration: a folder that moved to another disk must not read as deleted.
    - an empty file is an asset like any other.
    """

    library_id: str
    label: str
    config: FolderConfig = field(repr=False)
    kind: str = "folder"
    has_change_log: bool = True
    pairs_by_content: bool = True
    _motions: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    _left_out: LeftOut = field(default_factory=LeftOut, init=False, repr=False, compare=False)

    def access(self) -> Access:
        """'limited', with each path named, when the root is not the folder it was, a recorded mount is gone, or a
        folder inside cannot be read (spec, Permission guard)."""
        gone = root_problem(self.config)
        if gone is not None:
            return Access("limited", (gone,))
        problems = mount_problems(self.config)
        for folder in walk(self._root):
            problems.extend(self._folder_problems(folder))
        return Access("limited" if problems else "full", tuple(problems))

    def change_token(self) -> str:
        """The identity of the root and how often it was registered, as JSON."""
        return json.dumps({"root": self._identity, "generation": self.config["generation"]})

    def changes_since(self, token: str, known: pa.Table, now: pa.Table) -> Changes:
        """The difference of two listings. Expired when the token is not of this root as it is registered now.

        A photo that vanished while the same file lies there under a name that is left out (hidden, or of a type that
        is no photo's) is 'withheld', not deleted. That is looked for where the last listing of this object passed.
        """
        if not self._is_own_token(token):
            return Changes(expired=True)
        table = difference(known, now)
        vanished = table.filter(pc.equal(table["change"], "deleted"))["local_id"]
        if not len(vanished):
            return Changes(expired=False, table=table)
        hidden = still_there(
            self._root, known.filter(pc.is_in(known["local_id"], vanished.combine_chunks())), self._left_out
        )
        return Changes(expired=False, table=with_withheld(table, hidden))

    def enumerate(self) -> Enumeration:
        """Every media file. Raises LibraryUnavailable when the root is not the folder it was, before or after.

        ``problems`` names each path that could not be read, each mount that came or went, each link that leads
        away, each photo that a cloud drive keeps elsewhere, and folders that would not stay still.
        """
        token = self.change_token()
        for attempt in range(1, _LISTING_ATTEMPTS + 1):
            self._require_root()
            limits = mount_problems(self.config)
            unread: list[str] = []
            listing = Listing()
            left_out = LeftOut()
            seen: dict[bytes, int] = {}
            for folder in walk(self._root):
                limits.extend(self._folder_problems(folder))
                if folder.problem is None:
                    seen[folder.path] = folder.modified_ns
                    unread.extend(listing.add(folder))
                    left_out.add(folder)
            changed = changed_folders(self._root, seen)
            self._require_root()
            if not changed or attempt == _LISTING_ATTEMPTS:
                break
        limits = list(dict.fromkeys([*limits, *mount_problems(self.config)]))
        restless = [f"{path}: it changed while it was listed" for path in changed]
        self._motions.clear()
        self._motions.update(listing.motions)
        self._left_out.take(left_out)
        table = listing.table(self.library_id)
        return Enumeration(table, token, (*limits, *unread, *restless), limits=tuple(limits))

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """An unbuffered stream of the file. Raises OSError; a link or anything but a regular file is refused."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not block the open
        descriptor = os.open(self._path(local_id, part), flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(22, "It is not a regular file", local_id)
        return cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))

    def path_of(self, local_id: str, part: str) -> bytes:
        """The absolute path of the file, for whoever opens it by itself. Raises OSError."""
        return self._path(local_id, part)

    def stamp(self, local_id: str, part: str) -> Stamp:
        """Size, modification time and device:inode of the file now. Raises OSError."""
        return stamp_of(os.lstat(self._path(local_id, part)))

    def albums(self) -> dict[str, str]:
        """Every folder below the root: relative path to name. Raises LibraryUnavailable as ``enumerate`` does."""
        self._require_root()
        folders = [folder.path for folder in walk(self._root) if folder.path and folder.problem is None]
        paths = [to_text(path) for path in folders if not lies_in_trash(path)]
        return {path: path.rpartition("/")[2] for path in sorted(paths)}

    @property
    def _root(self) -> bytes:
        return to_bytes(self.config["root"])

    @property
    def _identity(self) -> str:
        return self.config["marker"] or f"{self.config['filesystem']}/{self.config['inode']}"

    def _is_own_token(self, token: str) -> bool:
        try:
            read: Any = json.loads(token)
        except ValueError:
            return False
        return bool(read == {"root": self._identity, "generation": self.config["generation"]})

    def _require_root(self) -> None:
        gone = root_problem(self.config)
        if gone is not None:
            raise LibraryUnavailable(
                f"The library {self.label!r} is not available: {gone}.",
                "Connect or mount it, or register the folder again if this is how it should be.",
            )

    def _folder_problems(self, folder: Folder) -> list[str]:
        if lies_in_trash(folder.path):
            return []  # another user's trash may be closed; what cannot be seen there is only not protected by it
        shown = to_text(self._root + b"/" + folder.path if folder.path else self._root)
        if folder.problem is not None:
            return [f"{shown}: it cannot be read: {folder.problem}"]
        problems = [f"{shown}/{to_text(name)}: its photo is not on this computer" for name in folder.placeholders]
        if folder.is_mount and to_text(folder.path) not in self.config["mounts"]:
            problems.append(f"{shown}: something is mounted here that was not when the library was registered")
        for name in folder.links:
            if to_text(join(folder.path, name)) not in self.config["links"]:
                problems.append(f"{shown}/{to_text(name)}: a link that leads out of what the library lists")
        return problems

    def _path(self, local_id: str, part: str) -> bytes:
        path = below(self._root, local_id)
        if part == "primary":
            return path
        # Known from the listing; after a restart, from one look at the folder.
        if local_id not in self._motions:
            folder, _, _ = local_id.rpartition("/")
            parent = os.path.dirname(path)  # noqa: PTH120  (pathlib knows no bytes)
            names = os.listdir(parent)  # noqa: PTH208
            for still, motion in motions_of(names).items():
                self._motions[f"{folder}/{to_text(still)}" if folder else to_text(still)] = motion
        if local_id not in self._motions:
            raise FileNotFoundError(2, "It has no motion video any more", local_id)
        return join(os.path.dirname(path), self._motions[local_id])  # noqa: PTH120


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp that a listing shows of a file with this status."""
    return Stamp(status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}")
