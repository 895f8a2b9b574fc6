"""The program `deletion-sync`: its commands, and what an error becomes: one message on stderr and an exit code.

0 done; 1 failed; 2 usage; 3 a rail aborted the run; 4 refused: a confirmation or a first dry run is needed;
5 done in part; 11 another run holds the partition; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from cli import (
    accounts,
    deferred,
    exclude,
    interruption,
    journal,
    library,
    notify,
    runs,
    server,
    session,
    settings,
    state,
    status,
    up,
    watch,
)
from cli.explain import explain
from cli.history import history_app
from cli.main import FAILED, INTERRUPTED, USAGE
from cli.output import note, printable, safe_streams
from engine.errors import DeletionSyncError

PROGRAM = "deletion-sync"

_log = logging.getLogger("deletion_sync")

app = typer.Typer(
    name=PROGRAM,
    help="Moves the server copies of photos that you deleted locally to the photo server's trash.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 a rail aborted the run, 4 refused: confirm or dry-run first, "
    "5 done in part, 11 another run is on, 130 interrupted.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            number = metadata.version(PROGRAM)
        except metadata.PackageNotFoundError:
            number = "(not installed)"
        sys.stdout.write(f"{PROGRAM} {number}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the log, and the traceback of an error, on standard error.")
    ] = False,
) -> None:
    if debug:
        _log.setLevel(logging.DEBUG)


runs.register(app)
watch.register(app)
notify.register(app)
up.register(app)
server.register(app)
app.add_typer(journal.app, name="journal")
app.add_typer(history_app, name="history")
app.add_typer(settings.app, name="settings")
app.add_typer(exclude.app, name="exclude")
app.add_typer(library.app, name="library")
deferred.register(library.app)
app.add_typer(state.app, name="state")
status.register(app)
app.command("explain")(explain)
session.register(app)
accounts.register(app)


def program(arguments: Sequence[str]) -> int:
    """Run a command line as a process does, its output flushed; returns the exit code."""
    safe_streams()
    _show_log()
    code = run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or FAILED
    except OSError as error:
        note(f"The output could not be written: {error.strerror}.")
        code = code or FAILED
    else:
        return code
    # What stdout still holds cannot be written: keep Python from trying once more, and complaining.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code. Every error has been told on stderr, without a secret."""
    try:
        code = app(args=list(arguments), standalone_mode=False, prog_name=PROGRAM)
    except (KeyboardInterrupt, Abort):
        return _interrupted()
    except Exception as error:
        return _interrupted() if interruption.received() else _told(error)
    if code == INTERRUPTED:  # what Typer makes of a KeyboardInterrupt; no command returns it
        return _interrupted()
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    note("Interrupted.")
    _trace()
    return INTERRUPTED


def _told(error: Exception) -> int:
    """Say on stderr what happened; returns the exit code."""
    match error:
        case TyperException():
            for line in error.format_message().splitlines():
                note(line)
            return USAGE
        case BrokenPipeError():
            return FAILED
        case DeletionSyncError():
            note(str(error))
        case OSError():
            note(f"The system refused: {error.strerror or type(error).__name__}{_file_of(error)}.")
        case _:
            note(_bug(error))
    _trace()
    return error.exit_code if isinstance(error, DeletionSyncError) else FAILED


def _file_of(error: OSError) -> str:
    return "" if error.filename is None else f": {os.fsdecode(error.filename)}"


def _bug(error: Exception) -> str:
    """One line: the kind of error and the place. Its text stays out, because it could hold anything."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    return f"This is a bug in {PROGRAM}: {type(error).__name__} at {place}. Run it again with --debug and report it."


def _trace() -> None:
    """With --debug: the traceback, without the API key."""
    if not _log.isEnabledFor(logging.DEBUG):
        return
    text = traceback.format_exc()
    for secret in _secrets():
        text = text.replace(secret, "[key]")
    for line in text.splitlines():
        sys.stderr.write(f"{printable(line)}\n")


def _secrets() -> list[str]:
    from state.credentials import KEY, load_credentials

    found = [os.environ.get(KEY, "").strip()]
    with contextlib.suppress(DeletionSyncError, OSError):
        found.append(load_credentials(os.environ, Path.cwd()).api_key.get_secret_value())
    return [secret for secret in found if secret]


def _show_log() -> None:
    """Warnings of the log are messages like any other."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    logging.getLogger().addHandler(handler)


class _Line(logging.Formatter):
    """A log line that cannot steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage())
