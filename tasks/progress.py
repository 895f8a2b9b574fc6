"""Where the steps tell how far they are. Who shows it (a terminal, nobody) sets the sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from library.protocol import Progress, silent

_sink: Progress = silent


def report(phase: str, done: int, total: int | None) -> None:
    """``phase`` is a step's name; ``total`` is None while it is not known."""
    _sink(phase, done, total)


@contextmanager
def shown_by(sink: Progress) -> Iterator[None]:
    """Send progress to ``sink`` inside the block."""
    global _sink
    before, _sink = _sink, sink
    try:
        yield
    finally:
        _sink = before
