"""How a long-running command ends: Ctrl-C and SIGTERM, and what they may interrupt.

Nothing breaks where a process is killed, but whoever only asks it to end gets its batch of deletions brought to an end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from types import FrameType
from typing import Any

from cli.output import note
from engine.database import interrupt_queries
from engine.errors import DeletionSyncError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Stopping:
    """``event`` is set by the first signal. It interrupts a run at once; a batch of deletions takes a second one."""

    event: Event = field(default_factory=Event)
    by: int | None = None
    _running: bool = False
    _in_batch: bool = False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Handle both signals inside the block. For the main thread."""
        before = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside the block a signal is a KeyboardInterrupt."""
        self._running = True
        try:
            self._check()
            yield
        finally:
            self._running = self._in_batch = False

    def call(self, step: Any, *arguments: Any) -> Any:
        """A flows.pipeline.Call: the direct way, where a batch is tagged and trashed before a first signal counts."""
        from flows import direct
        from tasks import delete, tag

        self._in_batch = step is tag.STEP or step is delete.STEP
        try:
            answer = direct.call(step, *arguments)
        except Exception as error:
            if self.by is None or self._in_batch or isinstance(error, DeletionSyncError):
                raise
            raise KeyboardInterrupt from error  # DuckDB makes an error of its own out of an interruption
        if step is not tag.STEP:
            self._in_batch = False
            self._check()
        return answer

    def _check(self) -> None:
        if self.event.is_set():
            raise KeyboardInterrupt

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        again, self.by = self.by is not None, number
        self.event.set()
        if not self._running:
            return
        if self._in_batch and not again:
            note("It ends after this batch; once more ends it at once.")
            return
        interrupt_queries()
        raise KeyboardInterrupt
