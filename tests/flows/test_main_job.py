"""The main job end to end, the direct way: plan, quarantine, trash, tag, journal, restore, and leave alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runs import tag_name
from tests.world import World, small_world


@pytest.fixture(params=["2.7.5", "3.1.0"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch, version=request.param) as found:
        for number in range(8):
            found.backed_up(f"2024/IMG_{number}.JPG")
        found.live_photo("2024/IMG_90")
        yield found


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
