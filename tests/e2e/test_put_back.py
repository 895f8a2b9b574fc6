"""A database put back from an older copy: its quarantines counted days that it did not see, so they begin anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfirmationNeeded
from state import put_back
from tasks.opening import find_partition
from tests.kept import Made, kept_fixture
from tests.world import World


def prepare(world: World) -> None:
    for number in range(8):
        world.backed_up(f"IMG_{number}.JPG")
    world.change_settings(thresholdFloor=100)
    world.reconcile()


made = kept_fixture(prepare)


@pytest.fixture
def world(made: Made) -> World:
    return made()


def database() -> Path:
    return find_partition()[1].database


def test_a_photo_that_an_old_copy_holds_as_deleted_serves_a_whole_quarantine(world: World) -> None:
    photo = (world.folder / "IMG_1.JPG").read_bytes()
    world.remove("IMG_1.JPG")
    world.reconcile()
    old = database().read_bytes()
    world.write("IMG_1.JPG", photo)
    world.reconcile()
    world.remove("IMG_1.JPG")
    world.pass_days(30)
    database().write_bytes(old)
    after = world.reconcile(dry_run=False)
    assert after.dry_run and any("put back" in note for note in after.notes)
    assert (after.counts["review"], after.counts["delete"]) == (1, 0)
    world.pass_days(13)
    assert world.reconcile().counts["held"] == 1
    world.pass_days(2)
    assert world.reconcile().counts["delete"] == 1


def test_a_plan_of_an_old_copy_is_refused(world: World) -> None:
    world.remove("IMG_1.JPG")
    world.reconcile()
    world.pass_days(15)
    plan = world.reconcile()
    old = database().read_bytes()
    world.pass_days(1)
    world.reconcile()
    database().write_bytes(old)
    with pytest.raises(ConfirmationNeeded, match="lost or reset"):
        world.apply(plan)
    assert not world.trashed()


def test_a_run_that_ends_between_its_commit_and_the_mark_is_no_copy(world: World) -> None:
    mark = find_partition()[1].path / put_back.FILE
    before = mark.read_bytes()
    world.remove("IMG_1.JPG")
    world.reconcile()
    mark.write_bytes(before)  # as if it had been killed there
    world.pass_days(15)
    assert world.reconcile().counts["delete"] == 1


@pytest.mark.parametrize("content", [b"", b"{}", b'{"merges": "7"}', b'{"merges": 1e400}', b"\xff"])
def test_a_mark_that_says_nothing_counts_as_newer_and_is_written_anew(world: World, content: bytes) -> None:
    mark = find_partition()[1].path / put_back.FILE
    mark.write_bytes(content)
    assert any("put back" in note for note in world.reconcile().notes)
    assert not any("put back" in note for note in world.reconcile().notes)
