"""How the processes of `up` end when `up` itself is killed: each reads a named pipe that only `up` holds open.

The system closes it with its holder, whatever ended that; the readers then see its end and kill their process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from deployments.place import LIFELINE
from state.files import ensure_folder


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a new pipe of this name open. Whoever still reads an older one has seen its end already."""
    ensure_folder(path.parent)
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    # A writer alone may not open a pipe that nobody reads; for reading too, it may.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield
    finally:
        os.close(descriptor)


def follow(environ: Mapping[str, str], end: Callable[[], None] | None = None) -> None:
    """End this process's group when the holder of the pipe that ``environ`` names is gone; without one, do nothing.

    ``end``: what to do instead. Nothing is asked first: every process of `up` may be killed at any moment.
    """
    path = environ.get(LIFELINE)
    if path is None:
        return
    threading.Thread(target=_watch, args=(path, end or _end_group), name="lifeline", daemon=True).start()


def _watch(path: str, end: Callable[[], None]) -> None:
    try:
        # Without waiting: where nobody holds it any more, opening would wait for ever, and reading ends at once.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        end()
        return
    os.set_blocking(descriptor, True)
    with contextlib.suppress(OSError):
        os.read(descriptor, 1)
    os.close(descriptor)
    end()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
