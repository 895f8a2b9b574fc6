"""The one clock of a run. The demo and the tests shift it; nothing that a user can set reaches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(UTC)


_source: Callable[[], datetime] = _system


def now() -> datetime:
    """The time, aware, in UTC."""
    return _source()


def naive_now() -> datetime:
    """The time as the relations hold it: UTC without a zone."""
    return now().replace(tzinfo=None)


@contextmanager
def clock_of(source: Callable[[], datetime]) -> Iterator[None]:
    """Use another clock inside the block, in every thread of this process."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
