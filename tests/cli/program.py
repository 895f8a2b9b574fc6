"""The real console program in a process of its own, in a small world, with every output searched for the key.

`run` and `ok` fork that process from one that has imported everything (tests.cli.warm); `start` and `afresh` start it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

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


def afresh(*arguments: object, env: Mapping[str, str | None] | None = None) -> Ended:
    """Run a command line in a new interpreter, without a terminal, in the working directory of the test."""
    return ended(start(*arguments, env=env))


def run(*arguments: object, env: Mapping[str, str | None] | None = None) -> Ended:
    """The same, forked: for tests of what a command does, not of how it is loaded."""
    order = {"arguments": [*map(str, arguments)], "environment": environment(env or {}), "directory": str(Path.cwd())}
    with Path(os.devnull).open() as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = [nothing.fileno(), out.fileno(), err.fileno()]
        code = _forked(order, streams)
        printed = [_whole(stream) for stream in (out, err)]
    for key in filter(None, [os.environ.get("SERVER_API_KEY")]):
        assert key not in "".join(printed)
    return Ended(code, *printed)


def _forked(order: Mapping[str, object], streams: Sequence[int]) -> int:
    link = _warm().link
    socket.send_fds(link, [json.dumps(order).encode()], streams)
    try:
        return int(link.recv(64))
    except TimeoutError:
        end_warm()  # with the command that hangs
        raise


def _whole(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


@dataclass(frozen=True)
class _Warm:
    process: subprocess.Popen[bytes]
    link: socket.socket


_running: list[_Warm] = []


def _warm() -> _Warm:
    if not _running:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())]
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment({}), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True,
            )  # fmt: skip
        ours.settimeout(120)
        _running.append(_Warm(process, ours))
    return _running[0]


def end_warm() -> None:
    """End the process that `run` forks from, and what it forked."""
    while _running:
        warm = _running.pop()
        warm.link.close()
        os.killpg(warm.process.pid, signal.SIGKILL)
        warm.process.wait()


def ok(*arguments: object, by: Callable[..., Ended] = run) -> Ended:
    """Run a command line that must succeed."""
    found = by(*arguments)
    assert found.code == 0, found
    return found


def now() -> datetime:
    """The program's own clock is the real one, so the simulated server has it too."""
    return datetime.now(UTC)


def photos(world: World, count: int = 8) -> None:
    """A library of a few photos and one Live Photo, all backed up; nothing waits in quarantine."""
    world.all_backed_up("2024/IMG_{}.JPG", count)
    world.live_photo("2024/IMG_90")
    world.change_settings(quarantineDays=0)


def ready_to_trash(world: World, gone: Sequence[str] = ("2024/IMG_1.JPG",), count: int = 8) -> None:
    """Photos, a first dry run done, and some of them deleted locally."""
    photos(world, count)
    world.now = now()
    assert world.reconcile().outcome == "nothing to do"
    world.remove(*gone)
