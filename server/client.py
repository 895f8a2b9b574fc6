"""The photo server as this program uses it: one object per server and key. What each call does is in its module."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

import pyarrow as pa
from pydantic import SecretStr

from engine.errors import UsageError
from server import account, assets, listing, tags, trash
from server.account import HISTORY_SCOPES, NORMAL_SCOPES, OPTIONAL_SCOPES
from server.http import Transport
from server.listing import FetchReport
from server.shapes import AssetState, Identity, Progress, Statistics, Tag, TrashPolicy, Version
from server.trash import RestoreOutcome, TrashOutcome

__all__ = [
    "HISTORY_SCOPES",
    "NORMAL_SCOPES",
    "OPTIONAL_SCOPES",
    "AssetState",
    "FetchReport",
    "Identity",
    "PhotoServer",
    "RestoreOutcome",
    "Statistics",
    "Tag",
    "TrashOutcome",
    "TrashPolicy",
    "Version",
]

MAX_PAGE_SIZE = 1000


def _silent(phase: str, done: int, total: int | None) -> None:
    """Progress that nobody sees."""


class PhotoServer:
    """A context manager; usable from several threads. ``sleep`` is the clock of every wait between attempts.

    Every call raises server.errors.ServerError for what the server or the network does, UsageError for what was asked.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr,
        *,
        page_size: int = MAX_PAGE_SIZE,
        sleep: Callable[[float], None] = time.sleep,
        verify: ssl.SSLContext | bool = True,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
    ) -> None:
        if not 1 <= page_size <= MAX_PAGE_SIZE:
            raise UsageError(f"The page size {page_size} is out of range.", f"It goes from 1 to {MAX_PAGE_SIZE}.")
        self._size = page_size
        self._transport = Transport(
            base_url,
            api_key,
            sleep=sleep,
            verify=verify,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
        )

    def __repr__(self) -> str:
        return f"PhotoServer({self._transport.host})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def ping(self) -> None:
        """See server.account.ping."""
        account.ping(self._transport)

    def version(self) -> Version:
        """See server.account.version."""
        return account.version(self._transport)

    def trash_policy(self) -> TrashPolicy:
        """See server.account.trash_policy."""
        return account.trash_policy(self._transport)

    def clock_skew(self, now: datetime) -> float | None:
        """See server.account.clock_skew."""
        return account.clock_skew(self._transport, now)

    def key_scopes(self) -> frozenset[str]:
        """See server.account.key_scopes."""
        return account.key_scopes(self._transport)

    def missing_scopes(self, required: Iterable[str]) -> list[str]:
        """See server.account.missing_scopes."""
        return account.missing_scopes(self._transport, required)

    def identity(self) -> Identity:
        """See server.account.identity."""
        return account.identity(self._transport, self._size)

    def statistics(self) -> Statistics | None:
        """See server.account.statistics."""
        return account.statistics(self._transport)

    def fetch_assets(self, user_id: str, *, progress: Progress = _silent) -> pa.Table:
        """The table of ``fetch_assets_reported``, for callers that do not weigh how the listing went."""
        return self.fetch_assets_reported(user_id, progress=progress)[0]

    def fetch_assets_reported(self, user_id: str, *, progress: Progress = _silent) -> tuple[pa.Table, FetchReport]:
        """See server.listing.fetch."""
        return listing.fetch(self._transport, user_id, self._size, progress)

    def find_by_checksums(
        self, checksums: Iterable[str], user_id: str, *, search_limit: int = 2000, progress: Progress = _silent
    ) -> pa.Table:
        """See server.listing.find_by_checksums."""
        return listing.find_by_checksums(self._transport, checksums, user_id, self._size, search_limit, progress)

    def trashed_since(self, moment: datetime) -> frozenset[str]:
        """See server.listing.trashed_since."""
        return listing.trashed_since(self._transport, moment, self._size)

    def assets_by_id(self, ids: Iterable[str]) -> dict[str, AssetState | None]:
        """See server.assets.assets_by_id."""
        return assets.assets_by_id(self._transport, ids)

    def thumbnail(self, asset_id: str) -> bytes:
        """See server.assets.thumbnail."""
        return assets.thumbnail(self._transport, asset_id)

    def upsert_tag(self, name: str) -> Tag:
        """See server.tags.upsert_tag."""
        return tags.upsert_tag(self._transport, name)

    def list_tags(self) -> list[Tag]:
        """See server.tags.list_tags."""
        return tags.list_tags(self._transport)

    def tag_assets(self, tag_id: str, ids: Iterable[str]) -> int:
        """See server.tags.tag_assets."""
        return tags.tag_assets(self._transport, tag_id, ids)

    def untag_assets(self, tag_id: str, ids: Iterable[str]) -> int:
        """See server.tags.untag_assets."""
        return tags.untag_assets(self._transport, tag_id, ids)

    def tag_members(self, tag_id: str) -> frozenset[str]:
        """See server.tags.tag_members."""
        return tags.tag_members(self._transport, tag_id, self._size)

    def delete_tag(self, tag_id: str) -> bool:
        """See server.tags.delete_tag."""
        return tags.delete_tag(self._transport, tag_id)

    def trash_units(
        self, units: Iterable[Sequence[str]], before_send: Callable[[tuple[str, ...]], None] | None = None
    ) -> TrashOutcome:
        """See server.trash.trash_units."""
        return trash.trash_units(self._transport, units, before_send, self._size)

    def restore_assets(self, ids: Iterable[str]) -> RestoreOutcome:
        """See server.trash.restore_assets."""
        return trash.restore_assets(self._transport, ids, self._size)
