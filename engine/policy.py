"""The facts and choices that a decision depends on, as frozen values. No rule lives here (docs/rules.md has them)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engine.settings import Strictness


class Bucket(StrEnum):
    """Where classification puts a candidate (spec, Candidate classification). Pending is REVIEW and HELD together."""

    DELETE = "delete"
    REVIEW = "review"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class LocalFacts:
    """What section 1 of the rules needs beside its relations. ``now`` is UTC without a zone."""

    run_id: str
    now: datetime
    complete: bool
    change_log: bool
    history_lost: bool
    strictness: Strictness


@dataclass(frozen=True, slots=True)
class Policy:
    """What sections 2 to 4 of the rules need beside their relations. ``now`` is UTC without a zone."""

    user_id: str
    now: datetime
    strictness: Strictness = Strictness.TRUSTING
    quarantine_days: int = 14
    selected_albums: tuple[str, ...] | None = None  # None: the full library
    include_external: bool = False
    change_log: bool = True
    history_lost: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """How many local ids a library ``held`` outside the trash, how many of them it ``lost``, and how many of these a
    person was shown and ``accepted``."""

    library: str
    held: int
    lost: int
    accepted: int


@dataclass(frozen=True, slots=True)
class RailFacts:
    """What section 5 of the rules needs. ``clock_skew_seconds`` is this computer's clock minus the server's."""

    real: bool
    access_problems: tuple[str, ...]
    inventory_problems: tuple[str, ...]
    local_count: int  # assets outside the trash
    losses: tuple[Loss, ...]
    clock_skew_seconds: float | None
    server_count: int
    last_server_count: int | None
    trash_enabled: bool
    trash_days: int | None
    to_trash: int
    matched: int
    threshold_percent: float
    threshold_floor: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rail that tripped, with what a person reads about it; or none."""

    rail: str | None = None
    what: str = ""
    next_step: str = ""

    @property
    def passed(self) -> bool:
        return self.rail is None
