"""Live Photos whose halves are found by what they carry: a pair over folders, and no deletion out of a regrouping."""

from __future__ import annotations

from state.db import reading
from tasks.opening import find_partition
from tests.e2e.split_pair import CUT_VIDEO, STILL, VIDEO, both_backed_up, others_backed_up
from tests.kept import kept_fixture
from tests.world import World

made = kept_fixture(others_backed_up)


def assets() -> dict[str, list[str]]:
    """Local id to the parts that the index holds for it."""
    _, partition = find_partition()
    with reading(partition) as con:
        rows = con.execute("SELECT local_id, part FROM local_index ORDER BY ALL").fetchall()
    found: dict[str, list[str]] = {}
    for local_id, part in rows:
        found.setdefault(local_id, []).append(part)
    return found


def buckets(world: World) -> tuple[int, int, int]:
    counts = world.reconcile().counts
    return counts["delete"], counts["held"], counts["review"]


def test_a_pair_split_over_folders_is_one_photo_and_goes_as_one(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    assert assets()["stills/photo.jpg"] == ["motion", "primary"]
    assert "videos/clip.mov" not in assets()
    world.remove("videos/clip.mov", "stills/photo.jpg")
    world.reconcile()
    world.pass_days(15)
    plan = world.reconcile()
    assert (plan.counts["delete"], plan.counts["to_trash"]) == (1, 2)


def test_a_still_whose_video_changed_is_an_edit(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    world.reconcile()
    world.pass_days(30)
    assert buckets(world) == (0, 0, 0)  # the first video is the anchor of a photo that lives
    _, partition = find_partition()
    with reading(partition) as con:
        assert con.execute("SELECT count(*) FROM edit_anchors WHERE local_id = 'stills/photo.jpg'").fetchall() == [(2,)]
        assert con.execute("FROM confirmed_deleted").fetchall() == []


def test_an_edited_video_that_finds_its_still_later_keeps_its_original_protected(world: World) -> None:
    world.backed_up("videos/clip.mov", VIDEO)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    world.reconcile()
    world.write("stills/photo.jpg", STILL)
    world.reconcile()
    assert assets()["stills/photo.jpg"] == ["motion", "primary"]
    world.pass_days(30)
    assert buckets(world) == (0, 0, 0)


def test_an_edited_video_whose_still_was_deleted_keeps_its_original_protected(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    world.write("videos/clip.mov", CUT_VIDEO)
    world.reconcile()
    world.remove("stills/photo.jpg")
    world.reconcile()
    assert assets()["videos/clip.mov"] == ["primary"]
    world.pass_days(30)
    plan = world.reconcile()
    assert plan.counts["to_trash"] == 0  # the video's original is the anchor of a video that lives
    assert not world.trashed()


def test_regrouping_is_no_change_that_a_run_tells(world: World) -> None:
    both_backed_up(world)
    world.reconcile()
    assert not any(note.startswith("Since the last run") for note in world.reconcile().notes)
