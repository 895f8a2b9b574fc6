"""The plan: what a run would trash, as a document with a digest that a person approves (docs/rules.md, section 6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.policy import Bucket

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to trash: an asset, with the linked motion video that goes along. Never split (spec, item 6)."""

    asset_id: str
    checksum: str
    file_name: str
    reason: str
    motion_id: str | None = None
    motion_checksum: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.asset_id,) if self.motion_id is None else (self.asset_id, self.motion_id)

    @property
    def checksums(self) -> tuple[str, ...]:
        return (self.checksum,) if self.motion_checksum is None else (self.checksum, self.motion_checksum)


def units(decisions: Iterable[Mapping[str, Any]]) -> tuple[Unit, ...]:
    """The units of the ``delete`` bucket, in the order of ``decisions`` (rows of engine.relations.DECISION)."""
    return tuple(
        Unit(
            row["asset_id"], row["checksum"], row["file_name"], row["reason"], row["motion_id"], row["motion_checksum"]
        )
        for row in decisions
        if row["bucket"] == Bucket.DELETE
    )


def asset_count(plan: Iterable[Unit]) -> int:
    """Distinct server assets that the plan trashes, linked motion videos included: what the threshold counts."""
    return len({asset_id for unit in plan for asset_id in unit.ids})


def digest(partition: str, plan: Iterable[Unit]) -> str:
    """SHA-256 (hex) over the partition and exactly which assets with which bytes would go.

    Two runs that plan the same have the same digest, so that an approval outlives a run that changed nothing.
    """
    rows = sorted([u.asset_id, u.checksum, u.motion_id or "", u.motion_checksum or ""] for u in plan)
    text = json.dumps([SCHEMA, partition, rows], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def batches(plan: Sequence[Unit], size: int = 500) -> list[tuple[Unit, ...]]:
    """Consecutive batches of at most ``size`` asset ids; the ids of a unit stay together.

    Units that share a motion video stay together too, so that it is sent once.
    """
    groups: dict[str, list[Unit]] = {}
    for unit in plan:
        groups.setdefault(unit.motion_id or unit.asset_id, []).append(unit)
    result: list[tuple[Unit, ...]] = []
    batch: list[Unit] = []
    count = 0
    for group in groups.values():
        ids = len({asset_id for unit in group for asset_id in unit.ids})
        if batch and count + ids > size:
            result.append(tuple(batch))
            batch, count = [], 0
        batch += group
        count += ids
    if batch:
        result.append(tuple(batch))
    return result


def to_json(unit: Unit) -> dict[str, Any]:
    return asdict(unit)


def from_json(row: Mapping[str, Any]) -> Unit:
    return Unit(**row)
