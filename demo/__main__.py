"""`python -m demo`: the main job, from a photo library to the server's trash and back, on a simulated server.

The story itself is in demo.story.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.stage import Stage

SERVER_VERSIONS = ("2.7.5", "3.1.0")
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """0: every expectation held; 1: one did not, and is named; 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The main job, on a simulated photo server.")
    parser.add_argument("--server-version", choices=SERVER_VERSIONS, default="3.1.0", help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="keep the photos and the state, and say where they are")
    chosen = parser.parse_args(arguments)
    interruptions: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interruptions.append(number)
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, interrupt)
    status = INTERRUPTED
    try:
        status = _perform(chosen.server_version, keep=chosen.keep)
    except BaseException:  # DuckDB makes an error of its own out of an interruption of a query
        if not interruptions:
            raise
    finally:
        signal.signal(signal.SIGINT, handler)
    if interruptions:
        print("\nInterrupted.", flush=True)
        status = INTERRUPTED
    return status


def _perform(version: str, *, keep: bool) -> int:
    from demo.stage import staged

    kept = Path(tempfile.mkdtemp(prefix="deletion-sync-demo-")) if keep else None
    print(
        f"A photo server of version {version} is simulated on this computer. Nothing of yours is read or changed.",
        flush=True,
    )
    try:
        with staged(version, kept=kept) as stage:
            try:
                return show(stage)
            finally:
                # From here on things are put away, which a second Ctrl-C must not break off.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        if kept is not None:
            print(f"\nKept: {kept}", flush=True)


def show(stage: Stage) -> int:
    """Tell the story on a stage; 0 when all of it was as expected, else 1, and what was not is said."""
    from demo.story import tell
    from demo.telling import NotAsExpected
    from engine.errors import DeletionSyncError

    started = time.monotonic()
    try:
        tell(stage)
    except NotAsExpected as error:
        print(f"   NOT SO: {error}\n\nThe demo failed: it is not so that {error}.", flush=True)
        return 1
    except DeletionSyncError as error:
        print(f"   ERROR: {error}\n\nThe demo failed by an error: {error}", flush=True)
        return 1
    print(f"\nAll of it was as expected ({time.monotonic() - started:.0f} s).", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
