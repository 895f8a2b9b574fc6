"""What the tests of bad days and of promises share: a world with something due, and what must not have happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from state import journal
from tasks.summary import Summary
from tests.crash.stage import partition_of, quarantine, tables
from tests.world import World

STAYING = 8


def furnish(world: World) -> None:
    """Photos in two folders and a Live Photo, on both sides; a first run; deletions are due at once."""
    for number in range(STAYING):
        world.backed_up(f"{2020 + number % 2}/IMG_{number}.JPG")
    world.live_photo("2020/IMG_90")
    world.change_settings(quarantineDays=0)
    assert world.reconcile().outcome == "nothing to do"


def delete_some(world: World) -> set[str]:
    """One photo and the Live Photo go; their names."""
    names = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}
    world.remove(*names)
    return names


def plan(world: World) -> Summary:
    planned = world.reconcile()
    assert planned.outcome == "planned", planned
    return planned


@contextmanager
def nothing_changes(world: World, *, also_remembered: bool = True) -> Iterator[None]:
    """Inside, no request that changes the server is sent, and nothing that is remembered goes or begins."""
    sent, before = len(world.simulator.mutations()), tables(partition_of(world)) if also_remembered else {}
    yield
    assert len(world.simulator.mutations()) == sent
    if also_remembered:
        assert tables(partition_of(world)) == before


def aborts(world: World, rail: str, **request: Any) -> Summary:
    """A run that this rail ends; it starts no quarantine and sends nothing."""
    with nothing_changes(world):
        summary = world.reconcile(**request)
    assert (summary.outcome, summary.rail) == ("aborted", rail), summary
    assert summary.next_step and summary.notes
    return summary


def all_is_well(world: World, names: set[str]) -> None:
    """The next run plans these names, and an apply trashes exactly them."""
    assert world.apply(plan(world)).outcome == "trashed"
    assert world.trashed() == names


def reasons(world: World) -> dict[str, str]:
    """Per file name: the journal's last reason."""
    lines = journal.read(partition_of(world)).records
    return {line.file_name: line.reason or "" for line in lines if line.status and line.file_name}


def confirmed(world: World) -> dict[str, Any]:
    """Confirmation dates by checksum."""
    return dict(quarantine(partition_of(world)))
