"""A folder of photos as a local library. Hidden and system files are left out; sub-folders are its albums.

Identity and registration live in ``library.identity``, the walk in ``library.tree``.
"""

from __future__ import annotations

import json
import os
import stat
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from library.errors import LibraryUnavailable
from library.identity import FolderConfig, mount_problems, root_problem
from library.live_photos import motions_of
from library.media_types import is_trash, lies_in_trash
from library.paths import below, to_bytes, to_text
from library.protocol import ENUMERATED, Access, Changes, Enumeration, Stamp
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
    _motions: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """The difference of two listings. Expired when the token is not of this root as it is registered now."""
        if not self._is_own_token(token):
            return Changes(expired=True)
        before, after = _parts(known), _parts(now)
        old_ids, new_ids = {part[0] for part in before}, {part[0] for part in after}
        differing = {part[0] for part in before ^ after}
        return Changes(
            expired=False,
            inserted=frozenset(new_ids - old_ids),
            updated=frozenset(differing & old_ids & new_ids),
            deleted=frozenset(old_ids - new_ids),
        )

    def enumerate(self) -> Enumeration:
        """Every media file. Raises LibraryUnavailable when the root is not the folder it was, before or after.

        ``problems`` names each path that could not be read, each mount that came or went, each link that leads
        away, each photo that a cloud drive keeps elsewhere, and folders that would not stay still.
        """
        token = self.change_token()
        for attempt in range(1, _LISTING_ATTEMPTS + 1):
            self._require_root()
            problems = mount_problems(self.config)
            listing = _Listing()
            seen: dict[bytes, int] = {}
            for folder in walk(self._root):
                problems.extend(self._folder_problems(folder))
                if folder.problem is None:
                    seen[folder.path] = folder.modified_ns
                    problems.extend(listing.add(folder))
            changed = changed_folders(self._root, seen)
            self._require_root()
            if not changed or attempt == _LISTING_ATTEMPTS:
                break
        problems.extend(mount_problems(self.config))
        problems.extend(f"{path}: it changed while it was listed" for path in changed)
        self._motions.clear()
        self._motions.update(listing.motions)
        return Enumeration(listing.table(self.library_id), token, tuple(dict.fromkeys(problems)))

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """An unbuffered stream of the file. Raises OSError; a link or anything but a regular file is refused."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not block the open
        descriptor = os.open(self._path(local_id, part), flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(22, "It is not a regular file", local_id)
        return cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))

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


def _parts(rows: pa.Table) -> set[tuple[Any, ...]]:
    columns = ("local_id", "part", "size", "modified_ns")
    return set(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))


class _Listing:
    """The columns of a listing while it grows, one entry a part. Numbers are kept as such, and albums once a folder;
    what can be made of them in bulk is made at the end."""

    __slots__ = ("albums", "file_names", "folders", "local_ids", "motions", "numbers", "parts", "trashed")

    def __init__(self) -> None:
        self.local_ids: list[pa.Array] = []
        self.file_names: list[pa.Array] = []
        self.numbers = [array(code) for code in "qqQQ"]  # size, modified_ns, device, inode
        self.folders = array("q")  # of each row: its place in ``albums``
        self.albums: list[list[str]] = []
        self.parts: dict[int, str] = {}  # of the rows that are no primary part
        self.trashed: list[pa.Array] = []
        self.motions: dict[str, bytes] = {}

    def add(self, folder: Folder) -> list[str]:
        """Add a folder's files; returns what could not be looked at."""
        folder_id = to_text(folder.path)
        in_trash = lies_in_trash(folder.path)
        steps = folder_id.split("/") if folder_id and not in_trash else []
        self.albums.append(["/".join(steps[: n + 1]) for n in range(len(steps))])
        entries, statuses, problems = _statuses(folder)
        if not entries:
            return problems
        encoded = os.fsencode("/".join([entry.name for entry in entries]))  # all of them at once; no name has a slash
        names = to_text(encoded).split("/")
        prefix = f"{folder_id}/" if folder_id else ""
        local_ids = [prefix + name for name in names]
        raw = encoded.split(b"/")
        if folder.has_videos:
            place = {name: number for number, name in enumerate(raw)}
            for still, motion in motions_of(raw).items():
                local_ids[place[motion]] = prefix + names[place[still]]
                self.parts[len(self.folders) + place[motion]] = "motion"
                self.motions[local_ids[place[motion]]] = motion
        self.local_ids.append(pa.array(local_ids, pa.string()))
        self.file_names.append(pa.array(names, pa.string()))
        some = in_trash or names[0].startswith(".")  # they are sorted, and what is in a trash by its name has a dot
        self.trashed.append(pa.array([in_trash or is_trash(name) for name in raw] if some else [False] * len(raw)))
        for column, values in zip(self.numbers, zip(*map(_STATUS, statuses), strict=True), strict=True):
            column.extend(values)
        self.folders.extend([len(self.albums) - 1] * len(entries))
        return problems

    def table(self, library_id: str) -> pa.Table:
        """ENUMERATED rows, ordered by local id, the primary part first."""
        rows = len(self.folders)
        size, modified_ns, device, inode = (_numbers(column) for column in self.numbers)
        kinds = pa.array([self.parts[row] for row in self.parts], pa.string())
        part = pc.replace_with_mask(pa.repeat(pa.scalar("primary"), rows), _mask(self.parts, rows), kinds)
        columns = {
            "library_id": pa.repeat(pa.scalar(library_id, pa.string()), rows),
            "local_id": pa.chunked_array(self.local_ids, pa.string()).combine_chunks(),
            "part": part,
            "file_name": pa.chunked_array(self.file_names, pa.string()).combine_chunks(),
            "size": size,
            "modified_ns": modified_ns,
            "file_identity": pc.binary_join_element_wise(device.cast(pa.string()), inode.cast(pa.string()), ":"),
            "albums": pa.array(self.albums, ENUMERATED.field("albums").type).take(_numbers(self.folders)),
            "checksum": pa.nulls(rows, pa.string()),
            "in_trash": pa.chunked_array(self.trashed, pa.bool_()).combine_chunks(),
        }
        table = pa.table([columns[name] for name in ENUMERATED.names], schema=ENUMERATED)
        if not self.parts and _is_ordered(columns["local_id"]):
            return table
        return table.sort_by([("local_id", "ascending"), ("part", "descending")])


_STATUS = attrgetter("st_size", "st_mtime_ns", "st_dev", "st_ino")


def _statuses(folder: Folder) -> tuple[list[os.DirEntry[str]], list[os.stat_result], list[str]]:
    """The status of each file, and what could not be looked at."""
    try:
        return folder.files, [entry.stat(follow_symlinks=False) for entry in folder.files], []
    except OSError:
        pass  # one of them: which is seen by asking again
    entries: list[os.DirEntry[str]] = []
    statuses: list[os.stat_result] = []
    problems = []
    for entry in folder.files:
        try:
            statuses.append(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue  # deleted meanwhile: the folder's own time tells, and the listing starts again
        except OSError as error:
            problems.append(
                f"{to_text(join(folder.path, os.fsencode(entry.name)))}: it cannot be read: {error.strerror}"
            )
        else:
            entries.append(entry)
    return entries, statuses, problems


def _numbers(values: array[int]) -> pa.Array:
    kind = pa.int64() if values.typecode == "q" else pa.uint64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _mask(rows: Iterable[int], length: int) -> pa.Array:
    mask = bytearray(length)
    for row in rows:
        mask[row] = 1
    return pc.not_equal(pa.Array.from_buffers(pa.uint8(), length, [None, pa.py_buffer(mask)]), 0)


def _is_ordered(texts: pa.Array) -> bool:
    return bool(pc.all(pc.less_equal(texts[:-1], texts[1:])).as_py())
