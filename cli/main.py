"""The console script `deletion-sync`. It heeds Ctrl-C before anything large is imported; the commands are in
cli.commands.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cli import interruption

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run the command line and end with its exit code; an interrupted one always says so."""
    interruption.heed()
    code = FAILED
    try:
        try:
            from cli.commands import program

            code = program(sys.argv[1:])
        finally:
            interruption.leave()
    except BaseException:
        if not interruption.received():
            raise
    if interruption.received() and code != INTERRUPTED:
        sys.stderr.write("Interrupted.\n")
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code. Every error has been told on stderr, without a secret."""
    from cli import commands

    return commands.run(arguments)
