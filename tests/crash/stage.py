"""A stage on which the client is killed again and again: a world whose both sides can be put back to a saved moment."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from state import journal
from state.db import reading
from state.partition import Partition
from tasks.opening import find_partition
from tests.world import World

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("assets", "by_checksum", "tags_by_id", "tag_ids", "members", "metadata_jobs", "counter")
REMEMBERED = ("observed", "confirmed_deleted", "edit_anchors", "retired", "exclusions", "detached", "local_index")


@dataclass(frozen=True, slots=True)
class Moment:
    """Both sides at one time: a copy of the state folder, and of what the server holds."""

    home: Path
    server: dict[str, Any]
    now: datetime


@dataclass
class Client:
    """The client in processes of its own (tests.crash.child). Every order ends, or is killed."""

    world: World
    process: subprocess.Popen[str]
    pid: int = 0
    known: threading.Event = field(default_factory=threading.Event)

    def start(self, job: str, *, die_at: int | None = None, **arguments: Any) -> None:
        """Let a job begin. ``die_at``: the write at which it kills itself."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.known.clear()
        order = {"job": job, "arguments": arguments, "now": self.world.now.isoformat(), "die_at": die_at}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self.pid = int(self.process.stdout.readline())
        self.known.set()

    def end(self) -> dict[str, Any]:
        """How the job ended."""
        assert self.process.stdout is not None
        outcome: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "bug" not in outcome, outcome
        return outcome

    def run(self, job: str, *, die_at: int | None = None, **arguments: Any) -> dict[str, Any]:
        self.start(job, die_at=die_at, **arguments)
        return self.end()

    def run_killed_at_request(self, number: int, job: str, *, took_effect: bool, **arguments: Any) -> dict[str, Any]:
        """A job that dies when its N-th request has reached the server, which then acts on it or does not."""
        faults = self.world.simulator.faults
        seen = 0

        def arrived(method: str, path: str) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                assert self.known.wait(60)
                os.kill(self.pid, signal.SIGKILL)

        faults.arrived = arrived
        faults.add("*", "/", drop_connection=True, after=number - 1, before_effect=not took_effect)
        try:
            return self.run(job, **arguments)
        finally:
            faults.arrived = None
            faults.clear()


@contextmanager
def client_of(world: World, *prefix: str) -> Iterator[Client]:
    """A client with the credentials and the state folder of the world. ``prefix``: a command that starts it."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.crash.child"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        yield Client(world, process)
    finally:
        process.kill()
        process.communicate()


def saved(world: World, name: str) -> Moment:
    """The world as it is now."""
    home = world.home.with_name(f"home-{name}")
    shutil.copytree(world.home, home)
    simulator = world.simulator
    with simulator.lock:
        server = copy.deepcopy({key: getattr(simulator, key) for key in KEPT})
    return Moment(home, server, world.now)


def put_back(world: World, moment: Moment) -> None:
    """Make the world again what it was. The photos on the disk are not part of it: nothing writes to them."""
    shutil.rmtree(world.home)
    shutil.copytree(moment.home, world.home)
    simulator = world.simulator
    with simulator.lock:
        for key, value in copy.deepcopy(moment.server).items():
            setattr(simulator, key, value)
        simulator.listings.clear()
        simulator.orders.clear()
        simulator.requests.clear()
    world.now = moment.now


def partition_of(world: World) -> Partition:
    return find_partition()[1]


def tables(partition: Partition) -> dict[str, list[tuple[Any, ...]]]:
    """Everything remembered, without the moments at which it was first seen."""
    found = {}
    with reading(partition) as con:
        for table in REMEMBERED:
            columns = "* EXCLUDE (first_observed_at)" if table == "observed" else "*"
            found[table] = sorted(con.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)
    return found


def quarantine(partition: Partition) -> dict[str, datetime]:
    """Confirmation dates by checksum."""
    with reading(partition) as con:
        return dict(con.execute("SELECT checksum, confirmed_at FROM confirmed_deleted").fetchall())


def deletion_dates(world: World) -> dict[str, datetime]:
    """When each asset in the trash went there."""
    with world.simulator.lock:
        return {a.asset_id: a.deleted_at for a in world.simulator.assets.values() if a.deleted_at is not None}


def statuses(partition: Partition) -> dict[str, dict[str, str | None]]:
    """Per run, per asset id, motion videos too: the last word of the journal, whose chain must hold."""
    contents = journal.read(partition)
    assert (contents.broken, contents.chain_breaks) == ((), ())
    found: dict[str, dict[str, str | None]] = {}
    for run_id, lines in journal.fold(contents.records).items():
        for line in lines.values():
            for asset_id in filter(None, (line.asset_id, line.motion_id)):
                found.setdefault(run_id, {})[asset_id] = line.status
    return found
