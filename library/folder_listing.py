"""The columns of a folder library's listing, made in bulk. What is walked, and what a problem means, is elsewhere."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from library.live_photos import motions_of
from library.media_types import is_trash, lies_in_trash
from library.paths import to_text
from library.protocol import ENUMERATED
from library.tree import Folder, join


class Listing:
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
        self.trashed: list[int] = []  # the rows that lie in a trash
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
        if folder.videos:
            stems = {_folded(name).rpartition(".")[0] for name in folder.videos}
            folded = _folded(encoded).split("/")
            place = {raw[n]: n for n, name in enumerate(folded) if name.rpartition(".")[0] in stems}
            for still, motion in motions_of(place).items():
                local_ids[place[motion]] = prefix + names[place[still]]
                self.parts[len(self.folders) + place[motion]] = "motion"
                self.motions[local_ids[place[motion]]] = motion
        self.local_ids.append(pa.array(local_ids, pa.string()))
        self.file_names.append(pa.array(names, pa.string()))
        if in_trash or b"/." in b"/" + encoded:  # what is in a trash by its own name begins with a dot
            self.trashed += [len(self.folders) + n for n, name in enumerate(raw) if in_trash or is_trash(name)]
        fields = list(zip(*statuses, strict=True))
        modified_ns = [status.st_mtime_ns for status in statuses]
        for column, values in zip(
            self.numbers,
            (fields[stat.ST_SIZE], modified_ns, fields[stat.ST_DEV], fields[stat.ST_INO]),
            strict=True,
        ):
            column.extend(values)
        self.folders += array("q", [len(self.albums) - 1]) * len(entries)
        return problems

    def table(self, library_id: str) -> pa.Table:
        """ENUMERATED rows, ordered by local id, the primary part first."""
        rows = len(self.folders)
        size, modified_ns, device, inode = (_numbers(column) for column in self.numbers)
        kinds = pa.array([self.parts[row] for row in self.parts], pa.string())
        is_other = _mask(self.parts, rows)
        part = pc.replace_with_mask(pa.repeat(pa.scalar("primary"), rows), is_other, kinds)
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
            "in_trash": _mask(self.trashed, rows),
        }
        table = pa.table([columns[name] for name in ENUMERATED.names], schema=ENUMERATED)
        if _is_ordered(columns["local_id"], is_other):  # as nearly always: sorting costs more than looking
            return table
        return table.sort_by([("local_id", "ascending"), ("part", "descending")])


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


def _is_ordered(local_ids: pa.Array, is_other: pa.Array) -> bool:
    """Whether the ids ascend, and of rows with one id the primary part comes first."""
    before, after = local_ids[:-1], local_ids[1:]
    out_of_place = pc.or_(pc.greater(before, after), pc.and_(pc.equal(before, after), is_other[:-1]))
    return not pc.any(out_of_place).as_py()


def _folded(name: bytes) -> str:
    """As the names of a Live Photo's halves are compared."""
    return name.decode("utf-8", "surrogateescape").casefold()
