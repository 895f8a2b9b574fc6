"""The simulated server's state and the methods by which tests and the demo arrange and inspect it.

No HTTP lives here.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from server.simulator.changes import Changes
from server.simulator.faults import Faults
from server.simulator.model import NO_TAGS, TYPES, VISIBILITIES, Asset, Key, Session, Tag, User, type_of, utc
from server.simulator.wire import Request

LOGGED_REQUESTS = 20_000


def system_clock() -> datetime:
    return datetime.now(UTC)


class Simulator:
    """A photo server in memory; ``serving`` puts it on a socket. Every public method is safe from any thread.

    ``version`` is what it says it is and decides its behaviour ("2.7.5", "3.1.0"). ``clock`` gives the time as an aware
    datetime; the HTTP Date header follows it. Switches, which may be turned at any time:

    - ``trash_enabled``, ``trash_days``: the server's trash settings. With the trash off, DELETE still answers 204 and
      marks the asset, and ``run_nightly_jobs`` destroys it.
    - ``unstable_ties``: assets of equal capture time change their order from page to page, so that pages lose and
      repeat them. On for 2.x and 3.0.x, as on real servers.
    - ``tag_loss``: the share (0 to 1) of assets that lose a tag given while the metadata job of an earlier tagging or
      upload was still to run (``queue_metadata_job`` makes such a job).
    - ``older_lines``: the change stream writes asset types in lower case and dates without fractional seconds.
    - ``jobs_by_themselves``: metadata jobs run before the next request that is not a tagging; else ``run_jobs`` does.
    """

    def __init__(
        self,
        version: str = "3.1.0",
        clock: Callable[[], datetime] = system_clock,
        trash_enabled: bool = True,
        trash_days: int = 30,
    ) -> None:
        major, minor, patch = (int(part) for part in version.split("."))
        self.version = (major, minor, patch)
        self.modern = major >= 3
        self.clock = clock
        self.trash_enabled = trash_enabled
        self.trash_days = trash_days
        self.unstable_ties = self.version < (3, 1, 0)
        self.tag_loss = 0.0
        self.jobs_by_themselves = True
        self.older_lines = False
        self.faults = Faults()
        self.requests: deque[Request] = deque(maxlen=LOGGED_REQUESTS)
        self.lock = threading.RLock()
        self.users: dict[str, User] = {}
        self.keys: dict[str, Key] = {}
        self.sessions: dict[str, Session] = {}
        self.assets: dict[str, Asset] = {}
        self.by_checksum: dict[tuple[str, str], list[str]] = {}
        self.tags_by_id: dict[str, Tag] = {}
        self.tag_ids: dict[tuple[str, str], str] = {}
        self.members: dict[str, set[str]] = {}
        self.partners: set[tuple[str, str]] = set()  # (owner who shares, user who sees)
        self.metadata_jobs: dict[str, frozenset[str]] = {}  # asset id: the tags that the job will write back
        self.listings: dict[Any, list[str]] = {}  # a cache of filtered, sorted ids; emptied by every change
        self.orders: dict[
            Any, list[str]
        ] = {}  # a cache of sorted ids; emptied when assets come, go or change their time
        self.counter = 0
        self.changes = Changes()

    # Arranging

    def add_user(self, name: str, email: str, password: str | None = None) -> str:
        """A new user's id. Without a password there is no login."""
        with self.lock:
            user_id = str(uuid.uuid4())
            self.users[user_id] = User(user_id, name, email.lower(), password, self.now())
            self.changes.users[user_id] = self.changes.next_id(self.now())
            return user_id

    def add_key(self, user_id: str, permissions: Iterable[str], name: str | None = None) -> str:
        """A new API key with these scopes ("all" for every one). ``name`` is what the request log shows."""
        with self.lock:
            secret = secrets.token_urlsafe(32)
            label = name or f"key{len(self.keys) + 1}"
            self.keys[secret] = Key(str(uuid.uuid4()), user_id, label, tuple(permissions), self.now())
            return secret

    def revoke_key(self, secret: str) -> None:
        with self.lock:
            del self.keys[secret]

    def add_session(self, user_id: str, expires_at: datetime | None = None) -> str:
        """A signed-in session's access token, as a login would give it."""
        with self.lock:
            token = secrets.token_urlsafe(32)
            now = self.now()
            self.sessions[token] = Session(str(uuid.uuid4()), user_id, now, now, expires_at)
            return token

    def revoke_sessions(self, user_id: str) -> None:
        with self.lock:
            self.sessions = {token: one for token, one in self.sessions.items() if one.user_id != user_id}

    def expire_sessions(self, user_id: str) -> None:
        """Let the user's sessions have ended by now."""
        with self.lock:
            for token, one in self.sessions.items():
                if one.user_id == user_id:
                    self.sessions[token] = replace(one, expires_at=self.now())

    def demand_sync_reset(self, user_id: str) -> None:
        """Let the change stream of each of the user's sessions be only SyncResetV1 until that is acknowledged."""
        with self.lock:
            mine = {one.session_id for one in self.sessions.values() if one.user_id == user_id}
            self.changes.pending_resets |= mine

    def share_with_partner(self, owner_id: str, partner_id: str) -> None:
        """Let the partner see the owner's assets in searches, as partner sharing in the timeline does."""
        with self.lock:
            self.partners.add((owner_id, partner_id))
            self.listings.clear()

    def add_asset(
        self,
        user_id: str,
        *,
        checksum: str,
        file_name: str,
        visibility: str = "timeline",
        live_photo_video_id: str | None = None,
        type: str | None = None,
        captured_at: datetime | None = None,
        local_captured_at: datetime | None = None,
        library_id: str | None = None,
        is_favorite: bool = False,
        is_offline: bool = False,
        asset_id: str | None = None,
        trashed: bool = False,
        content: bytes | None = None,
    ) -> str:
        """A new asset's id. ``checksum``: base64 SHA-1; ``type`` follows the file name; times are UTC, default now."""
        with self.lock:
            now = self.now()
            captured = now if captured_at is None else utc(captured_at)
            kind = (type or type_of(file_name)).upper()
            if visibility not in VISIBILITIES or kind not in TYPES:
                raise ValueError(f"no such visibility or type: {visibility}, {kind}")
            self.counter += 1
            asset = Asset(
                asset_id=asset_id or _random_id(),
                owner_id=self.users[user_id].user_id,
                checksum=checksum,
                file_name=file_name,
                type=kind,
                visibility=visibility,
                live_photo_video_id=live_photo_video_id,
                library_id=library_id,
                is_favorite=is_favorite,
                captured_at=captured,
                local_captured_at=captured if local_captured_at is None else utc(local_captured_at),
                modified_at=captured,
                created_at=now,
                updated_at=now,
                deleted_at=now if trashed else None,
                number=self.counter,
                is_offline=is_offline,
                content=content,
            )
            if asset.asset_id in self.assets:
                raise ValueError(f"there is an asset {asset.asset_id} already")
            self.put(asset)
            return asset.asset_id

    def add_assets(self, user_id: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """Many assets, each row the keyword arguments of ``add_asset``; their ids in order."""
        with self.lock:
            return [self.add_asset(user_id, **row) for row in rows]

    def purge(self, asset_id: str) -> None:
        """Remove an asset for good, as emptying the trash does."""
        with self.lock:
            asset = self.assets.pop(asset_id)
            self.changes.deleted(asset.owner_id, asset_id, self.now())
            self.changes.users[asset.owner_id] = self.changes.next_id(self.now())  # it uses less of its quota
            ids = self.by_checksum[(asset.owner_id, asset.checksum)]
            ids.remove(asset_id)
            if not ids:
                del self.by_checksum[(asset.owner_id, asset.checksum)]
            for tag_id in asset.tags:
                self.members[tag_id].discard(asset_id)
            self.metadata_jobs.pop(asset_id, None)
            self.orders.clear()
            self.listings.clear()

    def change_asset(self, asset_id: str, **changes: Any) -> None:
        """Set fields of Asset directly, for what no request can do."""
        with self.lock:
            self.put(replace(self.assets[asset_id], **changes))

    def queue_metadata_job(self, asset_ids: Iterable[str]) -> None:
        """Let the server be about to read these assets' metadata, as after an upload; see ``tag_loss``."""
        with self.lock:
            for asset_id in asset_ids:
                self.metadata_jobs.setdefault(asset_id, self.assets[asset_id].tags)

    def run_jobs(self) -> None:
        """Run the metadata jobs: each writes its tags back, makes them searchable, and finishes an upload."""
        with self.lock:
            jobs, self.metadata_jobs = self.metadata_jobs, {}
            for asset_id, tags in jobs.items():
                asset = self.assets[asset_id]
                kept = tags if self._loses_tags(asset) else asset.tags
                values = [self.tags_by_id[tag_id].value for tag_id in kept if tag_id in self.tags_by_id]
                found = [self.upsert_tag(asset.owner_id, value) for value in values]
                tag_ids = frozenset(tag.tag_id for tag in found if tag is not None)
                self.put(replace(asset, tags=tag_ids, processed=True, updated_at=self.now()))

    def run_nightly_jobs(self) -> None:
        """Destroy what the trash no longer keeps (at once when it is off), and drop tags that hold nothing."""
        with self.lock:
            self.run_jobs()
            keep = timedelta(days=self.trash_days if self.trash_enabled else 0)
            due = [a.asset_id for a in self.assets.values() if a.deleted_at and a.deleted_at + keep <= self.now()]
            for asset_id in due:
                self.purge(asset_id)
            self.clean_tags()

    def clean_tags(self) -> None:
        """Drop the tags that no searchable membership holds up: empty ones, and those no job has met yet."""
        with self.lock:
            held = {
                value
                for tag in self.tags_by_id.values()
                if tag.searchable and self.members.get(tag.tag_id)
                for value in [(tag.user_id, one) for one in _with_parents(tag.value)]
            }
            for key, tag_id in list(self.tag_ids.items()):
                if key not in held:
                    self.remove_tag(tag_id)

    # Inspecting

    def asset(self, asset_id: str) -> Asset:
        """The asset as it is now. Raises KeyError once it is purged."""
        with self.lock:
            return self.assets[asset_id]

    def trashed(self, user_id: str | None = None) -> set[str]:
        """The ids of trashed assets, of one user or of all."""
        with self.lock:
            return {a.asset_id for a in self.assets.values() if a.deleted_at and user_id in (None, a.owner_id)}

    def tags(self) -> list[str]:
        """The full names of all tags, parents included, sorted."""
        with self.lock:
            return sorted(tag.value for tag in self.tags_by_id.values())

    def tag_members(self, name: str) -> set[str]:
        """The ids of the assets that carry the tag itself. Raises KeyError for an unknown tag."""
        with self.lock:
            found = [tag_id for (_, value), tag_id in self.tag_ids.items() if value == name]
            if not found:
                raise KeyError(name)
            return {asset_id for tag_id in found for asset_id in self.members.get(tag_id, ())}

    def mutations(self) -> list[Request]:
        """The logged requests that change what a user keeps, whatever their answer. Searches and logins are none."""
        with self.lock:
            return [request for request in self.requests if request.mutates]

    # For the endpoints; the caller holds the lock

    def used_bytes(self, user_id: str) -> int:
        """The size of the user's assets whose bytes are held here."""
        return sum(len(a.content) for a in self.assets.values() if a.content is not None and a.owner_id == user_id)

    def now(self) -> datetime:
        return utc(self.clock())

    def put(self, asset: Asset, *, streamed: bool = True) -> None:
        """Store an asset, new or changed, and keep the indexes true. Every change of an asset goes through here.

        The change stream shows it again unless ``streamed`` is False: tags alone are not in the stream.
        """
        old = self.assets.get(asset.asset_id)
        if streamed:
            now = asset.created_at if old is None else self.now()
            self.changes.changed(asset.owner_id, asset.asset_id, now)
        if old is None:
            self.by_checksum.setdefault((asset.owner_id, asset.checksum), []).append(asset.asset_id)
        if old is None or old.captured_at != asset.captured_at:
            self.orders.clear()
        if old is None or old.tags is not asset.tags:
            before = NO_TAGS if old is None else old.tags
            for tag_id in before - asset.tags:
                self.members[tag_id].discard(asset.asset_id)
            for tag_id in asset.tags - before:
                self.members.setdefault(tag_id, set()).add(asset.asset_id)
        self.assets[asset.asset_id] = asset
        if self.listings:
            self.listings.clear()

    def tag_assets(self, tag_ids: Collection[str], asset_ids: Iterable[str]) -> int:
        """Give assets tags and queue their metadata jobs; the number of new pairs."""
        wanted = frozenset(tag_ids)
        count = 0
        for asset_id in asset_ids:
            asset = self.assets[asset_id]
            new = wanted - asset.tags
            if new:
                count += len(new)
                self.put(replace(asset, tags=asset.tags | new), streamed=False)
                self.metadata_jobs.setdefault(asset_id, asset.tags | new)
        return count

    def upsert_tag(self, user_id: str, name: str) -> Tag | None:
        """The searchable tag of this name with its parents, made where missing; None for a name without a part."""
        parent_id = None
        tag = None
        now = self.now()
        for value in _with_parents("/".join(part for part in name.split("/") if part)):
            known = self.tag_ids.get((user_id, value))
            if known is None:
                tag = Tag(str(uuid.uuid4()), user_id, value, parent_id, None, True, now, now)
            else:
                tag = replace(self.tags_by_id[known], parent_id=parent_id, searchable=True, updated_at=now)
            self.put_tag(tag)
            parent_id = tag.tag_id
        return tag

    def put_tag(self, tag: Tag) -> None:
        self.tags_by_id[tag.tag_id] = tag
        self.tag_ids[(tag.user_id, tag.value)] = tag.tag_id
        self.listings.clear()

    def remove_tag(self, tag_id: str) -> None:
        tag = self.tags_by_id.pop(tag_id)
        del self.tag_ids[(tag.user_id, tag.value)]
        for asset_id in self.members.pop(tag_id, set()):
            asset = self.assets[asset_id]
            self.assets[asset_id] = replace(asset, tags=asset.tags - {tag_id})
        self.listings.clear()

    def _loses_tags(self, asset: Asset) -> bool:
        digest = hashlib.sha256(asset.asset_id.encode()).digest()
        return int.from_bytes(digest[:4], "big") < self.tag_loss * 2**32


def sha1_checksum(content: bytes) -> str:
    """The base64 SHA-1 of a file's bytes, 28 characters."""
    return base64.b64encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


def _random_id() -> str:
    """A UUID of version 4, made faster than by uuid: tests add a million assets."""
    digits = secrets.token_hex(16)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _with_parents(value: str) -> list[str]:
    """ "a/b/c" gives "a", "a/b", "a/b/c"; an empty value gives nothing."""
    parts = value.split("/") if value else []
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
