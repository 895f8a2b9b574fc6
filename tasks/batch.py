"""One batch of a plan on its way: which units are left, as the tag and delete steps hand them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from engine import plan
from engine.plan import Unit
from state.journal import Record
from tasks.context import iso, stamp
from tasks.files import read_json, reference_of_bytes, write_json
from tasks.refs import Ref


def record(run_id: str, status: str, unit: Unit, reason: str | None = None) -> Record:
    """A journal line about a unit (design decision: one JSON object a line)."""
    return Record(
        at=stamp(),
        run_id=run_id,
        status=status,
        asset_id=unit.asset_id,
        checksum=unit.checksum,
        motion_id=unit.motion_id,
        motion_checksum=unit.motion_checksum,
        file_name=unit.file_name,
        reason=reason or unit.reason,
    )


def unit_of(line: Record) -> Unit:
    """The unit that a journal line is about."""
    assert line.asset_id is not None
    return Unit(
        line.asset_id,
        line.checksum or "",
        line.file_name or "",
        line.reason or "",
        line.motion_id,
        line.motion_checksum,
    )


def write_batch(
    path: Path, looked_at: datetime, tag_id: str | None, units: Sequence[Unit], dropped: dict[str, str]
) -> Ref:
    """``looked_at`` is when the last look began, UTC without a zone."""
    write_json(
        path,
        {
            "tag_id": tag_id,
            "looked_at": iso(looked_at),
            "units": [plan.to_json(unit) for unit in units],
            "dropped": dropped,
        },
    )
    return reference_of_bytes(path, len(units))


def read_batch(path: Path) -> tuple[datetime, tuple[Unit, ...]]:
    """When the batch was looked at last (UTC without a zone), and its units."""
    document = read_json(path)
    looked_at = datetime.fromisoformat(document["looked_at"])
    return looked_at, tuple(plan.from_json(unit) for unit in document["units"])


def ids_of(units: Iterable[Unit]) -> list[str]:
    """Distinct asset ids, motion videos included, in order."""
    return list(dict.fromkeys(asset_id for unit in units for asset_id in unit.ids))
