"""A database put back from an older copy: its quarantines counted days that it did not see, so they begin anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.errors import ConfirmationNeeded
from state import put_back
from tasks.opening import find_partition
from tests.kept import kept_fixture
from tests.world import World


def prepare(world: World) -> None:
    world.all_backed_up("IMG_{}.JPG", 8)
    world.change_settings(thresholdFloor=100)
    world.reconcile()


made = kept_fixture(prepare)


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


def marks() -> tuple[Path, Path]:
    return put_back._places(find_partition()[1])


def test_a_partition_that_is_put_back_as_a_whole_is_noticed(world: World, tmp_path: Path) -> None:
    folder = find_partition()[1].path
    world.remove("IMG_1.JPG")
    world.reconcile()
    shutil.copytree(folder, tmp_path / "copy")
    world.pass_days(30)
    world.reconcile()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    assert any("put back" in note for note in world.reconcile().notes)


def test_a_run_that_ends_between_its_commit_and_the_marks_is_no_copy(world: World) -> None:
    before = [mark.read_bytes() for mark in marks()]
    world.remove("IMG_1.JPG")
    world.reconcile()
    for mark, content in zip(marks(), before, strict=True):
        mark.write_bytes(content)  # as if it had been killed there
    world.pass_days(15)
    assert world.reconcile().counts["delete"] == 1


def test_it_is_told_until_a_plan_was_shown(world: World) -> None:
    old = database().read_bytes()
    world.reconcile()
    database().write_bytes(old)
    (world.folder / "away").mkdir()
    moved = [path.rename(world.folder.parent / path.name) for path in world.folder.glob("*.JPG")]
    assert world.reconcile().rail is not None
    for path in moved:
        path.rename(world.folder / path.name)
    assert any("put back" in note for note in world.reconcile().notes)


@pytest.mark.parametrize("which", [0, 1])
def test_a_mark_that_was_removed_counts_as_newer(world: World, which: int) -> None:
    world.reconcile()
    marks()[which].unlink()
    assert any("put back" in note for note in world.reconcile().notes)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"merges": "7"}', b'{"merges": 9007199254740993}', b"\xff"])
def test_a_mark_that_says_nothing_counts_as_newer_and_is_written_anew(world: World, content: bytes) -> None:
    mark = find_partition()[1].path / put_back.FILE
    mark.write_bytes(content)
    assert any("put back" in note for note in world.reconcile().notes)
    assert not any("put back" in note for note in world.reconcile().notes)


def test_without_any_marks_only_a_database_of_one_merge_is_believed(world: World) -> None:
    for mark in marks():
        mark.unlink()
    assert not any("put back" in note for note in world.reconcile().notes)
    for mark in marks():
        mark.unlink()
    assert any("put back" in note for note in world.reconcile().notes)


def test_after_a_database_was_put_back_a_person_confirms_the_first_deletion_again(world: World) -> None:
    world.change_settings(applyScheduledRuns=True, quarantineDays=0)
    world.remove("IMG_1.JPG")
    world.apply(world.reconcile())
    old = database().read_bytes()
    world.reconcile()
    database().write_bytes(old)
    assert world.reconcile(dry_run=False).dry_run
    world.remove("IMG_2.JPG")
    asked = world.reconcile(dry_run=False)
    assert asked.outcome == "planned" and world.trashed() == {"IMG_1.JPG"}, asked
    world.apply(asked)
    world.remove("IMG_3.JPG")
    assert world.reconcile(dry_run=False).outcome == "trashed"
    assert world.trashed() == {"IMG_1.JPG", "IMG_2.JPG", "IMG_3.JPG"}
