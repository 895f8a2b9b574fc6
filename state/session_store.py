"""Keeps the token of a partition's session: in the system's keyring where there is one, else in a 0600 file.

Signing in is not here. The token is in no log, error or .env; missing and unavailable are told apart (lesson 48).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from engine.errors import DeletionSyncError, PartlyDone
from state.errors import StateCorrupt, StateUnreadable, StateUnwritable
from state.files import read_bytes, sync_folder, write_atomic, writing_to
from state.partition import Partition

SERVICE = "deletion-sync"
FILE = "session.json"
# What stands for "no keyring", or keeps secrets as plain text.
_NO_KEYRINGS = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
_TOKEN = re.compile(r"[!-~]+")  # nothing else can be in a header
_UNLOCK = "Unlock the system's keyring, and run it again."


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Whose session it is, and its token."""

    user_id: str
    email: str
    token: SecretStr


def put(partition: Partition, session: StoredSession) -> str:
    """Keep the session, in place of any other; returns where: ``keyring``, or the file. Raises StateUnwritable."""
    text = json.dumps({"user_id": session.user_id, "email": session.email, "token": session.token.get_secret_value()})
    keyring = _keyring()
    path = partition.path / FILE
    if keyring is None:
        write_atomic(path, text.encode())
        return str(path)
    try:
        keyring.set_password(SERVICE, partition.name, text)
    except Exception as error:  # each backend has errors of its own
        raise StateUnwritable(f"The system's keyring takes no session ({type(error).__name__}).", _UNLOCK) from None
    _remove_file(partition)
    return "keyring"


def get(partition: Partition) -> StoredSession | None:
    """The session of this partition's user, or None where there is none.

    Raises StateUnreadable where one may be kept and cannot be read now, StateCorrupt where it is not what was kept.
    """
    keyring = _keyring()
    text: str | bytes | None = None
    if keyring is not None:
        try:
            text = keyring.get_password(SERVICE, partition.name)
        except Exception as error:
            raise StateUnreadable(f"The system's keyring cannot be read ({type(error).__name__}).", _UNLOCK) from None
    if text is None:
        text = read_bytes(partition.path / FILE)
    if text is None:
        return None
    session = _session(text)
    return session if session.user_id == partition.user_id else None


def clear(partition: Partition) -> None:
    """Forget the session, wherever it is kept. Raises PartlyDone naming what failed (lesson 49)."""
    failures = []
    try:
        keyring = _keyring()
        if keyring is not None and keyring.get_password(SERVICE, partition.name) is not None:
            keyring.delete_password(SERVICE, partition.name)
    except Exception as error:
        failures.append(f"The system's keyring did not let go of it ({type(error).__name__}).")
    try:
        _remove_file(partition)
    except DeletionSyncError as error:
        failures.append(str(error))
    if failures:
        raise PartlyDone(f"The session was not forgotten everywhere. {' '.join(failures)}", _UNLOCK)


def _remove_file(partition: Partition) -> None:
    path = partition.path / FILE
    if path.exists():
        with writing_to(path):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)


def _session(text: str | bytes) -> StoredSession:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        user_id, email, token = found["user_id"], found["email"], found["token"]
        if all(isinstance(value, str) for value in (user_id, email, token)) and _TOKEN.fullmatch(token):
            return StoredSession(user_id, email, SecretStr(token))
    # ``from None``, and no excerpt: it may hold the token.
    raise StateCorrupt(
        "The stored session is not what was kept.", "Sign in again with `deletion-sync login`."
    ) from None


def _keyring() -> Any:
    """A backend of the package ``keyring`` that keeps secrets, or None."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
    except ImportError:
        return None
    except Exception as error:  # a backend that is there and cannot begin
        raise StateUnreadable(f"The system's keyring cannot be used ({type(error).__name__}).", _UNLOCK) from None
    candidates = [backend, *getattr(backend, "backends", ())]  # one that chains others has them in its order
    chained = hasattr(backend, "backends")
    return next((one for one in candidates[chained:] if not type(one).__module__.startswith(_NO_KEYRINGS)), None)
