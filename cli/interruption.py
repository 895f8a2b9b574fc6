"""Ctrl-C: whether it was pressed. DuckDB makes an error of its own out of an interruption, so the exception alone is no
sign of it. Nothing heavy is imported here.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from engine.database import interrupt_queries

if TYPE_CHECKING:
    from types import FrameType

_received: list[int] = []


def heed() -> None:
    """From here on a SIGINT is a KeyboardInterrupt that is remembered; one that the shell had ignored stays so."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def received() -> bool:
    """Whether there was a SIGINT since ``heed``. Then whatever exception comes is the interruption."""
    return bool(_received)


def leave() -> None:
    """A further SIGINT ends the process at once, without a traceback: nothing is left to be put away."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    interrupt_queries()
    raise KeyboardInterrupt
