"""What lies in a trash starts its clock and is no candidate; a library that lost more than half asks a person."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.main import run
from state.db import reading
from tasks.opening import find_partition
from tests.kept import kept_fixture
from tests.world import World


def prepare(world: World) -> None:
    world.all_backed_up("2024/IMG_{}.JPG", 12)
    world.change_settings(thresholdFloor=100)
    world.reconcile()


made = kept_fixture(prepare)


def into_trash(world: World, name: str) -> Path:
    """Move a file into the desktop's trash folder, as a file manager does; returns its place there."""
    trash = world.folder / ".Trash-1000" / "files"
    trash.mkdir(parents=True, exist_ok=True)
    return (world.folder / name).rename(trash / Path(name).name)


def test_lesson_22_the_clock_starts_when_the_photo_goes_into_the_trash_and_nothing_goes_while_it_lies_there(
    world: World,
) -> None:
    there = into_trash(world, "2024/IMG_1.JPG")
    first = world.reconcile()
    assert (first.counts["held"], first.counts["delete"]) == (0, 0)  # it is alive: no candidate yet
    world.pass_days(10)
    world.reconcile()
    there.unlink()
    emptied = world.reconcile()
    assert (emptied.counts["held"], emptied.counts["delete"]) == (1, 0)
    world.pass_days(5)  # 15 days after it went into the trash, 5 after it left it
    assert world.reconcile().counts["delete"] == 1


def test_long_in_the_trash_is_still_no_candidate(world: World) -> None:
    into_trash(world, "2024/IMG_1.JPG")
    world.reconcile()
    world.pass_days(60)
    after = world.reconcile()
    assert (after.counts["held"], after.counts["delete"], after.counts["review"]) == (0, 0, 0)


def test_lesson_4_a_photo_put_back_from_the_trash_serves_a_whole_quarantine_when_it_is_deleted_again(
    world: World,
) -> None:
    there = into_trash(world, "2024/IMG_1.JPG")
    world.reconcile()
    world.pass_days(13)
    there.rename(world.folder / "2024" / "IMG_1.JPG")
    world.reconcile()
    world.pass_days(13)
    world.remove("2024/IMG_1.JPG")
    again = world.reconcile()
    assert (again.counts["held"], again.counts["delete"]) == (1, 0)


def test_lesson_1_an_edited_photo_that_was_put_back_keeps_its_original_protected(world: World) -> None:
    world.write("2024/IMG_1.JPG", b"edited")
    world.reconcile()
    there = into_trash(world, "2024/IMG_1.JPG")
    world.reconcile()
    world.pass_days(20)
    there.rename(world.folder / "2024" / "IMG_1.JPG")
    world.reconcile()
    world.pass_days(20)
    after = world.reconcile()
    assert (after.counts["held"], after.counts["delete"], after.counts["review"]) == (0, 0, 0)


def test_the_albums_of_a_photo_outlive_its_time_in_the_trash(world: World) -> None:
    world.change_settings(indexingScope={"selectedAlbums": ["photos/2024"]})
    world.reconcile()
    there = into_trash(world, "2024/IMG_1.JPG")
    world.reconcile()
    there.unlink()
    assert world.reconcile().counts["held"] == 1


def test_old_versions_kept_by_a_sync_program_confirm_nothing(world: World) -> None:
    old = world.folder / ".stversions" / "2024"
    old.mkdir(parents=True)
    (old / "IMG_1~20260301.JPG").write_bytes((world.folder / "2024/IMG_1.JPG").read_bytes())
    world.write("2024/IMG_1.JPG", b"edited")
    world.reconcile()
    world.pass_days(30)
    after = world.reconcile()
    assert (after.counts["held"], after.counts["delete"], after.counts["review"]) == (0, 0, 0)


def test_a_library_whose_photos_all_lie_in_the_trash_counts_as_empty(world: World) -> None:
    for number in range(12):
        into_trash(world, f"2024/IMG_{number}.JPG")
    after = world.reconcile()
    assert (after.outcome, after.rail) == ("aborted", "empty_local")


def test_lesson_87_a_listing_that_lost_more_than_half_asks_a_person_and_starts_no_clock(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(7):
        world.remove(f"2024/IMG_{number}.JPG")
    first = world.reconcile()
    assert (first.outcome, first.rail) == ("aborted", "collapse")
    assert "7 of the 12" in first.notes[0] and "library accept photos" in first.next_step
    world.pass_days(30)
    assert world.reconcile().rail == "collapse"

    assert run(["library", "accept", "photos", "--yes"]) == 0
    assert "7" in capsys.readouterr().out
    accepted = world.reconcile()
    assert (accepted.outcome, accepted.counts["held"], accepted.counts["delete"]) == ("nothing to do", 7, 0)
    _, partition = find_partition()
    with reading(partition) as con:
        assert con.execute("FROM accepted_losses").fetchall() == []  # it holds for one run


def test_lesson_87_what_was_accepted_covers_no_further_loss(world: World) -> None:
    for number in range(7):
        world.remove(f"2024/IMG_{number}.JPG")
    world.reconcile()
    assert run(["library", "accept", "photos", "--yes"]) == 0
    world.remove("2024/IMG_7.JPG")
    assert world.reconcile().rail == "collapse"


def test_half_of_a_library_moved_renamed_or_edited_is_no_collapse(world: World) -> None:
    for number in range(10):
        (world.folder / f"2024/IMG_{number}.JPG").rename(world.folder / f"renamed {number}.JPG")
    assert world.reconcile().rail is None
    for number in range(10):
        world.write(f"renamed {number}.JPG", f"edited {number}".encode())
    assert world.reconcile().rail is None


def test_a_trashed_file_whose_bytes_differ_starts_no_clock_before_it_is_gone(world: World) -> None:
    there = into_trash(world, "2024/IMG_1.JPG")
    there.write_bytes(b"something else")
    os.utime(there, (1, 1))
    seen = world.reconcile()
    assert seen.counts["held"] == 1  # the photo itself is gone; what lies in the trash is not it
