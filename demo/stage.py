"""Where the demo plays: a folder of its own, a simulated server on loopback, a clock to move on, an own environment.

Nothing of the user's is read or written, and nothing is left behind.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from server.client import HISTORY_SCOPES, NORMAL_SCOPES
from server.simulator import Simulator, serving
from tasks import clock
from tasks.summary import Summary

TOOL = "deletion-sync"  # the name of the tool's key in the server's request log


@dataclass(slots=True)
class MovableClock:
    """A clock that runs on from ``start`` and can be moved on by days."""

    start: datetime
    begun: float = field(default_factory=time.monotonic)
    passed: timedelta = timedelta()

    def now(self) -> datetime:
        return self.start + self.passed + timedelta(seconds=time.monotonic() - self.begun)

    def pass_days(self, days: int) -> None:
        self.passed += timedelta(days=days)


@dataclass(slots=True)
class Stage:
    """One performance. ``planned`` is the plan that the story shows, approves and undoes."""

    photos: Path
    simulator: Simulator
    clock: MovableClock
    url: str
    phone_key: str = field(repr=False)
    ids: dict[str, str] = field(default_factory=dict)  # asset id by path below ``photos``
    planned: Summary | None = None

    def changes_sent(self) -> int:
        """How many requests the tool has sent that change what the server keeps; the phone's uploads are none."""
        return sum(request.key == TOOL for request in self.simulator.mutations())


@contextmanager
def staged(version: str, *, kept: Path | None = None) -> Iterator[Stage]:
    """A stage for one performance. All its files are in ``kept``, or in a temporary folder removed at the end.

    The clocks of both sides are one, and process-wide; so is the environment, which is put back at the end.
    """
    with ExitStack() as cleanup:
        root = kept or Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="deletion-sync-demo-")))
        moving = MovableClock(datetime.now(UTC))
        simulator = Simulator(version=version, clock=moving.now)
        user_id = simulator.add_user("Alice", "alice@example.com")
        tool_key = simulator.add_key(user_id, NORMAL_SCOPES | HISTORY_SCOPES, name=TOOL)
        phone_key = simulator.add_key(user_id, ["asset.upload"], name="phone")
        url = cleanup.enter_context(serving(simulator))
        cleanup.enter_context(clock.clock_of(moving.now))
        own = {"DELETION_SYNC_HOME": str(root / "state"), "SERVER_URL": url, "SERVER_API_KEY": tool_key}
        cleanup.enter_context(_environment(own))
        photos = root / "photos"
        photos.mkdir()
        yield Stage(photos, simulator, moving, url, phone_key)


@contextmanager
def _environment(own: Mapping[str, str]) -> Iterator[None]:
    """``own`` over the user's environment, in this process only."""
    before = dict(os.environ)
    os.environ.update(own)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
