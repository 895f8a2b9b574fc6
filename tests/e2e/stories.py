"""Stories that happen side by side in one library: each has a folder of its own, and all of them share the runs.

A story is a test that is a generator: every ``yield`` is a real run, on the next of ``DAYS``, that trashes what is due.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.summary import Summary
from tests.crash.stage import partition_of
from tests.world import World, checksum, small_world

DAYS = (0, 1, 2, 16, 17, 40)  # what is deleted between the first two is due on the fourth
STAYS, TRASHED = "stays", "trashed"
HELD = "held: quarantine"

Story = Generator[None, None, None]
Told = dict[str, BaseException | None]


@dataclass
class Place:
    """A story's folder in the library, the one of its name in another library, and what the last run said."""

    world: World
    name: str
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.world.folder / self.name

    @property
    def elsewhere(self) -> Path:
        """This story's folder in the second registered library."""
        return self.world.folder.with_name("other") / self.name

    @property
    def outside(self) -> Path:
        """A folder that is in no library."""
        return self.world.folder.with_name("outside") / self.name

    def write(self, name: str, content: str | None = None, day: int = 0) -> str:
        """A local file of a time of its own; returns its checksum."""
        content = content if content is not None else f"{self.name} {name}"
        digest = self.world.write(f"{self.name}/{name}", content.encode())
        seconds = 1_600_000_000 + 86_400 * day + 3_600 * len(self.name) + 60 * len(self.world.ids)
        os.utime(self.folder / name, (seconds, seconds))
        return digest

    def backed_up(self, name: str, content: str | None = None, **fields: object) -> str:
        """A local file that the server has too; returns the asset id."""
        self.write(name, content)
        return self.uploaded(name, content, **fields)

    def uploaded(self, name: str, content: str | None = None, **fields: object) -> str:
        """An asset of the server, known here by ``name``."""
        content = content if content is not None else f"{self.name} {name}"
        world = self.world
        asset_id = world.simulator.add_asset(
            world.user_id,
            **{"checksum": checksum(content.encode()), "file_name": Path(name).name, **fields},  # type: ignore[arg-type]
        )
        world.ids[f"{self.name}/{name}"] = asset_id
        return asset_id

    def move(self, old: str, new: str | Path) -> None:
        target = self.folder / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / old).rename(target)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def id(self, name: str) -> str:
        return self.world.ids[f"{self.name}/{name}"]

    def __getitem__(self, name: str) -> str:
        """What became of an asset: STAYS, HELD, another ``bucket: reason``, or TRASHED."""
        return self.verdicts.get(self.id(name), STAYS)


def story(tell: Callable[[Place], Story]) -> Callable[[Told], None]:
    """Make a generator a test, which fails where the generator failed."""

    @functools.wraps(tell)
    def test(told: Told) -> None:
        error = told[tell.__name__]
        if error is not None:
            raise error

    del test.__wrapped__  # pytest would ask for the arguments of the generator
    test.tell = tell  # type: ignore[attr-defined]
    return test


def tell_all(tests: Iterable[object], root: Path) -> Told:
    """Tell the stories among ``tests`` side by side, and how each of them ended."""
    stories = {test.tell.__name__: test.tell for test in tests if hasattr(test, "tell")}
    told: Told = dict.fromkeys(stories)
    with pytest.MonkeyPatch.context() as patch, small_world(root, patch) as world:
        confirmed_once(world)
        places = {name: Place(world, f"{number:02}") for number, name in enumerate(stories)}
        going = {name: tell(places[name]) for name, tell in stories.items()}
        start = world.now
        for day in DAYS:
            world.pass_days(day - (world.now - start).days)
            for name in list(going):
                _go_on(name, going, told)
            run = world.reconcile(dry_run=False)
            assert run.rail is None, run
            verdicts = verdicts_of(world, run)
            for place in places.values():
                place.verdicts = verdicts
        for name in list(going):
            _go_on(name, going, told)
        for unfinished in going:
            told[unfinished] = AssertionError("the story asks for more runs than there are")
    return told


def confirmed_once(world: World) -> None:
    """Photos that stay, a second library, and a first deletion that a person confirmed: real runs apply their plans."""
    other = world.folder.with_name("other")
    other.mkdir()
    (other / "stays.JPG").write_bytes(b"other stays")
    world.register(other, "other")
    world.all_backed_up("staying/{}.JPG", 20)
    world.backed_up("first.JPG")
    world.change_settings(quarantineDays=0, applyScheduledRuns=True, thresholdPercent=100)
    world.reconcile()
    world.remove("first.JPG")
    world.apply(world.reconcile())
    assert world.trashed() == {"first.JPG"}
    world.change_settings(quarantineDays=14)


def verdicts_of(world: World, run: Summary) -> dict[str, str]:
    """By asset id: the bucket and reason of a run, or that it lies in the server's trash."""
    rows = pq.read_table(partition_of(world).runs / run.run_id / "decision.parquet").to_pylist()
    found = {row["asset_id"]: f"{row['bucket']}: {row['reason']}" for row in rows}
    return found | dict.fromkeys(world.simulator.trashed(world.user_id), TRASHED)


def _go_on(name: str, going: dict[str, Story], told: Told) -> None:
    try:
        with suppress(StopIteration):
            next(going[name])
            return
    except BaseException as error:
        told[name] = error
    del going[name]
