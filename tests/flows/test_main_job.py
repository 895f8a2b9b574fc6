"""The main job end to end, the direct way: plan, quarantine, trash, tag, journal, restore, and leave alone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from engine.errors import ConfirmationNeeded, UsageError
from engine.runs import tag_name
from state import danger
from tasks.opening import find_partition
from tests.kept import Made, kept_world
from tests.world import World


def prepare(world: World) -> None:
    world.all_backed_up("2024/IMG_{}.JPG", 8)
    world.live_photo("2024/IMG_90")


@pytest.fixture(scope="module", params=["2.7.5", "3.1.0"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with kept_world(tmp_path_factory.mktemp("made"), prepare, version=request.param) as again:
        yield again


def test_deleted_photos_are_trashed_after_quarantine_and_come_back(world: World) -> None:
    first = world.reconcile(dry_run=False)
    assert (first.outcome, first.dry_run) == ("nothing to do", True), first
    world.remove("2024/IMG_1.JPG", "2024/IMG_90.HEIC", "2024/IMG_90.MOV")
    held = world.reconcile()
    assert held.counts["held"] == 2 and held.counts["delete"] == 0
    world.pass_days(14)
    planned = world.reconcile()
    assert planned.outcome == "planned" and planned.counts["delete"] == 2 and planned.counts["to_trash"] == 3
    assert not world.simulator.mutations()
    done = world.apply(planned)
    assert done.outcome == "trashed", done
    assert world.trashed() == {"2024/IMG_1.JPG", "2024/IMG_90.HEIC", "2024/IMG_90.MOV"}
    assert world.simulator.tag_members(tag_name(done.run_id)) == world.simulator.trashed(world.user_id)
    back = world.restore(done.run_id)
    assert back.outcome == "restored" and world.trashed() == set()
    world.pass_days(30)
    assert world.reconcile().outcome == "nothing to do"


def test_a_photo_moved_over_another_of_its_size_and_time_is_not_taken_for_it(world: World) -> None:
    """The one whose name it took is gone; its own content lives on, under the other name."""
    for name in ("BURST_1.BMP", "BURST_2.BMP"):
        world.backed_up(name, name.encode())
        os.utime(world.folder / name, (1_700_000_000, 1_700_000_000))
    world.reconcile()
    (world.folder / "BURST_2.BMP").rename(world.folder / "BURST_1.BMP")
    world.reconcile()
    world.pass_days(20)
    world.reconcile()
    world.pass_days(20)
    planned = world.reconcile()
    if planned.counts["delete"]:
        world.apply(planned)
    assert "BURST_2.BMP" not in world.trashed()


def test_a_plan_from_before_a_reset_is_not_applied(world: World) -> None:
    world.reconcile()
    world.remove("2024/IMG_1.JPG")
    world.reconcile()
    world.pass_days(15)
    planned = world.reconcile()
    home, partition = find_partition()
    danger.reset_index(home, partition, world.now.replace(tzinfo=None))
    with pytest.raises(ConfirmationNeeded, match="reset"):
        world.apply(planned)
    assert world.trashed() == set()


def test_a_key_of_another_account_never_works_on_this_account_s_state(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.reconcile()
    name = find_partition()[1].name
    bob = world.simulator.add_user("Bob", "bob@example.com")
    monkeypatch.setenv("SERVER_API_KEY", world.simulator.add_key(bob, ["all"]))
    with pytest.raises(UsageError, match="another account"):
        world.reconcile(partition=name)


def test_a_photo_in_a_trash_is_not_treated_as_deleted_though_its_quarantine_begins_there(world: World) -> None:
    world.reconcile()
    (world.folder / ".Trash-1000/files").mkdir(parents=True)
    moves = {"2024/IMG_1.JPG": ".Trash-1000/files/IMG_1.JPG", "2024/IMG_2.JPG": "2024/.trashed-1800000000-IMG_2.JPG"}
    for old, new in moves.items():
        (world.folder / old).rename(world.folder / new)
    for _ in range(3):
        counts = world.reconcile().counts
        assert counts["pending"] == counts["delete"] == 0
        world.pass_days(4)
    world.remove(*moves.values())
    assert world.reconcile().counts["held"] == 2
    world.pass_days(2)  # fourteen days after they went into the trash
    assert world.reconcile().counts["delete"] == 2
