"""The small values that the client hands out, and the checks that ids must pass on their way in and out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.errors import UsageError
from server.answers import malformed

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

# How a long call tells how far it is: phase, done, total (None: not known).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """The server's version, comparable."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class TrashPolicy:
    """Whether the server has a trash, and the days until it empties (None: it does not say)."""

    enabled: bool
    days: int | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose key it is. The user id discriminates; e-mail and name are labels (spec, per-user partitioning)."""

    user_id: str
    email: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The server's own count of this user's untrashed assets in timeline and archive."""

    images: int
    videos: int
    total: int


@dataclass(frozen=True, slots=True)
class AssetState:
    """The server's own word on one asset, as of now."""

    asset_id: str
    owner_id: str
    checksum: str
    is_trashed: bool
    visibility: str
    live_photo_video_id: str | None
    file_name: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A server tag. ``name`` is the last part of its path, ``value`` the whole path."""

    id: str
    name: str
    value: str


def uuid_in(value: object, what: str, field: str) -> str:
    """The UUID that an answer to ``what`` has in ``field``, in lower case. Raises AnswerMalformed."""
    if isinstance(value, str) and UUID.fullmatch(value):
        return value.lower()
    raise malformed(what, f"has no UUID as {field}")


def uuid_out(value: str) -> str:
    """An id to send, in lower case (the server refuses upper case). Raises UsageError."""
    if UUID.fullmatch(value):
        return value.lower()
    raise UsageError(f"{value!r} is no asset or tag id.", "Ids are UUIDs, as the plan and the journal show them.")


def uuids_out(values: Iterable[str]) -> list[str]:
    """Ids to send: checked, in lower case, each once, in their order. Raises UsageError."""
    return list(dict.fromkeys(map(uuid_out, values)))
