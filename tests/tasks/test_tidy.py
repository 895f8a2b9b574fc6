"""What old runs keep, and what they let go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.opening import find_partition
from tasks.tidy import BULKY, KEPT_WHOLE
from tests.world import World, small_world


def holding_bulk() -> list[str]:
    """Names of the run folders that still hold a copy of a listing."""
    runs = find_partition()[1].runs
    return sorted(folder.name for folder in runs.iterdir() if any((folder / name).exists() for name in BULKY))


def many_runs(world: World) -> None:
    for _ in range(KEPT_WHOLE + 2):
        world.reconcile()


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        found.all_backed_up("IMG_{}.JPG", 8)
        found.change_settings(thresholdFloor=100)
        yield found


def test_only_the_newest_runs_keep_their_listings_and_every_run_its_story(photos: World) -> None:
    many_runs(photos)
    folders = sorted(path.name for path in find_partition()[1].runs.iterdir())
    assert holding_bulk() == folders[-KEPT_WHOLE:]
    for name in folders:
        kept = {path.name for path in (find_partition()[1].runs / name).iterdir()}
        assert {"run.json", "plan.json", "summary.json", "decision.parquet"} <= kept


def test_the_plan_that_can_be_approved_is_applied_after_any_number_of_incomplete_runs(photos: World) -> None:
    photos.reconcile()
    photos.remove("IMG_1.JPG")
    photos.reconcile()
    photos.pass_days(15)
    plan = photos.reconcile()
    photos.write("IMG_99.JPG", b"x" * 2_000_000)
    photos.change_settings(hashSizeLimitMB=1)
    many_runs(photos)
    photos.change_settings(hashSizeLimitMB=0)
    assert photos.apply(plan).outcome == "trashed"
