"""Who an API key belongs to, remembered so that a run can start without the server. The key itself is never here."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from engine.address import normalise
from state.credentials import Credentials, fingerprint
from state.errors import StateCorrupt
from state.files import read_bytes, write_atomic
from state.home import Home
from state.lock import file_lock


@dataclass(frozen=True, slots=True)
class Identity:
    """``user_id`` (a UUID) tells accounts apart; the e-mail is only a label (spec, item 9)."""

    user_id: str
    email: str
    name: str


def cached(home: Home, credentials: Credentials) -> Identity | None:
    """The identity remembered for this address and key, or None.

    A file that is there and cannot be read is an error, not "nobody" (lesson 48): StateUnreadable, StateCorrupt.
    """
    key = _key(credentials)
    for entry in _load(home):
        if (entry["url"], entry["key_fingerprint"]) == key:
            return Identity(entry["user_id"], entry["email"], entry["name"])
    return None


def remember(home: Home, credentials: Credentials, identity: Identity) -> None:
    """Keeps the identity for this address and key. Raises ValueError for a user id that is no UUID, StateError."""
    user_id = str(uuid.UUID(identity.user_id))
    url, key = _key(credentials)
    with _locked(home):
        others = [e for e in _load(home) if (e["url"], e["key_fingerprint"]) != (url, key)]
        entry = {"url": url, "key_fingerprint": key, **asdict(identity), "user_id": user_id}
        _save(home, [*others, entry])


def forget(home: Home, server_url: str) -> int:
    """Forgets every identity of an address, whatever the key; returns how many (spec, item 12: sign out)."""
    url = normalise(server_url)
    with _locked(home):
        known = _load(home)
        left = [e for e in known if e["url"] != url]
        if len(left) < len(known):
            _save(home, left)
    return len(known) - len(left)


def _key(credentials: Credentials) -> tuple[str, str]:
    return credentials.server_url, fingerprint(credentials.api_key)


def _locked(home: Home) -> Any:
    return file_lock(home.root / "identities.lock", wait_seconds=10)


def _load(home: Home) -> list[dict[str, str]]:
    data = read_bytes(home.identities)
    if data is None:
        return []
    try:
        entries = json.loads(data)["identities"]
        for entry in entries:
            uuid.UUID(entry["user_id"])
            if not all(isinstance(entry[k], str) for k in ("url", "key_fingerprint", "email", "name")):
                raise TypeError(entry)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StateCorrupt(
            f"{home.identities} does not hold what was written to it.",
            "Move the file away; the identity is asked from the server again.",
        ) from None
    return list(entries)


def _save(home: Home, entries: list[dict[str, str]]) -> None:
    document = {"version": 1, "identities": entries}
    write_atomic(home.identities, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
