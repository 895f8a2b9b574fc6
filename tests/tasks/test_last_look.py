"""The last look before the deletion: libraries that cannot be read whole stop it, and a motion video that a staying
still links to stays with it (invariants 3 and 6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import RailTripped
from state import exclusions
from tasks import progress
from tests.crash.stage import partition_of
from tests.e2e.bad_days import nothing_changes, plan
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


def test_a_video_goes_with_one_still_where_the_other_is_gone_from_the_server(world: World) -> None:
    planned = plan(world)
    world.simulator.purge(world.ids["one.HEIC"])
    world.apply(planned)
    assert world.trashed() == {"shared.MOV", "two.HEIC"}


def away(world: World) -> None:
    world.folder.rename(world.folder.with_name("away"))


def emptied(world: World) -> None:
    away(world)
    world.folder.mkdir()


def all_removed(world: World) -> None:
    for path in world.folder.glob("*.JPG"):
        path.unlink()


def all_in_the_trash(world: World) -> None:
    for path in world.folder.glob("*.JPG"):
        path.rename(path.with_name(f".trashed-1800000000-{path.name}"))


@pytest.mark.parametrize(
    ("trouble", "rail"),
    [
        (away, "permission"),
        (emptied, "permission"),
        (all_removed, "empty_local"),
        (all_in_the_trash, "empty_local"),
    ],
)
def test_libraries_that_cannot_be_read_whole_after_the_plan_stop_the_deletion(
    world: World, trouble: Callable[[World], None], rail: str
) -> None:
    planned = plan(world)
    trouble(world)
    with nothing_changes(world), pytest.raises(RailTripped) as caught:
        world.apply(planned)
    assert caught.value.rail == rail and "just before the deletion" in caught.value.what
    assert not world.trashed()


def test_a_file_that_vanishes_while_it_is_hashed_after_the_plan_stops_the_deletion(world: World) -> None:
    planned = plan(world)
    world.write("NEW.JPG")

    def meddle(phase: str, done: int, total: int | None) -> None:
        if phase == "enumerate" and done == total:
            (world.folder / "NEW.JPG").unlink(missing_ok=True)

    with progress.shown_by(meddle), nothing_changes(world), pytest.raises(RailTripped) as caught:
        world.apply(planned)
    assert caught.value.rail == "incomplete" and "NEW.JPG" in caught.value.what
    assert not world.trashed()
