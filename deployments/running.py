"""What is known of the `up` that runs in a home: who it is, where its UI is, and the processes that it started.

The lock says whether one runs; the file beside it says what that one is.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from deployments.place import Place
from engine.errors import PartitionBusy
from state.files import read_bytes, write_atomic
from state.lock import file_lock

_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """A process that leads a group of that number. ``since`` is UTC, RFC 3339."""

    pid: int
    since: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Running:
    """``url`` is where the UI is; ``parts`` are the processes by name. ``since`` is UTC, RFC 3339."""

    pid: int
    since: str
    url: str
    directory: str
    parts: dict[str, Part]

    @property
    def ready(self) -> bool:
        return bool(self.parts) and all(part.ready for part in self.parts.values())


def save(place: Place, running: Running) -> None:
    """Write what runs. Raises StateUnwritable."""
    write_atomic(place.running, (json.dumps(asdict(running), indent=2) + "\n").encode())


def load(place: Place) -> Running | None:
    """What the last `up` wrote, whether it still runs or not; None: there was none, or it wrote nothing readable."""
    try:
        found = json.loads(read_bytes(place.running) or b"")
        parts = {str(name): Part(**part) for name, part in found["parts"].items()}
        return Running(int(found["pid"]), str(found["since"]), str(found["url"]), str(found["directory"]), parts)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Be the one `up` of this home, and say so at once. Raises PartitionBusy, saying who runs; StateUnwritable.

    Whoever sees the lock held and reads the file must not take the number of an earlier `up` for this one's: by now it
    may be somebody else's.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock(place.lock, _WAIT_SECONDS))
        except PartitionBusy:
            raise _busy(place) from None
        _begin(place)
        yield


def now_running(place: Place) -> Running | None:
    """The `up` that runs now, or None. For display: it may end at once."""
    if not place.lock.exists():
        return None
    try:
        with file_lock(place.lock, 0, shared=True):
            return None
    except PartitionBusy:
        return load(place) or Running(0, "", "", "", {})


def _begin(place: Place) -> None:
    """Write who runs now. The processes of an earlier `up` stay, for what is left of them is ended by their numbers."""
    before = load(place)
    parts = {} if before is None else {name: replace(part, ready=False) for name, part in before.parts.items()}
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    save(place, Running(os.getpid(), since, "", "", parts))


def _busy(place: Place) -> PartitionBusy:
    found = load(place)
    where = "" if found is None or not found.url else f", {found.url}"
    who = "" if found is None else f" (pid {found.pid}, since {found.since[11:16]} UTC{where})"
    return PartitionBusy(
        f"deletion-sync is up already in {place.home.root}{who}.",
        "Use the one that runs, or end it with `deletion-sync down`.",
    )
