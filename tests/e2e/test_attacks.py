"""Attempts to have something trashed that must stay: each is a story that went wrong somewhere, and must not here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import ConfirmationNeeded, DeletionSyncError, RailTripped
from server.client import PhotoServer
from state import exclusions
from state.danger import reset_index
from state.db import writing
from state.home import Home
from state.libraries import remove
from tasks import clock, progress
from tasks.opening import find_partition
from tests.crash.stage import partition_of
from tests.kept import kept_fixture
from tests.world import World, checksum

FIRST = "IMG_0.JPG"


def prepare(world: World) -> None:
    """Ten photos on both sides, seen once; deletions are due at once."""
    world.all_backed_up("IMG_{}.JPG", 10)
    world.change_settings(quarantineDays=0)
    world.reconcile()


made = kept_fixture(prepare)


def scheduled(world: World) -> None:
    """From now on real runs apply their own plans: a first deletion, of the last photo, was confirmed."""
    world.change_settings(applyScheduledRuns=True)
    world.remove("IMG_9.JPG")
    world.apply(world.reconcile())


def forget_library(world: World, name: str) -> None:
    with writing(partition_of(world)) as con:
        remove(con, name, clock.naive_now())


def test_an_exclusion_between_the_tag_and_the_delete_is_honoured(world: World) -> None:
    world.remove(FIRST)
    planned = world.reconcile()

    def protect(phase: str, done: int, total: int | None) -> None:
        if phase == "tag" and done == 1:
            exclusions.add(partition_of(world), [checksum(b"photo IMG_0.JPG")], "mine", clock.naive_now())

    with progress.shown_by(protect):
        world.apply(planned)
    assert not world.trashed()


def test_a_library_removed_and_added_under_its_old_name_remembers_no_deletion(world: World) -> None:
    forget_library(world, "photos")
    world.remove(FIRST)
    world.register()
    for _ in range(3):
        assert world.reconcile().counts["delete"] == 0
    assert not world.trashed()


def test_a_restored_photo_that_is_deleted_again_is_asked_about_for_ever(world: World) -> None:
    scheduled(world)
    world.remove(FIRST)
    first = world.reconcile(dry_run=False)
    assert FIRST in world.trashed()
    world.restore(first.run_id)
    for name in (None, FIRST, None, None):
        if name is None:
            (world.folder / FIRST).unlink(missing_ok=True)
        else:
            world.write(name)
        world.pass_days(1)
        world.reconcile(dry_run=False)
        assert FIRST not in world.trashed()
    with pytest.raises(DeletionSyncError):
        world.apply(first)
    assert FIRST not in world.trashed()


def test_half_of_a_live_photo_that_lives_keeps_the_pair(world: World) -> None:
    world.live_photo("LIVE")
    world.reconcile()
    scheduled(world)
    for half, content in (("LIVE.HEIC", b"still LIVE"), ("LIVE.MOV", b"motion LIVE")):
        world.remove(half)
        for _ in range(3):
            world.reconcile(dry_run=False)
        assert world.trashed() == {"IMG_9.JPG"}
        world.write(half, content)
        world.reconcile()


def test_a_plan_of_before_a_reset_is_stale(world: World) -> None:
    world.remove(FIRST)
    planned = world.reconcile()
    reset_index(Home.locate(os.environ), partition_of(world), clock.naive_now())
    for _ in range(2):
        with pytest.raises(ConfirmationNeeded):
            world.apply(planned)
        world.reconcile()
    assert not world.trashed()


def test_a_threshold_lowered_after_the_plan_stops_the_apply(world: World) -> None:
    world.all_backed_up("MORE_{}.JPG", 6)
    world.change_settings(thresholdPercent=100)
    world.reconcile()
    world.remove(*(f"IMG_{number}.JPG" for number in range(6)))
    planned = world.reconcile()
    world.change_settings(thresholdPercent=1)
    with pytest.raises(RailTripped) as caught:
        world.apply(planned)
    assert caught.value.rail == "threshold"
    assert not world.trashed()


def test_a_library_added_after_the_plan_protects_what_it_holds(world: World, tmp_path: Path) -> None:
    world.remove(FIRST)
    planned = world.reconcile()
    other = tmp_path / "other"
    other.mkdir()
    (other / "another name.jpg").write_bytes(b"photo IMG_0.JPG")
    world.register(other, "other")
    with pytest.raises(ConfirmationNeeded, match="libraries changed"):
        world.apply(planned)
    assert not world.trashed()


def test_a_photo_in_two_libraries_goes_with_its_last_copy_only(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name, content in (("copy.jpg", b"photo IMG_0.JPG"), ("more.jpg", b"more")):
        (other / name).write_bytes(content)
    world.register(other, "other")
    world.reconcile()
    scheduled(world)
    world.remove(FIRST)
    world.reconcile(dry_run=False)
    assert FIRST not in world.trashed()
    (other / "copy.jpg").unlink()
    world.reconcile(dry_run=False)
    assert FIRST in world.trashed()


def test_the_key_of_another_account_applies_no_plan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.remove(FIRST)
    planned = world.reconcile()
    bob = world.simulator.add_user("Bob", "bob@example.com")
    monkeypatch.setenv("SERVER_API_KEY", world.simulator.add_key(bob, ("all",)))
    with pytest.raises(DeletionSyncError):
        world.apply(planned)
    assert not world.trashed() and find_partition()[1].user_id == bob


def test_what_only_strict_runs_saw_go_waits_its_quarantine_under_trusting(world: World, tmp_path: Path) -> None:
    world.change_settings(quarantineDays=14, deletionStrictness="strict")
    listed = tmp_path / "listed.txt"
    listed.write_text(checksum(b"elsewhere") + "\n")
    world.ids["elsewhere"] = world.simulator.add_asset(
        world.user_id, checksum=checksum(b"elsewhere"), file_name="E.JPG"
    )
    world.reconcile(checksums_file=listed)
    assert world.reconcile().counts["delete"] == 0
    world.change_settings(deletionStrictness="trusting")
    assert world.reconcile().counts["delete"] == 0
    assert not world.trashed()


def test_an_interrupted_apply_is_stale_once_its_photo_came_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.remove(FIRST)
    planned = world.reconcile()

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PhotoServer, "trash_units", killed)
        world.apply(planned)
    world.write(FIRST)
    world.reconcile()
    world.change_settings(quarantineDays=14)
    world.remove(FIRST)
    world.reconcile()
    with pytest.raises(ConfirmationNeeded):
        world.apply(planned)
    assert not world.trashed()
