"""`login` and `logout`: the session for the server's change stream. An API key is not let in there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import note, printable, say
from cli.place import here
from engine.errors import ConfirmationNeeded, DeletionSyncError, UsageError

if TYPE_CHECKING:
    from state.partition import Partition


def register(app: typer.Typer) -> None:
    """Add the commands of this module (spec, Authentication 3)."""
    app.command("login")(login)
    app.command("logout")(logout)


def login(
    email: Annotated[str | None, typer.Option("--email", help="The account's e-mail; asked for when left out.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input, its first line.")
    ] = False,
) -> int:
    """Sign in for faster runs. They ask the server for its changes only; the password is not kept."""
    from pydantic import SecretStr

    from server import session
    from tasks import incremental

    partition = here().partition
    if partition.user_id is None:
        raise UsageError("It is not known yet whose API key this is.", "Run `deletion-sync verify` first.")
    email = email if email is not None else _asked_email()
    password = SecretStr(sys.stdin.readline().rstrip("\r\n") if password_stdin else _asked_password())
    if not email.strip() or not password.get_secret_value():
        raise UsageError("An e-mail and a password are needed.", "Nothing was done.")
    place = incremental.sign_in(partition, session.login(partition.server_url, email.strip(), password))
    say("Signed in. The next run lists everything once more, and those after it only what changed.")
    where = "the keyring of this system" if place == "keyring" else place
    note(f"The session is kept in {where}.")
    note("`deletion-sync logout` ends it. The API key is needed as before.")
    return 0


def logout() -> int:
    """End the session of `login`, on the server and here. Runs then list by search."""
    from server.stream_errors import SyncError
    from tasks import incremental

    try:
        ended = incremental.sign_off(here().partition)
    except SyncError as error:
        say("The session is forgotten here.")
        note(f"The server could not be told: {error} Remove it on the server's page Account Settings, Devices.")
        return 5
    say("Signed out of the change stream." if ended else "There was no session.")
    return 0


def standing(partition: Partition) -> str:
    """Whether runs can ask for changes only, in a few words, and how they could. The server is not asked."""
    from state import session_store, settings_file

    try:
        if not settings_file.load(partition).useIncrementalServerSync:
            return "switched off; `deletion-sync settings set useIncrementalServerSync true` switches them on"
        stored = session_store.get(partition)
    except DeletionSyncError as error:
        return f"not possible now: {error}"
    if stored is None:
        return "not signed in; after `deletion-sync login` a run asks only for what changed"
    return f"signed in as {stored.email}" if stored.email else "signed in"


def _asked_email() -> str:
    if not sys.stdin.isatty():
        raise ConfirmationNeeded(
            "There is no terminal to ask for the e-mail and the password at.", "Give --email and --password-stdin."
        )
    sys.stderr.write(printable("E-mail: "))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _asked_password() -> str:
    """Without echo, at the terminal."""
    import getpass

    if not sys.stdin.isatty():
        raise ConfirmationNeeded("There is no terminal to ask for the password at.", "Give --password-stdin.")
    return getpass.getpass("Password: ", stream=sys.stderr)
