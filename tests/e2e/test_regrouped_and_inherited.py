"""What lives on under another id, in another grouping or in a place that is not read keeps protecting what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from state.db import reading
from tasks.opening import find_partition
from tests.e2e.split_pair import CUT_VIDEO, STILL, VIDEO, both_backed_up, others_backed_up
from tests.kept import kept_fixture
from tests.library.live_photo_files import apple_note, picture
from tests.world import World

EDITED_STILL = picture(apple_note("ONE-AND-THE-SAME")) + b"\0edited"


made = kept_fixture(others_backed_up)


@contextmanager
def incomplete(world: World) -> Iterator[None]:
    """A run in here leaves a big file for later, and so is incomplete."""
    world.write("other/IMG_99.JPG", b"x" * 2_000_000)
    world.change_settings(hashSizeLimitMB=1)
    yield
    world.change_settings(hashSizeLimitMB=0)


def nothing_goes(world: World) -> None:
    """Long after every quarantine, a real run still finds nothing to trash."""
    world.reconcile()
    world.pass_days(40)
    assert world.reconcile().counts["to_trash"] == 0
    world.reconcile(dry_run=False)
    assert not world.trashed()


def test_a_video_in_a_folder_that_was_hidden_does_not_go_with_its_deleted_still(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    (world.folder / "videos").rename(world.folder / ".videos")
    world.remove("stills/photo.jpg")
    world.reconcile()
    world.pass_days(40)
    plan = world.reconcile()
    assert plan.counts["to_trash"] == 0 and plan.counts["review"] > 0


def test_a_regrouping_that_an_incomplete_run_saw_first_loses_no_anchor(world: World) -> None:
    world.backed_up("videos/clip.mov", VIDEO)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    world.reconcile()
    world.write("stills/photo.jpg", STILL)
    with incomplete(world):
        world.reconcile()
    nothing_goes(world)


def test_a_still_that_an_incomplete_run_missed_first_leaves_its_video_s_anchor(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    world.reconcile()
    world.remove("stills/photo.jpg")
    with incomplete(world):
        world.reconcile()
    world.reconcile()
    world.pass_days(40)
    plan = world.reconcile()
    _, partition = find_partition()
    with reading(partition) as con:
        gone = {cause for (cause,) in con.execute("SELECT cause FROM confirmed_deleted").fetchall()}
    assert plan.counts["to_trash"] <= 1 and gone == {"deleted"}  # at most the still, which was deleted


@pytest.mark.parametrize("in_place", [True, False])
def test_a_video_edited_and_paired_in_one_interval_keeps_its_original(world: World, in_place: bool) -> None:
    world.backed_up("videos/clip.mov", VIDEO)
    world.reconcile()
    if in_place:
        world.write("videos/clip.mov", CUT_VIDEO)
    else:
        world.write("videos/new.mov", CUT_VIDEO)
        (world.folder / "videos/new.mov").replace(world.folder / "videos/clip.mov")
    world.write("stills/photo.jpg", STILL)
    nothing_goes(world)


def test_a_video_edited_in_place_renamed_and_paired_in_one_interval_keeps_its_original(world: World) -> None:
    world.backed_up("videos/clip.mov", VIDEO)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    (world.folder / "videos/clip.mov").rename(world.folder / "videos/cut.mov")
    world.write("stills/photo.jpg", STILL)
    nothing_goes(world)


def test_an_edited_still_put_back_from_a_trash_keeps_its_original_after_its_video_is_deleted(world: World) -> None:
    world.backed_up("pair/photo.jpg", STILL)
    world.backed_up("pair/photo.mov", VIDEO, visibility="hidden", type="VIDEO")
    world.reconcile()
    world.write("pair/photo.jpg", EDITED_STILL)
    world.reconcile()
    trash = world.folder / ".Trash-1000" / "files"
    trash.mkdir(parents=True)
    (world.folder / "pair/photo.jpg").rename(trash / "photo.jpg")
    world.reconcile()
    (trash / "photo.jpg").rename(world.folder / "pair/photo.jpg")
    world.reconcile()
    world.remove("pair/photo.mov")
    world.reconcile()
    world.pass_days(40)
    world.reconcile(dry_run=False)
    assert world.ids["pair/photo.jpg"] not in world.trashed()


def test_an_edited_photo_moved_over_another_keeps_the_originals_of_both(world: World) -> None:
    world.backed_up("a/one.jpg", b"the first one")
    world.backed_up("a/two.jpg", b"the second one")
    world.reconcile()
    world.write("a/one.jpg", b"the first one, edited")
    world.reconcile()
    (world.folder / "a/one.jpg").replace(world.folder / "a/two.jpg")
    nothing_goes(world)


def test_all_stills_of_live_photos_gone_is_a_collapse_though_their_videos_live(world: World) -> None:
    for number in range(12):
        world.live_photo(f"live/IMG_{number}")
    world.reconcile()
    for path in (world.folder / "live").glob("*.HEIC"):
        path.unlink()
    assert world.reconcile().rail == "collapse"


def test_a_photo_put_back_but_not_read_yet_is_deleted_no_more(world: World) -> None:
    world.backed_up("big/film.jpg", b"f" * 2_000_000)
    world.reconcile()
    trash = world.folder / ".Trash-1000" / "files"
    trash.mkdir(parents=True)
    (world.folder / "big/film.jpg").rename(trash / "film.jpg")
    world.reconcile()
    world.change_settings(hashSizeLimitMB=1)
    (trash / "film.jpg").rename(world.folder / "big/film.jpg")
    world.reconcile()
    world.remove("big/film.jpg")
    world.change_settings(hashSizeLimitMB=0)
    world.pass_days(10)
    first = world.reconcile()
    world.pass_days(5)  # 15 days after it went to the trash, 5 after it was seen to be gone again
    assert (first.counts["held"], world.reconcile().counts["held"]) == (1, 1)
