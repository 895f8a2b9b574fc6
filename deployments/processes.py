"""Process groups: who is in one, and how one ends. What is ended belongs to an `up` of this home."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

_OURS = " -m deployments."
_LOOK_SECONDS = 0.05


def end_group(leader: int, seconds: float, *, again: Callable[[], object] = lambda: None) -> bool:
    """SIGTERM to the group, SIGKILL after that many seconds; returns whether it took that.

    ``again`` is called while it waits, such as to reap a child.
    """
    until = time.monotonic() + seconds
    _send(leader, signal.SIGTERM)
    while _alive(leader, again):
        if time.monotonic() >= until:
            kill_group(leader)
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def kill_group(leader: int) -> None:
    """SIGKILL to the group, if there is one."""
    _send(leader, signal.SIGKILL)


def end_leftovers(leaders: list[int]) -> list[int]:
    """Kill what an earlier `up` left running, by the leaders of its groups; returns which groups there were.

    A number may belong to somebody else by now: only a group in which a module of ours runs is touched.
    """
    found = [leader for leader in leaders if any(_OURS in command for command in _commands(leader))]
    for leader in found:
        kill_group(leader)
    return found


def _commands(leader: int) -> list[str]:
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pgid=,command="], capture_output=True, text=True, check=False, errors="replace"
    ).stdout
    rows = (line.split(None, 1) for line in listing.splitlines())
    return [row[1] for row in rows if len(row) == 2 and row[0] == str(leader)]


def _alive(leader: int, again: Callable[[], object]) -> bool:
    again()
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group of zombies
        return False
    return True


def _send(leader: int, number: int) -> None:
    if leader > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
