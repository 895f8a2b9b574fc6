"""How exclusions stand in the journal, and how they are had back from it. The table itself is exclusions.py's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from state.journal import Record, decision, rfc3339

ADDED, REMOVED = "exclude_add", "exclude_remove"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A checksum that no run trashes. ``excluded_at`` is UTC without a zone."""

    checksum: str
    excluded_at: datetime
    reason: str = ""
    file_name: str = ""


def added(exclusions: Sequence[Exclusion], now: datetime, run_id: str | None = None) -> Record:
    """The decision that protects these checksums."""
    entries = [
        {"checksum": e.checksum, "excluded_at": rfc3339(e.excluded_at), "reason": e.reason, "file_name": e.file_name}
        for e in exclusions
    ]
    return decision(ADDED, now, {"entries": entries}, run_id)


def removed(checksums: Sequence[str], now: datetime) -> Record:
    """The decision that lifts the protection."""
    return decision(REMOVED, now, {"checksums": list(checksums)})


def replayed(records: Iterable[Record]) -> list[Exclusion]:
    """What is excluded after these records. An entry that is malformed costs no other entry."""
    standing: dict[str, Exclusion] = {}
    for record in records:
        details = record.details or {}
        if record.decision == ADDED:
            for entry in details.get("entries", ()):
                try:
                    at = datetime.fromisoformat(entry["excluded_at"]).astimezone(UTC).replace(tzinfo=None)
                    found = Exclusion(
                        str(entry["checksum"]), at, str(entry.get("reason", "")), str(entry.get("file_name", ""))
                    )
                except (KeyError, TypeError, ValueError, AttributeError):
                    continue
                standing[found.checksum] = found
        elif record.decision == REMOVED:
            for checksum in details.get("checksums", ()):
                standing.pop(checksum, None)
    return list(standing.values())
