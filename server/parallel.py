"""The same call over many things in a few threads, stopping at the first failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 8


def side_by_side(
    work: Callable[[T], R], things: Iterable[T], *, threads: int = THREADS, stop: threading.Event | None = None
) -> list[R]:
    """The results in the order of ``things``. The first error ends what is not begun, sets ``stop``, and is raised."""
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="server") as pool:
        futures = [pool.submit(work, thing) for thing in things]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            if stop is not None:
                stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
