"""A worker process of hashing, as its parent sees it. What it does is in ``library.hash_file``.

A process of its own because Python code holds one lock a process: small files would be hashed on one core. It is a new
program, never a copy of this one, which may have threads of a database that a copy would find in the middle of things.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field

from library.hash_file import READY, Outcome, Wanted, receive, send

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from library.hash_file import worker; worker()"


@dataclass(slots=True)
class Worker:
    """One process. ``sent`` holds the row numbers of each batch that it has not answered yet, the oldest first."""

    process: subprocess.Popen[bytes]
    sent: deque[list[int]] = field(default_factory=deque)
    ready: bool = False

    def give(self, rows: list[int], files: list[Wanted]) -> None:
        """Hand over a batch. A process that is gone shows when its answer is taken."""
        assert self.process.stdin is not None
        self.sent.append(rows)
        with contextlib.suppress(BrokenPipeError):
            send(self.process.stdin, files)

    def take(self) -> list[Outcome]:
        """The answer to the oldest batch. Raises EOFError when the process ended."""
        assert self.process.stdout is not None
        if not self.ready:
            self.ready = receive(self.process.stdout) == READY
        answer: list[Outcome] = receive(self.process.stdout)
        self.sent.popleft()
        return answer

    def kill(self) -> None:
        """Kill the process, wherever it is. Whoever waits for its answer gets EOFError."""
        self.process.kill()

    def end(self) -> None:
        """Kill the process and wait for it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what a pipe still holds for a process that is gone
                pipe.close()


def start() -> Worker | None:
    """A new worker, or None where this system cannot start one.

    It is in a process group of its own: Ctrl-C reaches the parent alone, which then ends it.
    """
    places = [os.path.abspath(place) for place in sys.path]  # noqa: PTH100  ('' is the working directory)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError:
        return None
    return Worker(process)
