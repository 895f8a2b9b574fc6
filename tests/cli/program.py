"""The real console program in a process of its own, in a small world, with every output searched for the key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.world import World

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """What a process printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's environment with the repository importable; None takes a variable away."""
    merged: dict[str, str | None] = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_API_URL": None, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(
    *arguments: object, env: Mapping[str, str | None] | None = None, before: Sequence[str] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """The program, started; Ctrl-C works in it also where this process ignores the signal.

    ``before``: a command line that starts another one, put before it.
    """
    return subprocess.Popen(
        [*before, sys.executable, "-m", "cli", *map(str, arguments)],
        env=environment(env or {}),
        preexec_fn=heed_interrupts,  # noqa: PLW1509  (it takes no lock)
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def ended(process: subprocess.Popen[bytes]) -> Ended:
    """Wait for it. No output may hold the API key."""
    out, err = (text or b"" for text in process.communicate(timeout=120))  # None: it went elsewhere
    for key in filter(None, [os.environ.get("SERVER_API_KEY")]):
        assert key.encode() not in out + err
    return Ended(process.returncode, out.decode(), err.decode())


def run(*arguments: object, env: Mapping[str, str | None] | None = None) -> Ended:
    """Run a command line, without a terminal, in the working directory of the test."""
    return ended(start(*arguments, env=env))


def ok(*arguments: object) -> Ended:
    """Run a command line that must succeed."""
    found = run(*arguments)
    assert found.code == 0, found
    return found


def now() -> datetime:
    """The program's own clock is the real one, so the simulated server has it too."""
    return datetime.now(UTC)


def photos(world: World, count: int = 8) -> None:
    """A library of a few photos and one Live Photo, all backed up; nothing waits in quarantine."""
    for number in range(count):
        world.backed_up(f"2024/IMG_{number}.JPG")
    world.live_photo("2024/IMG_90")
    world.change_settings(quarantineDays=0)


def ready_to_trash(world: World, gone: Sequence[str] = ("2024/IMG_1.JPG",)) -> None:
    """Photos, a first dry run done, and some of them deleted locally."""
    photos(world)
    world.now = now()
    assert world.reconcile().outcome == "nothing to do"
    world.remove(*gone)
