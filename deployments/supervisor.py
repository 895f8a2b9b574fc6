"""Keeps Prefect's server and the worker running: starts them, starts them again when they end, stops them.

Each leads a process group, so that whatever it started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import IO

from deployments import lifeline, processes, running
from deployments.log import Log
from deployments.place import LISTENER, READY, Place, environment, origin, without_credentials
from engine.errors import DeletionSyncError
from state.errors import StateUnwritable
from state.files import ensure_folder

Tell = Callable[[str], None]

SERVER, WORKER = "server", "worker"

_LOOK_SECONDS = 0.2
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_STEADY_SECONDS = 60.0  # whatever ran for so long starts again after the first wait
_TRIES = 3  # of the first start
_WORKER_SECONDS, _SERVER_SECONDS = 5.0, 2.5  # from SIGTERM to SIGKILL


@dataclass(slots=True)
class _Child:
    """One process. ``keeps``: the open files that it gets; ``ends``: how often in a row it ended soon; ``again_at``:
    when it may start again.
    """

    name: str
    module: str
    environment: dict[str, str]
    keeps: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    since: str = ""
    started: float = 0.0
    ready: Event = field(default_factory=Event)
    ends: int = 0
    again_at: float = 0.0
    reader: threading.Thread | None = None


@dataclass(slots=True)
class _Family:
    """Both processes, and what is told of them. ``was_ready``: both have been, so nothing is given up any more."""

    place: Place
    port: int
    directory: Path
    log: Log
    tell: Tell
    since: str
    children: tuple[_Child, _Child]
    was_ready: bool = False
    ready: list[str] = field(default_factory=list)


def supervise(
    place: Place, listener: socket.socket, directory: Path, environ: Mapping[str, str], stop: Event, tell: Tell
) -> None:
    """Run server and worker until ``stop`` is set; both have ended then. Needs running.alone.

    ``listener`` is the server's (ports.listening), ``directory`` where `up` was started. ``tell`` gets what a person
    should read; it goes to the log, too. Raises DeletionSyncError when the first start fails again and again.
    """
    log = Log(place.log)

    def both(text: str) -> None:
        with contextlib.suppress(StateUnwritable):  # nothing ends for a log that cannot be kept
            log.write("up", text)
        tell(text)

    port = int(listener.getsockname()[1])
    whole = environment(place, port, environ)
    of_server = {**without_credentials(whole), LISTENER: str(listener.fileno())}
    children = (
        _Child(SERVER, "deployments.server", of_server, (listener.fileno(),)),
        _Child(WORKER, "deployments.worker", whole),
    )
    ensure_folder(place.work)
    _end_leftovers(place, both)
    with lifeline.held(place.lifeline):
        family = _Family(place, port, directory, log, both, _now(), children)
        began = time.monotonic()
        try:
            while not stop.is_set():
                _look(family, began)
                stop.wait(_LOOK_SECONDS)
        finally:
            _stop(family)


def _look(family: _Family, began: float) -> None:
    """One round: start what is not there, notice what ended; what became ready it says itself."""
    changed = False
    for child in family.children:
        if child.process is None and time.monotonic() >= child.again_at:
            _start(family, child)
            changed = True
        elif child.process is not None and child.process.poll() is not None:
            _ended(family, child)
            changed = True
    ready = [child.name for child in family.children if child.process is not None and child.ready.is_set()]
    if changed or ready != family.ready:
        family.ready = ready
        _save(family)
        if len(ready) == len(family.children):
            seconds = "" if family.was_ready else f" after {time.monotonic() - began:.0f} s"
            again = " again" if family.was_ready else ""
            family.tell(f"Ready{again}{seconds}. The UI is at {origin(family.port)}")
            family.was_ready = True


def _start(family: _Family, child: _Child) -> None:
    child.ready.clear()
    child.started, child.since = time.monotonic(), _now()
    child.process = subprocess.Popen(
        # -P: what lies in the working directory is never imported.
        [sys.executable, "-P", "-m", child.module],
        cwd=family.place.work, env=child.environment, start_new_session=True, pass_fds=child.keeps,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert child.process.stdout is not None
    arguments = (child.process.stdout, child, family.log)
    child.reader = threading.Thread(target=_read, args=arguments, name=child.name, daemon=True)
    child.reader.start()


def _read(stream: IO[bytes], child: _Child, log: Log) -> None:
    """Everything that a process and its own processes say goes to the log.

    It is read to its end whether or not it can be kept: on a full disk the process shall not end by a broken pipe.
    """
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip()
            if text == READY:
                child.ready.set()
            elif text:
                with contextlib.suppress(StateUnwritable):
                    log.write(child.name, text)


def _ended(family: _Family, child: _Child) -> None:
    """Plan the next start. What the process had started itself ends first: nobody looks after it any more."""
    assert child.process is not None
    code = child.process.returncode
    processes.kill_group(child.process.pid)
    child.process = None
    child.ends = 1 if time.monotonic() - child.started >= _STEADY_SECONDS else child.ends + 1
    if not family.was_ready and child.ends >= _TRIES:
        raise DeletionSyncError(f"The {child.name} does not start.", "`deletion-sync logs` shows why.")
    wait = min(_FIRST_WAIT * 2 ** (child.ends - 1), _LONGEST_WAIT)
    child.again_at = time.monotonic() + wait
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    family.tell(f"The {child.name} ended {how}. It starts again in {wait:g} s.")


def _stop(family: _Family) -> None:
    """End the worker first, so that its runs can still tell the server how they ended."""
    server, worker = family.children
    for child, seconds in ((worker, _WORKER_SECONDS), (server, _SERVER_SECONDS)):
        if child.process is None:
            continue
        if processes.end_group(child.process.pid, seconds, again=child.process.poll):
            family.tell(f"The {child.name} did not end within {seconds:g} s and was killed.")
        child.process.wait()
        if child.reader is not None:
            child.reader.join(_FIRST_WAIT)
        child.process = None
    _save(family)
    family.tell("Stopped.")


def _end_leftovers(place: Place, tell: Tell) -> None:
    before = running.load(place)
    if before is not None and processes.end_leftovers([part.pid for part in before.parts.values()]):
        tell("What an earlier `up` had left running was ended.")


def _save(family: _Family) -> None:
    parts = {
        child.name: running.Part(child.process.pid, child.since, child.ready.is_set())
        for child in family.children
        if child.process is not None
    }
    found = running.Running(os.getpid(), family.since, origin(family.port), str(family.directory), parts)
    running.save(family.place, found)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
