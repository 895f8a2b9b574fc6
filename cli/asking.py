"""Asking a person before something that cannot be taken back by the same command."""

from __future__ import annotations

import sys

from cli.output import note, printable
from engine.errors import ConfirmationNeeded


def confirm(question: str, *, yes: bool) -> None:
    """Returns when ``yes`` is set or a person types yes at the terminal. The question goes to stderr.

    Raises ConfirmationNeeded for any other answer, and where nobody can be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationNeeded(
            "This wants a confirmation, and there is no terminal to ask at. Nothing was done.",
            "Run it at a terminal, or give --yes.",
        )
    note(question)
    sys.stderr.write(printable("Type yes to go on: "))
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        note("Nothing was done.")
        raise
    if answer.strip().lower() != "yes":
        raise ConfirmationNeeded("Not confirmed; only the word yes counts. Nothing was done.")
