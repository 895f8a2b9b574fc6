"""What every kind of local library offers. Nothing here reads a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.relations import NAMES

# One row per part of a local asset. A Live Photo is one local_id with the parts 'primary' and 'motion'; a library that
# keeps what an edit replaced lists that too ('original', 'original_motion'), and the other half of a RAW pair as 'raw'.
ENUMERATED = pa.schema(
    [
        ("library_id", pa.string()),
        ("local_id", pa.string()),
        ("part", pa.string()),
        ("file_name", pa.string()),
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),
        ("file_identity", pa.string()),  # device and inode, or what the platform has instead
        ("albums", NAMES),
        ("checksum", pa.string()),  # only where the library itself knows it (a checksums file), else null
        ("in_trash", pa.bool_()),  # in the platform's trash: not deleted yet (spec, item 8.7), but its owner's wish
    ]
)


@dataclass(frozen=True, slots=True)
class Access:
    """Whether the library can be read whole (spec, Permission guard). ``problems`` name paths; never logged at info."""

    status: Literal["full", "limited"]
    problems: tuple[str, ...] = ()


# What changed of a local asset since a token. change: 'inserted', 'updated', 'moved' (from former_id), 'trashed' and
# 'restored' (into and out of the platform's trash; former_id where the id changed with it), 'deleted', or 'withheld':
# the library holds it still, and lists it no more.
CHANGED = pa.schema([("local_id", pa.string()), ("change", pa.string()), ("former_id", pa.string())])


@dataclass(frozen=True, slots=True)
class Changes:
    """What the change log reports since a token (CHANGED rows). ``expired`` means: unknown, enumerate everything."""

    expired: bool
    table: pa.Table = field(default_factory=CHANGED.empty_table)

    def ids(self, change: str) -> frozenset[str]:
        """The local ids with that change."""
        return frozenset(self.table.filter(pc.equal(self.table["change"], change))["local_id"].to_pylist())


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A whole listing. ``problems`` not empty means it is incomplete: nothing may be concluded from absence.

    ``token`` is the change token taken before the listing began.
    ``limits``: those of ``problems`` for which ``access`` would say 'limited' (spec, Permission guard).
    ``withheld``: ids that the library holds and never lists, because others may delete them (a shared library). Where
    such an id was listed before, it was handed over, not deleted.
    """

    table: pa.Table
    token: str | None
    problems: tuple[str, ...] = ()
    withheld: frozenset[str] = frozenset()
    limits: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells that one part is still the bytes that were listed."""

    size: int
    modified_ns: int
    file_identity: str


class Library(Protocol):
    """A local photo library (spec, What the service does, items 3 to 5)."""

    @property
    def library_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def has_change_log(self) -> bool:
        """False: absence is never a confirmed deletion (a checksums file)."""

    @property
    def pairs_by_content(self) -> bool:
        """True: the halves of a Live Photo may be listed under two ids, and are found by what their bytes say."""

    def access(self) -> Access:
        """Whether everything can be read now. Never raises for what a user can repair. It may read as much as
        ``enumerate`` does, which tells the same."""

    def change_token(self) -> str | None:
        """A token that stands for now, or None where the library has no change log."""

    def changes_since(self, token: str, known: pa.Table, now: pa.Table) -> Changes:
        """Changes after ``token``. ``known`` and ``now`` are ENUMERATED rows: the saved listing, and the latest one
        that this library gave."""

    def enumerate(self) -> Enumeration:
        """Every local asset. Raises LibraryUnavailable when the library is gone; lesser gaps are ``problems``."""

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """The bytes of one part, as a stream. Raises OSError."""

    def stamp(self, local_id: str, part: str) -> Stamp:
        """What a listing would show of one part right now. Raises OSError where the part is gone."""

    def albums(self) -> dict[str, str]:
        """Album local identifier to title."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """The outcome of hashing one part: a checksum, or the reason there is none."""

    library_id: str
    local_id: str
    part: str
    checksum: str | None
    size: int
    modified_ns: int
    captured_at: int | None = None  # microseconds since 1970, see engine.relations.LOCAL
    content_id: str | None = None  # what both halves of a Live Photo share, see library.content_identifier
    problem: str | None = None


class Progress(Protocol):
    """How a step tells how far it is."""

    def __call__(self, phase: str, done: int, total: int | None) -> None: ...


def silent(phase: str, done: int, total: int | None) -> None:
    """Progress that nobody sees."""
