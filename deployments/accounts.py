"""The accounts that `up` runs for: each is a folder with a .env, as for the command line. The key stays there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import UsageError
from state.credentials import KEY, NOTIFY, URL, Credentials, load_credentials
from state.errors import StateCorrupt
from state.files import read_bytes, write_atomic

_LABEL = re.compile(r"[\w. -]+")


@dataclass(frozen=True, slots=True)
class Account:
    """``directory`` has the .env. A further account has a ``label``, which ends the names of its deployments, and a
    ``partition``, which is their parameter; the first account has neither.
    """

    directory: Path
    partition: str | None = None
    label: str = ""


def save(path: Path, accounts: Sequence[Account]) -> None:
    """Write the accounts, the first one first. Raises StateUnwritable."""
    rows = [{**asdict(account), "directory": str(account.directory)} for account in accounts]
    write_atomic(path, (json.dumps(rows, indent=2) + "\n").encode())


def load(path: Path) -> list[Account]:
    """The accounts that were written. Raises StateCorrupt, StateUnreadable."""
    try:
        rows = json.loads(read_bytes(path) or b"")
        return [Account(Path(row["directory"]), row["partition"], str(row["label"])) for row in rows]
    except (ValueError, TypeError, KeyError):
        raise StateCorrupt(
            f"{path} does not hold what was written to it.", "Start `deletion-sync up` again; it writes it anew."
        ) from None


def directory_of(accounts: Sequence[Account], partition: str) -> Path:
    """Where the credentials for that partition are; the first account's folder where no other one is named."""
    for account in accounts:
        if account.partition == partition:
            return account.directory
    return accounts[0].directory


def checked_label(directory: Path) -> str:
    """What a further account is called: the name of its folder. Raises UsageError where no deployment can have it."""
    if not _LABEL.fullmatch(directory.name):
        raise UsageError(
            f"The folder name {directory.name!r} cannot end the name of a deployment.",
            f"Rename {directory} to letters, digits, spaces, dots, hyphens and underscores.",
        )
    return directory.name


def checked_credentials(directory: Path, environ: Mapping[str, str], *, alone: bool) -> Credentials:
    """The credentials of an account. Raises UsageError, also where the environment would stand for several folders."""
    if not alone and any(environ.get(name) for name in (URL, KEY, NOTIFY)):
        raise UsageError(
            f"{URL}, {KEY} or {NOTIFY} is set in the environment, which would hide the .env files of several accounts.",
            f"Unset them, and keep each account's in its own folder, such as {directory / '.env'}.",
        )
    return load_credentials(environ, directory)
