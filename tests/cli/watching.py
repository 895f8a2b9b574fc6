"""A `watch` that runs in a process of its own, and what it prints, line by line."""

from __future__ import annotations

import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cli.program import start

QUICK = ("--settle", "0.2", "--at-most", "0.05", "--cool-down", "0")
PATIENCE = 60.0


@dataclass
class Watching:
    """``lines``: every line so far, of both streams."""

    process: subprocess.Popen[bytes]
    selector: selectors.BaseSelector
    lines: list[str] = field(default_factory=list)
    _rest: dict[int, bytes] = field(default_factory=dict)
    _seen: int = 0

    def until(self, text: str, seconds: float = PATIENCE) -> str:
        """The next line that holds the text. Fails when the program ends, or after some seconds."""
        until = time.monotonic() + seconds
        while True:
            while self._seen < len(self.lines):
                line = self.lines[self._seen]
                self._seen += 1
                if text in line:
                    return line
            assert time.monotonic() < until and self._read(until - time.monotonic()), (text, self.lines)

    def quiet_for(self, seconds: float) -> list[str]:
        """The lines that come within so many seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self._read(left):
                break
        found = self.lines[self._seen :]
        self._seen = len(self.lines)
        return found

    def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; returns the exit code and how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        while self._read(PATIENCE):
            pass
        return self.process.wait(PATIENCE), time.monotonic() - began

    def _read(self, seconds: float) -> bool:
        if not self.selector.get_map():
            return False
        for key, _ in self.selector.select(seconds):
            data = key.fileobj.read1(65536)  # type: ignore[union-attr]
            if not data:
                self.selector.unregister(key.fileobj)
            *whole, rest = (self._rest.get(key.fd, b"") + data).split(b"\n")
            self._rest[key.fd] = rest
            self.lines += [line.decode() for line in whole]
        return True


@contextmanager
def watching(
    *arguments: object, env: Mapping[str, str | None] | None = None, before: Sequence[str] = ()
) -> Iterator[Watching]:
    """The program `watch`, quick to settle; killed at the end of the block if it is still there.

    ``before``: a command line that starts another one, put before it.
    """
    process = start("watch", *QUICK, *arguments, env=env, before=before)
    with process, selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ)
        try:
            yield Watching(process, selector)
        finally:
            process.kill()
