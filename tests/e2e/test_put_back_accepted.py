"""A database put back from an older copy brings no acceptance of losses back: it was of other losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.db import writing
from state.libraries import accept_losses
from tasks.opening import find_partition
from tests.world import World, small_world

NAMES = [f"IMG_{number}.JPG" for number in range(20)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as world:
        world.all_backed_up("IMG_{}.JPG", 30)
        world.reconcile()
        yield world


def test_lesson_85_a_missing_disk_stops_the_run_though_an_old_copy_says_its_loss_was_accepted(world: World) -> None:
    _, partition = find_partition()
    world.remove(*NAMES)
    assert world.reconcile().rail == "collapse"
    with writing(partition) as con:
        accept_losses(con, "photos", NAMES)
    old = partition.database.read_bytes()
    for name in NAMES:
        world.write(name)
    assert world.reconcile().rail is None
    world.remove(*NAMES)
    partition.database.write_bytes(old)
    assert world.reconcile().rail == "collapse"
