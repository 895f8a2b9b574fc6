"""`up`, `down` and `logs`: Prefect's server with its UI, the deployments and a worker, as one command."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson
from cli.output import emit, note, say
from cli.stopping import Stopping
from engine.errors import DeletionSyncError, UsageError

if TYPE_CHECKING:
    from deployments.accounts import Account
    from deployments.place import Place
    from state.credentials import Credentials

_DOWN_SECONDS = 15.0
_LOOK_SECONDS = 0.2


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (up, down, logs):
        app.command(command.__name__)(command)


def up(
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", min=1, max=65535, help="Where the UI is; else 4200, or a free one."),
    ] = None,
    accounts: Annotated[
        list[Path] | None,
        typer.Option(
            "--account", metavar="DIRECTORY", help="The folder of a further account's .env. May be given several times."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", metavar="PORT", min=1, max=65535, help="Serve figures for Prometheus there; else nowhere."
        ),
    ] = None,
    users: Annotated[
        list[str] | None,
        typer.Option("--allow-user", metavar="USER", help="Another user of this computer who may use the UI."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only look whether the one that runs works. Exit code 0: it does.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Bring up the schedules and their web page.

    Server and UI answer to this computer alone. Ctrl-C or `deletion-sync down` ends everything.
    """
    place = _place()
    if check:
        return _checked(place, as_json=as_json)
    if as_json:
        raise UsageError("--json is for --check.", "Leave it out, or add --check.")
    from deployments import peer, ports, running
    from deployments import place as places
    from deployments.supervisor import supervise

    places.check_modules()
    os.environ[peer.USERS] = " ".join(str(peer.user_id(name)) for name in users or [])
    with running.alone(place):
        known = _accounts(place, [Path.cwd(), *(accounts or [])])
        stopping = Stopping()
        with ports.listening(port) as listener:
            free = int(listener.getsockname()[1])
            note(f"Starting in {place.home.root}. Ctrl-C ends it. The first start takes half a minute.")
            if port is None and free != ports.USUAL:
                note(f"Port {ports.USUAL} is taken by another program, so this is at {free}.")
            with stopping.heeded(), _metrics(place, metrics_port, free):
                supervise(place, listener, known[0].directory, os.environ, stopping.event, note)
    if stopping.by == signal.SIGINT:
        raise KeyboardInterrupt
    return 0


def down() -> int:
    """End the `up` that runs."""
    from deployments import processes, running

    place = _place()
    found = running.now_running(place)
    if found is None:
        note("deletion-sync is not up.")
        return 0
    runs = _going_on(place)
    if found.pid > 0:
        os.kill(found.pid, signal.SIGTERM)
    until = time.monotonic() + _DOWN_SECONDS
    while running.now_running(place) is not None:
        if time.monotonic() >= until:
            raise DeletionSyncError(
                f"It did not end within {_DOWN_SECONDS:.0f} s (pid {found.pid}).",
                f"Kill it with `kill -9 {found.pid}`; the next `up` cleans up after it.",
            )
        time.sleep(_LOOK_SECONDS)
    processes.end_leftovers([part.pid for part in found.parts.values()])
    note("Down.")
    for what in runs:
        note(f"A run ({what}) was going on. If it was cut off, the next one settles what was on the way.")
    return 0


def _going_on(place: Place) -> list[str]:
    """The runs that hold a partition. Whatever is wrong with one, `down` is to end what it is asked to end."""
    from state.lock import holder
    from state.partition import list_partitions

    found: list[str] = []
    with contextlib.suppress(DeletionSyncError):
        for partition in list_partitions(place.home):
            with contextlib.suppress(DeletionSyncError):
                held = holder(partition)
                found += [] if held is None else [held.what]
    return found


def logs(
    count: Annotated[int, typer.Option("--lines", metavar="COUNT", min=0, help="How many of the last lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay on, and show each line as it comes.")] = False,
) -> int:
    """Show what `up` and its runs said."""
    from deployments.log import followed, last

    place = _place()
    if not place.log.exists() and not follow:
        raise UsageError("There is no log yet.", "Start with `deletion-sync up`.")
    for line in followed(place.log, count, _waited) if follow else last(place.log, count):
        say(line)
    return 0


def _waited() -> bool:
    import sys

    sys.stdout.flush()
    time.sleep(_LOOK_SECONDS)
    return False


def _place() -> Place:
    from deployments.place import Place
    from state.home import Home

    return Place(Home.locate(os.environ))


@contextlib.contextmanager
def _metrics(place: Place, port: int | None, taken: int) -> Iterator[None]:
    """The figures, where they were asked for. Raises UsageError where their port is not free."""
    if port is None:
        yield
        return
    from deployments import metrics, ports
    from deployments.place import origin

    if port == taken or not ports.is_free(port):
        raise UsageError(f"Port {port} is taken.", "Give another one with --metrics-port.")
    with metrics.served(place.home, port):
        note(f"Figures for Prometheus are at {origin(port)}{metrics.PATH}")
        yield


def _checked(place: Place, *, as_json: bool) -> int:
    from deployments.health import check

    findings = check(place)
    if as_json:
        emit({finding.what: {"well": finding.well, "text": finding.text} for finding in findings})
    else:
        for finding in findings:
            say(f"{'ok ' if finding.well else 'BAD'}  {finding.text}")
    return 0 if all(finding.well for finding in findings) else DeletionSyncError.exit_code


def _accounts(place: Place, directories: Sequence[Path]) -> list[Account]:
    """Check and write down the accounts: the folder of the first one is where `up` was started.

    Raises UsageError, StateError, and ServerError where a further account's server is needed and does not answer.
    """
    from deployments.accounts import Account, checked_credentials, checked_label, save

    found: list[Account] = []
    for given in directories:
        directory = given.expanduser().absolute()
        credentials = checked_credentials(directory, os.environ, alone=len(directories) == 1)
        for line in credentials.notes:
            note(line)
        if not found:
            found.append(Account(directory))
            continue
        label = checked_label(directory)
        found.append(Account(directory, _partition_of(place, credentials), label))
    if len({account.label for account in found}) < len(found):
        raise UsageError(
            "Two accounts have folders of the same name.", "Give the folders different names: deployments have them."
        )
    save(place.accounts, found)
    return found


def _partition_of(place: Place, credentials: Credentials) -> str:
    from state import identity
    from state.partition import activate
    from tasks.opening import learn_identity

    who = identity.cached(place.home, credentials) or learn_identity(place.home, credentials)
    return activate(place.home, credentials.server_url, who.user_id, note, email=who.email).name
