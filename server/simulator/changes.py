"""What the change stream reads: an update id per change, deletions, and how far each session has acknowledged.

No lines are written here (see lines.py), and no HTTP is spoken (see sync.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

RESET_AFTER = timedelta(days=30)  # since the last acknowledged complete
DELETIONS_KEPT = timedelta(days=31)
_MILLISECOND_BITS = 80  # of an update id, to the right of the milliseconds
_VERSION_AND_VARIANT = 7 << 76 | 2 << 62
_COUNT_BITS = 62


@dataclass(slots=True)
class Changes:
    """Update ids are the numbers of UUIDs of version 7 and only grow, so that one of them is a position.

    ``assets`` and ``deletions`` hold, by owner, asset id: update id, the oldest change first. ``users`` holds the
    update id of each user. ``checkpoints`` hold, by session id, entity type: ack, the one set last at the end.
    """

    assets: dict[str, dict[str, int]] = field(default_factory=dict)
    deletions: dict[str, dict[str, int]] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, dict[str, str]] = field(default_factory=dict)
    pending_resets: set[str] = field(default_factory=set)
    last: int = 0

    def next_id(self, now: datetime) -> int:
        """A new update id, greater than every other, also when the clock went back."""
        wanted = int(now.timestamp() * 1000) << _MILLISECOND_BITS | _VERSION_AND_VARIANT
        count = (self.last + 1) & ((1 << _COUNT_BITS) - 1)
        first = max(wanted >> _COUNT_BITS, self.last >> _COUNT_BITS)
        self.last = first << _COUNT_BITS | count
        return self.last

    def changed(self, owner_id: str, asset_id: str, now: datetime) -> None:
        mine = self.assets.setdefault(owner_id, {})
        mine.pop(asset_id, None)
        mine[asset_id] = self.next_id(now)

    def deleted(self, owner_id: str, asset_id: str, now: datetime) -> None:
        self.assets[owner_id].pop(asset_id)
        mine = self.deletions.setdefault(owner_id, {})
        mine.pop(asset_id, None)
        mine[asset_id] = self.next_id(now)

    def acknowledge(self, session_id: str, acks: Mapping[str, str]) -> None:
        """Set the checkpoints of these entity types, forward or back."""
        mine = self.checkpoints.setdefault(session_id, {})
        for entity, ack in acks.items():
            mine.pop(entity, None)
            mine[entity] = ack

    def reset(self, session_id: str) -> None:
        self.checkpoints.pop(session_id, None)
        self.pending_resets.discard(session_id)

    def forget_old_deletions(self, owner_id: str, now: datetime) -> None:
        oldest = _position(now - DELETIONS_KEPT)
        mine = self.deletions.get(owner_id, {})
        self.deletions[owner_id] = {asset_id: update_id for asset_id, update_id in mine.items() if update_id >= oldest}


def newer_than(changes: dict[str, int], checkpoint: int) -> tuple[list[str], list[int]]:
    """The ids and the update ids of what changed after a checkpoint, the oldest first; looks at nothing older."""
    if not checkpoint:
        return list(changes), list(changes.values())
    ids = []
    for one in reversed(changes):
        if changes[one] <= checkpoint:
            break
        ids.append(one)
    ids.reverse()
    return ids, [changes[one] for one in ids]


def too_old(complete_id: int, now: datetime) -> bool:
    """Whether the last acknowledged complete is so old that the server asks for a fresh start."""
    return complete_id < _position(now - RESET_AFTER)


def _position(moment: datetime) -> int:
    return int(moment.timestamp() * 1000) << _MILLISECOND_BITS


def written(update_id: int) -> str:
    """The update id as a UUID."""
    return f"{_beginning(update_id >> 48)}-{update_id & 0xFFFFFFFFFFFF:012x}"


@lru_cache(maxsize=1024)
def _beginning(bits: int) -> str:
    """A UUID's first four groups; changes of one moment share them."""
    digits = f"{bits:020x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:]}"
