"""The accounts that `up` runs for: each is a folder with a .env, as for the command line. The key stays there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import DeletionSyncError, UsageError
from state import identity
from state.credentials import KEY, NOTIFY, URL, Credentials, load_credentials
from state.errors import StateCorrupt
from state.files import read_bytes, write_atomic
from state.home import Home
from state.partition import by_name
from tasks.opening import DEFAULT_PARTITION

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


class AccountGone(UsageError):
    """A run is of an account that `up` has not, or has no more. Prefect shows it: it names no folder and no user."""


def account_of(accounts: Sequence[Account], home: Home, environ: Mapping[str, str], partition: str) -> Account:
    """Whose partition it is: that of ``default`` is the first account's. No other key stands in for it.

    Raises AccountGone, also where the account's folder is not there.
    """
    for account in accounts:
        if account.partition == partition:
            break
    else:
        account = accounts[0]
        if partition != DEFAULT_PARTITION and not _is_of(account, home, environ, partition):
            raise AccountGone(
                "The account of this run is none of those that `up` was started with.",
                "Start `up` again with its folder as --account, or choose the deployment of another account.",
            )
    if not account.directory.is_dir():
        which = f"The folder of the account {account.label!r}" if account.label else "The folder `up` was started in"
        raise AccountGone(f"{which} is gone.", "Put it back, or start `up` again with the folder that has the .env.")
    return account


def _is_of(account: Account, home: Home, environ: Mapping[str, str], partition: str) -> bool:
    """Whether the account's credentials are known to lead there, without asking the server."""
    try:
        credentials = load_credentials(environ, account.directory)
        who, found = identity.cached(home, credentials), by_name(home, partition)
    except DeletionSyncError:
        return False
    return who is not None and (found.server_url, found.user_id) == (credentials.server_url, who.user_id)


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
