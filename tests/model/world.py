"""What the oracle knows of the world: local rows, server assets, remembered sets, decisions; as plain Python values.

No rule lives here (rules.py has them), and no database (bridge.py has it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from engine.policy import LocalFacts

Id = tuple[str, str]  # (library_id, local_id)


@dataclass(frozen=True, slots=True)
class LocalRow:
    """One part of a local asset. ``checksum`` None: not hashed yet."""

    library_id: str
    local_id: str
    part: str
    checksum: str | None
    file_name: str = "a.jpg"
    captured_at: datetime | None = None
    albums: frozenset[str] = frozenset()
    size: int = 1
    in_trash: bool = False

    @property
    def id(self) -> Id:
        return (self.library_id, self.local_id)


@dataclass(frozen=True, slots=True)
class ServerAsset:
    """One row of the server's listing, trashed ones included."""

    asset_id: str
    checksum: str
    owner_id: str = "me"
    file_name: str = "a.jpg"
    live_photo_video_id: str | None = None
    visibility: str = "timeline"
    is_trashed: bool = False
    library_id: str | None = None
    captured_at: datetime | None = None
    local_captured_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """An observed checksum: the albums of its last observation, and the first time it was seen."""

    albums: frozenset[str]
    first_observed_at: datetime


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A confirmed deletion. ``cause``: deleted, retired or limbo."""

    at: datetime
    cause: str


@dataclass(frozen=True, slots=True)
class Retired:
    """A checksum that a living id gave up, as noted by a run."""

    checksum: str
    library_id: str
    local_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a partition remembers between two runs and that section 1 of the rules reads or writes."""

    observed: dict[str, Observed] = field(default_factory=dict)
    confirmed: dict[str, Confirmed] = field(default_factory=dict)
    anchors: dict[Id, frozenset[str]] = field(default_factory=dict)
    retired: frozenset[Retired] = frozenset()
    exclusions: dict[str, datetime] = field(default_factory=dict)
    detached: frozenset[str] = frozenset()
    index: frozenset[LocalRow] = frozenset()
    file_only: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Beside:
    """What section 1 reads beside the local rows: ids that were handed over, and what the journal says is in the
    server's trash since when."""

    handed_over: frozenset[Id] = frozenset()
    trashed_here: dict[str, datetime] = field(default_factory=dict)


NOTHING_BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Scene:
    """The inputs of section 1: what is remembered, the run's facts and rows, and the two relations beside."""

    state: State
    facts: LocalFacts
    rows: tuple[LocalRow, ...]
    beside: Beside


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is remembered of one checksum, after section 1 (engine.relations.MEMORY)."""

    observed: bool = False
    albums: frozenset[str] = frozenset()
    confirmed_at: datetime | None = None
    cause: str | None = None
    excluded_at: datetime | None = None
    anchored: bool = False
    retired: bool = False
    detached: bool = False
    indexed: bool = False
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """Where one candidate goes. ``due_at`` and ``days_left`` are set for the bucket held alone."""

    asset_id: str
    checksum: str
    bucket: str
    reason: str
    due_at: datetime | None = None
    days_left: int | None = None
    motion_id: str | None = None
    motion_checksum: str | None = None
