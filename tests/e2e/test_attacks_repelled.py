"""Ways to trash something wrong that once worked: a world, a sequence of events, and the photo that must stay."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from engine.errors import ConfirmationNeeded, DeletionSyncError
from state import danger, legacy, libraries
from state.db import writing
from tasks import clock, progress
from tasks.opening import find_partition
from tasks.summary import Summary
from tests.kept import kept_fixture
from tests.world import World, checksum

EDITED = (1_700_000_000, 1_700_000_000)


def prepare(world: World) -> None:
    world.all_backed_up("IMG_{}.JPG", 10)


made = kept_fixture(prepare)


def attempt(work: Callable[[], Summary]) -> Summary | None:
    """A refusal is as good as a run that trashes nothing."""
    try:
        return work()
    except DeletionSyncError:
        return None


def planned_deletion(world: World) -> Summary:
    """IMG_0 is gone and past its quarantine; the plan that says so."""
    world.reconcile()
    world.remove("IMG_0.JPG")
    world.reconcile()
    world.pass_days(15)
    plan = world.reconcile()
    assert (plan.outcome, plan.counts["delete"]) == ("planned", 1)
    return plan


def a_run_that_fails_at_the_server(world: World) -> None:
    """The libraries are read and remembered; then the listing is refused."""
    world.simulator.faults.add("POST", "/api/search/metadata", status=403, times=None)
    with pytest.raises(DeletionSyncError):
        world.reconcile()
    world.simulator.faults.clear()


def test_an_old_plan_does_not_spare_a_photo_that_came_back_and_went_its_new_quarantine(world: World) -> None:
    plan = planned_deletion(world)
    world.write("IMG_0.JPG")
    a_run_that_fails_at_the_server(world)
    world.remove("IMG_0.JPG")
    attempt(lambda: world.apply(plan))
    assert world.trashed() == set()


def test_an_old_plan_does_not_trash_what_has_become_an_edit_anchor(world: World) -> None:
    plan = planned_deletion(world)
    world.write("IMG_0.JPG")
    a_run_that_fails_at_the_server(world)
    world.write("IMG_0.JPG", b"edited")
    os.utime(world.folder / "IMG_0.JPG", EDITED)
    attempt(lambda: world.apply(plan))
    assert world.trashed() == set()


def test_a_quarantine_that_is_made_longer_holds_for_a_plan_made_before(world: World) -> None:
    plan = planned_deletion(world)
    world.change_settings(quarantineDays=60)
    attempt(lambda: world.apply(plan))
    assert world.trashed() == set()


def test_what_only_a_checksums_file_listed_is_not_deleted_because_a_folder_lacks_it(
    world: World, tmp_path: Path
) -> None:
    listed = tmp_path / "phone.txt"
    listed.write_text(checksum(b"phone photo") + "\n")
    phone = world.simulator.add_asset(world.user_id, checksum=checksum(b"phone photo"), file_name="PHONE.JPG")
    world.reconcile(checksums_file=listed)
    for _ in range(3):
        found = world.reconcile()
        assert (found.counts["delete"], found.counts["held"], found.counts["review"]) == (0, 0, 1)
        world.pass_days(15)
    assert phone not in world.simulator.trashed()


def test_a_run_from_a_checksums_file_leaves_what_is_back_in_a_registered_library(world: World, tmp_path: Path) -> None:
    planned_deletion(world)
    world.write("IMG_0.JPG")
    listed = tmp_path / "list.txt"
    listed.write_text("".join(checksum(f"photo IMG_{n}.JPG".encode()) + "\n" for n in range(1, 10)))
    plan = world.reconcile(checksums_file=listed)
    attempt(lambda: world.apply(plan))
    assert world.trashed() == set()


def test_approving_an_empty_plan_confirms_nothing(world: World) -> None:
    world.change_settings(quarantineDays=0, applyScheduledRuns=True)
    empty = world.reconcile()
    with pytest.raises(ConfirmationNeeded, match="nothing"):
        world.apply(empty)
    world.remove("IMG_0.JPG")
    assert world.reconcile(dry_run=False).outcome == "planned"
    assert world.trashed() == set()


def test_lesson_5_what_was_restored_on_the_servers_own_page_is_not_trashed_again(world: World) -> None:
    world.change_settings(quarantineDays=0, applyScheduledRuns=True)
    world.reconcile()
    world.remove("IMG_0.JPG")
    world.apply(world.reconcile())
    assert world.trashed() == {"IMG_0.JPG"}
    key = {"x-api-key": os.environ["SERVER_API_KEY"]}
    body = {"ids": [world.ids["IMG_0.JPG"]]}
    httpx.post(
        f"{world.url}/api/trash/restore/assets", json=body, headers=key, trust_env=False, timeout=60
    ).raise_for_status()
    for _ in range(3):
        world.pass_days(20)
        assert world.reconcile(dry_run=False).counts["review"] == 1
    assert world.trashed() == set()


def test_a_database_put_back_from_a_backup_forgets_no_restore(world: World) -> None:
    world.change_settings(quarantineDays=0, applyScheduledRuns=True)
    world.reconcile()
    world.remove("IMG_0.JPG")
    applied = world.apply(world.reconcile())
    _, partition = find_partition()
    backup = partition.database.read_bytes()
    world.restore(applied.run_id)
    partition.database.write_bytes(backup)
    world.pass_days(1)
    world.reconcile(dry_run=False)
    assert world.trashed() == set()


def test_what_a_removed_library_held_stays_though_an_old_index_knew_it_elsewhere(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "IMG_0.JPG").write_bytes(b"photo IMG_0.JPG")
    (other / "keep.JPG").write_bytes(b"keep")
    world.change_settings(quarantineDays=0)
    world.register(other, "other")
    world.reconcile()
    (other / "IMG_0.JPG").unlink()
    _, partition = find_partition()
    with writing(partition) as con:
        libraries.remove(con, "photos", clock.naive_now())
    found = attempt(world.reconcile)
    if found is not None and found.outcome == "planned":
        attempt(lambda: world.apply(found))
    assert world.trashed() == set()


def test_a_plan_from_before_a_library_was_removed_is_refused(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "keep.JPG").write_bytes(b"keep")
    world.register(other, "other")
    plan = planned_deletion(world)
    (other / "IMG_0.JPG").write_bytes(b"photo IMG_0.JPG")
    _, partition = find_partition()
    with writing(partition) as con:
        libraries.remove(con, "other", clock.naive_now())
    with pytest.raises(ConfirmationNeeded, match="libraries changed"):
        world.apply(plan)


def test_lesson_53_a_batch_that_slept_after_its_last_look_is_looked_at_again(world: World) -> None:
    plan = planned_deletion(world)

    def sleep_after_the_tag(phase: str, done: int, total: int | None) -> None:
        if phase == "tag" and done:
            world.write("IMG_0.JPG")
            world.pass_days(3)

    with progress.shown_by(sleep_after_the_tag):
        attempt(lambda: world.apply(plan))
    assert world.trashed() == set()


def test_a_permission_withdrawn_while_a_run_is_on_is_withdrawn(world: World) -> None:
    world.change_settings(quarantineDays=0, applyScheduledRuns=True)
    world.reconcile()
    world.remove("IMG_9.JPG")
    world.apply(world.reconcile())
    world.remove("IMG_0.JPG")

    def withdraw(phase: str, done: int, total: int | None) -> None:
        if phase == "enumerate":
            world.change_settings(applyScheduledRuns=False)

    with progress.shown_by(withdraw):
        world.reconcile(dry_run=False)
    assert world.trashed() == {"IMG_9.JPG"}


def test_lesson_1_an_edited_photo_that_is_moved_and_copied_at_once_keeps_its_original(world: World) -> None:
    world.ids["original"] = world.backed_up("a/IMG_X.JPG", b"original")
    world.reconcile()
    world.backed_up("a/IMG_X.JPG", b"edited")
    os.utime(world.folder / "a/IMG_X.JPG", EDITED)
    world.reconcile()
    (world.folder / "b").mkdir()
    (world.folder / "a/IMG_X.JPG").rename(world.folder / "b/IMG_X.JPG")
    shutil.copy2(world.folder / "b/IMG_X.JPG", world.folder / "b/print.JPG")
    world.reconcile()
    world.pass_days(15)
    assert world.reconcile().outcome == "nothing to do"


def test_lesson_11_history_that_was_lost_stays_lost_until_a_plan_has_shown_it(world: World) -> None:
    world.change_settings(quarantineDays=0, applyScheduledRuns=True)
    world.reconcile()
    world.remove("IMG_9.JPG")
    world.apply(world.reconcile())
    world.remove("IMG_0.JPG")
    _, partition = find_partition()
    with writing(partition) as con:
        con.execute("UPDATE libraries SET token = ?", [json.dumps({"root": "another", "generation": 1})])
    a_run_that_fails_at_the_server(world)
    assert world.reconcile(dry_run=False).counts["review"] == 1
    assert world.trashed() == {"IMG_9.JPG"}


def test_lesson_85_one_library_of_two_that_shows_nothing_aborts_the_run(world: World) -> None:
    other = world.folder.with_name("other")
    other.mkdir()
    world.all_backed_up("../other/B_{}.JPG", 5)
    world.register(other, "other")
    world.reconcile()
    for number in range(5):
        (other / f"B_{number}.JPG").unlink()
    aborted = world.reconcile()
    assert (aborted.outcome, aborted.rail) == ("aborted", "permission")


def test_lesson_59_what_another_devices_state_saw_is_not_deleted_because_this_one_lacks_it(
    world: World, tmp_path: Path
) -> None:
    world.reconcile()
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "ever-seen.json").write_text(json.dumps([checksum(b"phone")]))
    phone = world.simulator.add_asset(world.user_id, checksum=checksum(b"phone"), file_name="PHONE.JPG")
    _, partition = find_partition()
    legacy.import_state(partition, exported, clock.naive_now())
    for _ in range(3):
        assert world.reconcile().counts["delete"] == 0
        world.pass_days(15)
    assert phone not in world.simulator.trashed()


def test_a_plan_applied_once_is_not_applied_again_after_the_journal_was_cleared(world: World) -> None:
    plan = planned_deletion(world)
    applied = world.apply(plan)
    world.restore(applied.run_id, exclude=False)
    _, partition = find_partition()
    danger.clear_journal(partition)
    with pytest.raises(ConfirmationNeeded):
        world.apply(plan)
    assert world.trashed() == set()
