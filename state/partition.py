"""A partition: the folder of one (server URL, user id), so that two accounts never see each other's state.

What is inside it lives in db.py, journal.py, settings_file.py and runs.py.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.address import normalise, sanitized
from engine.errors import UsageError
from state.errors import PartitionMismatch, StateCorrupt, StateError
from state.files import ensure_folder, read_bytes, sync_folder, write_atomic
from state.home import Home
from state.lock import file_lock, partition_lock

_UNKNOWN_AGAIN = "unknown"  # stands where a user id would; no UUID


@dataclass(frozen=True, slots=True)
class Partition:
    """``name`` is the folder's name. ``user_id`` is None until the server has told it."""

    path: Path
    server_url: str
    user_id: str | None
    name: str

    @property
    def database(self) -> Path:
        return self.path / "state.duckdb"

    @property
    def journal(self) -> Path:
        return self.path / "deletion-journal.jsonl"

    @property
    def settings_file(self) -> Path:
        return self.path / "tool-settings.json"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def run_lock(self) -> Path:
        return self.path / "run.lock"


def activate(
    home: Home, server_url: str, user_id: str | None, log: Callable[[str], None], *, email: str = ""
) -> Partition:
    """The partition of this account, made if missing (spec, item 9). ``email`` is a label inside it.

    The first time a user id is known for an address, an older folder named by the URL alone becomes this user's. That
    happens once per address, and is remembered: what is left over is never handed to a second account (lesson 47).
    Raises PartitionMismatch, PartitionBusy (a run holds the folder that is to be renamed), StateError, UsageError.
    """
    url = normalise(server_url)
    user = None if user_id is None else checked_user_id(user_id)
    base = sanitized(url)
    ensure_folder(home.partitions)
    with file_lock(home.partitions / ".activate.lock", wait_seconds=10):
        claims = _claims(home)
        if user is None:
            # A folder that was promised to an account and could not be renamed is that account's.
            left_over = base in claims and claims[base]["left_over"]
            return _entered(home, f"{base}__{_UNKNOWN_AGAIN}" if left_over else base, url, None, "")
        name = f"{base}__{user}"
        if base not in claims:
            claims[base] = {"user_id": user, "left_over": (home.partitions / base).exists()}
            _save_claims(home, claims)
        claim = claims[base]
        if claim["user_id"] == user and claim["left_over"] and _renamed(home, base, name, url, user, log):
            claims[base] = {"user_id": user, "left_over": False}
            _save_claims(home, claims)
        return _entered(home, name, url, user, email)


def by_name(home: Home, name: str) -> Partition:
    """The partition with this folder name. Raises UsageError, listing the names there are."""
    found = list_partitions(home)
    for partition in found:
        if partition.name == name:
            return partition
    known = ", ".join(p.name for p in found) or "none yet"
    raise UsageError(f"There is no partition named {name!r}.", f"Partitions here: {known}.")


def list_partitions(home: Home) -> list[Partition]:
    """Every partition, by name. Raises StateCorrupt or StateUnreadable for one whose partition.json cannot be read."""
    if not home.partitions.is_dir():
        return []
    found = []
    for folder in sorted(home.partitions.iterdir()):
        if folder.is_dir() and (card := _card(folder)) is not None:
            found.append(Partition(folder, card["url"], card["user_id"], folder.name))
    return found


def checked_user_id(user_id: str) -> str:
    """The UUID in its canonical form; nothing else becomes part of a path. Raises UsageError."""
    try:
        return str(uuid.UUID(user_id))
    except ValueError:
        raise UsageError("The user id is not a UUID.", "Check that the address is that of the photo server.") from None


def _entered(home: Home, name: str, url: str, user: str | None, email: str) -> Partition:
    path = home.partitions / name
    ensure_folder(path)
    card = _card(path)
    if card is not None and (card["url"] != url or card["user_id"] not in (None, user)):
        raise PartitionMismatch(
            f"The folder {path} belongs to another server address or account.",
            "Move it out of the partitions folder, and run it again.",
        )
    label = email or (card or {}).get("email", "")
    if card is None or card["user_id"] != user or card.get("email", "") != label:
        made = (card or {}).get("created_at") or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        _write_json(path / "partition.json", {"url": url, "user_id": user, "email": label, "created_at": made})
    return Partition(path, url, user, name)


def _renamed(home: Home, old: str, new: str, url: str, user: str, log: Callable[[str], None]) -> bool:
    """Renames the URL-only folder. False leaves it where it is, with the reason logged."""
    source, target = home.partitions / old, home.partitions / new
    if not source.is_dir() or target.exists():
        return False
    legacy = Partition(source, url, None, old)
    try:
        card = _card(source)
        if card is not None and (card["url"] != url or card["user_id"] not in (None, user)):
            log(f"{source} belongs to another address or account and is left alone.")
            return False
        with partition_lock(legacy, "rename"):
            source.rename(target)
        sync_folder(home.partitions)
    except (OSError, StateError) as error:
        log(f"{source} could not be renamed to {new}: {error}. Going on with an empty partition.")
        return False
    log(f"{source} was renamed to {new}.")
    return True


def _claims(home: Home) -> dict[str, dict[str, Any]]:
    """Per sanitized URL: the account that the URL-only folder was promised to, and whether it still lies there."""
    path = home.partitions / "claims.json"
    claims = _read_object(path)
    if claims is None:
        return {}
    if not all(isinstance(c, dict) and {"user_id", "left_over"} <= c.keys() for c in claims.values()):
        raise _no_json(path)
    return claims


def _save_claims(home: Home, claims: dict[str, dict[str, Any]]) -> None:
    _write_json(home.partitions / "claims.json", claims)


def _card(folder: Path) -> dict[str, Any] | None:
    path = folder / "partition.json"
    card = _read_object(path)
    if card is not None and not (isinstance(card.get("url"), str) and isinstance(card.get("user_id"), str | None)):
        raise _no_json(path)
    return card


def _read_object(path: Path) -> dict[str, Any] | None:
    data = read_bytes(path)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except ValueError:
        raise _no_json(path) from None
    if not isinstance(found, dict):
        raise _no_json(path)
    return found


def _no_json(path: Path) -> StateCorrupt:
    return StateCorrupt(f"{path} does not hold what was written to it.", "Move the file away, and run it again.")


def _write_json(path: Path, value: object) -> None:
    write_atomic(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
