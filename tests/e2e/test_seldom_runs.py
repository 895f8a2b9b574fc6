"""Runs that find nothing leave no trace in the history; a name is never what a deletion is concluded from."""

from __future__ import annotations

from state import journal
from tasks.opening import find_partition
from tests.kept import kept_fixture
from tests.world import World, checksum


def prepare(world: World) -> None:
    world.all_backed_up("IMG_{}.JPG", 4)
    world.change_settings(thresholdFloor=100)


made = kept_fixture(prepare)


def test_lesson_76_runs_that_find_nothing_leave_no_line_in_the_journal_and_no_tag(world: World) -> None:
    for _ in range(3):
        assert world.reconcile(dry_run=False).outcome == "nothing to do"
    assert not [line for line in journal.read(find_partition()[1]).records if line.run_id is not None]
    assert not world.simulator.mutations()


def test_lesson_88_an_asset_of_a_deleted_photo_s_name_but_of_other_bytes_stays(world: World) -> None:
    world.reconcile()
    again = world.simulator.add_asset(world.user_id, checksum=checksum(b"sent anew"), file_name="IMG_1.JPG")
    world.remove("IMG_1.JPG")
    world.reconcile()
    world.pass_days(15)
    world.apply(world.reconcile())
    lines = journal.read(find_partition()[1]).records
    assert [line.asset_id for line in lines if line.status == "trashed"] == [world.ids["IMG_1.JPG"]] != [again]
