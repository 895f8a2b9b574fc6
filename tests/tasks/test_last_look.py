"""The last look before the deletion: a motion video that a staying still links to stays with it (invariant 6)."""

from __future__ import annotations

from state import exclusions
from tests.crash.stage import partition_of
from tests.e2e.bad_days import plan
from tests.kept import kept_fixture
from tests.world import World, checksum


def prepare(world: World) -> None:
    """Two stills of one motion video, all deleted locally, and planned."""
    world.all_backed_up("IMG_{}.JPG", 5)
    video = world.backed_up("shared.MOV", b"shared motion", visibility="hidden", type="VIDEO")
    for name in ("one.HEIC", "two.HEIC"):
        world.backed_up(name, name.encode(), live_photo_video_id=video)
    world.change_settings(quarantineDays=0)
    world.reconcile()
    world.remove("shared.MOV", "one.HEIC", "two.HEIC")


made = kept_fixture(prepare)


def test_both_stills_take_the_video_along_once(world: World) -> None:
    assert world.apply(plan(world)).outcome == "trashed"
    assert world.trashed() == {"shared.MOV", "one.HEIC", "two.HEIC"}
    (delete,) = [request for request in world.simulator.mutations() if request.method == "DELETE"]
    assert sorted(delete.json["ids"]) == sorted(world.ids[n] for n in ("shared.MOV", "one.HEIC", "two.HEIC"))


def test_a_still_protected_after_the_plan_keeps_the_video_that_it_shares(world: World) -> None:
    planned = plan(world)
    exclusions.add(partition_of(world), [checksum(b"one.HEIC")], "kept", world.now.replace(tzinfo=None))
    world.apply(planned)
    assert world.trashed() == {"two.HEIC"}


def test_a_still_that_came_back_after_the_plan_keeps_the_video_that_it_shares(world: World) -> None:
    planned = plan(world)
    world.write("one.HEIC", b"one.HEIC")
    world.apply(planned)
    assert world.trashed() == {"two.HEIC"}


def test_a_still_protected_after_the_tagging_keeps_the_video_that_it_shares(world: World) -> None:
    planned = plan(world)

    def protect(method: str, path: str) -> None:
        if (method, path) == ("PUT", "/api/tags/assets"):
            world.simulator.faults.arrived = None
            exclusions.add(partition_of(world), [checksum(b"one.HEIC")], "kept", world.now.replace(tzinfo=None))

    world.simulator.faults.arrived = protect
    world.apply(planned)
    assert world.trashed() == {"two.HEIC"}
