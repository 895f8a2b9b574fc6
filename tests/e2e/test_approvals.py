"""First runs, plans and approvals: only the plan that a person saw, whole and recent, is applied, and only once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import plan as plans
from engine.errors import ConfirmationNeeded, DeletionSyncError, UsageError
from flows import direct, pipeline
from tasks.summary import read_summary
from tests.crash.stage import partition_of
from tests.e2e.bad_days import nothing_changes, plan
from tests.world import World, small_world

NAMES = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}


def test_lesson_90_a_first_run_shows_and_trashes_nothing_whatever_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.backed_up("a.JPG")
        world.change_settings(applyScheduledRuns=True, quarantineDays=0)
        first = world.reconcile(dry_run=False)
        assert first.dry_run and "first run" in first.notes[0]
        world.backed_up("b.JPG")
        world.reconcile()
        world.remove("b.JPG")
        asked = world.reconcile(dry_run=False)
        assert asked.outcome == "planned" and not world.simulator.mutations()  # nobody has confirmed a deletion yet
        world.apply(asked)
        world.backed_up("c.JPG")
        world.reconcile()
        world.remove("c.JPG")
        assert world.reconcile(dry_run=False).outcome == "trashed"


def edited(world: World, run_id: str) -> None:
    path = partition_of(world).runs / run_id / "plan.json"
    content = json.loads(path.read_text())
    content["units"].append({**content["units"][0], "asset_id": world.ids["2020/IMG_0.JPG"]})
    path.write_text(json.dumps(content))


def edited_with_its_digest(world: World, run_id: str) -> None:
    edited(world, run_id)
    path = partition_of(world).runs / run_id / "plan.json"
    content = json.loads(path.read_text())
    content["digest"] = plans.digest(content["partition"], [plans.from_json(unit) for unit in content["units"]])
    path.write_text(json.dumps(content))


def cut_short(world: World, run_id: str) -> None:
    path = partition_of(world).runs / run_id / "plan.json"
    path.write_bytes(path.read_bytes()[:-100])


def older_than_a_week(world: World, run_id: str) -> None:
    world.pass_days(7.1)


def stale(world: World, run_id: str) -> None:
    world.write("2021/IMG_1.JPG")
    plan(world)


def consumed(world: World, run_id: str) -> None:
    summary = read_summary(partition_of(world), run_id)
    pipeline.apply(direct.call, direct.WAY, summary["digest"])


@pytest.mark.parametrize(
    "change", [edited, edited_with_its_digest, cut_short, older_than_a_week, stale, consumed], ids=lambda c: c.__name__
)
def test_a_plan_that_is_not_the_one_that_was_approved_is_refused(
    due: World, change: Callable[[World, str], None]
) -> None:
    planned = plan(due)
    change(due, planned.run_id)
    trashed = due.trashed()
    expected = DeletionSyncError if change is cut_short else ConfirmationNeeded
    with nothing_changes(due), pytest.raises(expected):
        due.apply(planned)
    assert due.trashed() == trashed and trashed in (set(), NAMES)


def test_a_digest_that_nobody_made_is_refused(due: World) -> None:
    planned = plan(due)
    with nothing_changes(due), pytest.raises(UsageError, match="No plan has the digest"):
        due.apply(type(planned)(**{**read_summary(partition_of(due), planned.run_id), "digest": "0" * 64}))
