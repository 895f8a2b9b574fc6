"""The progress display: phase, done of total, rate and time left, on a terminal's stderr; elsewhere nothing.

It only counts what the steps report; it asks no database and no server.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

_SAMPLE_SECONDS = 0.5
_SAMPLES = 20  # rates that the estimate looks back on
_ENOUGH = 4  # rates before a time left is shown at all
_VAGUE = 1.3  # quartiles of the estimate further apart than this are shown as a range


@dataclass(slots=True)
class Meter:
    """How far one phase is. ``clock`` gives seconds. What was done at its first report is no work of this phase."""

    clock: Callable[[], float] = time.monotonic
    phase: str = ""
    done: int = 0
    total: int | None = None
    _began: float = 0.0
    _sampled: tuple[float, int] = (0.0, 0)
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, phase: str, done: int, total: int | None) -> None:
        """A library.protocol.Progress; from any thread."""
        now = self.clock()
        with self._lock:
            if phase != self.phase:
                self.phase, self._began, self._sampled = phase, now, (now, done)
                self._rates.clear()
            self.done, self.total = done, total
            since, before = self._sampled
            if now - since >= _SAMPLE_SECONDS:
                if done > before:
                    self._rates.append((done - before) / (now - since))
                self._sampled = (now, done)

    def line(self) -> str:
        """The display: ``hash  1,200 of 5,000  84/s  about 45 s left``. Empty before the first report."""
        with self._lock:
            if not self.phase:
                return ""
            parts = [self.phase]
            if self.total is not None:
                parts.append(f"{self.done:,} of {self.total:,}")
            elif self.done:
                parts.append(f"{self.done:,}")
            if self._rates:
                parts.append(f"{median(self._rates):,.3g}/s")
            left = self._left()
            parts.append(left or f"{_duration(self.clock() - self._began)} so far")
            return "  ".join(parts)

    def _left(self) -> str:
        if self.total is None or len(self._rates) < _ENOUGH or self.done >= self.total:
            return ""
        remaining = self.total - self.done
        slow, middle, fast = quantiles(self._rates, n=4)
        if slow > 0 and fast / slow <= _VAGUE:
            return f"about {_duration(remaining / middle)} left"
        if slow <= 0:
            return "time left unknown"
        return f"{_duration(remaining / fast)} to {_duration(remaining / slow)} left"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(0, round(seconds))} s"
    if seconds < 100 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of the steps inside the block, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from tasks.progress import shown_by

    meter = Meter()
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    display = Live(
        get_renderable=lambda: Text(meter.line(), overflow="ellipsis", no_wrap=True),
        console=console,
        refresh_per_second=4,
        transient=True,
    )
    with shown_by(meter.report), display:
        yield
