"""What the simulated server holds: users, keys, sessions, assets, tags.

Frozen values only; no behaviour lives here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

VISIBILITIES = ("archive", "timeline", "hidden", "locked")
TYPES = ("IMAGE", "VIDEO", "AUDIO", "OTHER")
ALL_PERMISSIONS = "all"
VIDEO_ENDINGS = (".mov", ".mp4", ".m4v", ".avi", ".webm", ".3gp")
NO_TAGS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class User:
    user_id: str
    name: str
    email: str
    password: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """An API key; ``name`` is what the request log shows instead of the secret."""

    key_id: str
    user_id: str
    name: str
    permissions: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in session; ``used_at`` is the last request that it made, or its beginning."""

    session_id: str
    user_id: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asset:
    """One server asset. ``deleted_at``: when it was trashed last; ``tags``: tag ids; ``number`` counts insertions."""

    asset_id: str
    owner_id: str
    checksum: str
    file_name: str
    type: str
    visibility: str
    live_photo_video_id: str | None
    library_id: str | None
    is_favorite: bool
    captured_at: datetime
    local_captured_at: datetime
    modified_at: datetime
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    number: int
    tags: frozenset[str] = NO_TAGS
    is_offline: bool = False
    processed: bool = True  # False: just uploaded, its thumbnail is not made yet
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag. ``searchable`` is False for a tag made by POST until the server's metadata job met it."""

    tag_id: str
    user_id: str
    value: str
    parent_id: str | None
    color: str | None
    searchable: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Auth:
    """Who asks: an API key or a session, never both."""

    user: User
    key: Key | None = None
    session: Session | None = None

    def may(self, permission: str) -> bool:
        return self.key is None or ALL_PERMISSIONS in self.key.permissions or permission in self.key.permissions


def utc(moment: datetime) -> datetime:
    """The moment as UTC with its zone; one without a zone is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """RFC 3339 with milliseconds and Z, the way most answers write a time."""
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def fine_stamp(moment: datetime) -> str:
    """RFC 3339 with microseconds and an offset, the way nested values write a time."""
    return moment.isoformat(timespec="microseconds")


def type_of(file_name: str) -> str:
    return "VIDEO" if file_name.lower().endswith(VIDEO_ENDINGS) else "IMAGE"
