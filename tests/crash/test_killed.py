"""Invariant 9: killed at any instant and started again, the client ends where it would have ended, and can undo it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from engine.runs import tag_name
from tests.crash.stage import (
    Client,
    Moment,
    client_of,
    deletion_dates,
    partition_of,
    put_back,
    quarantine,
    saved,
    statuses,
    tables,
)
from tests.world import World, small_world

WRITES_SAMPLED = 4  # a job; evenly spread over all of its writes
MUTATING = ("PUT", "DELETE")


@dataclass
class Stage:
    """``moments``: before the plan, the apply, the restore, and a real run that applies its own plan."""

    world: World
    client: Client
    moments: dict[str, Moment]
    digest: str
    applied: str
    due: frozenset[str]
    requests: dict[str, list[str]]
    writes: dict[str, list[str]]
    planned_tables: dict[str, list[tuple[Any, ...]]]

    def job(self, name: str) -> tuple[str, dict[str, Any]]:
        jobs: dict[str, tuple[str, dict[str, Any]]] = {
            "plan": ("reconcile", {"dry_run": True}),
            "apply": ("apply", {"digest": self.digest}),
            "restore": ("restore", {"run_id": self.applied}),
            "by itself": ("reconcile", {"dry_run": False}),
        }
        return jobs[name]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One due photo, one due Live Photo, one photo whose deletion nobody has seen yet, six that stay."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        small_world(tmp_path_factory.mktemp("crash"), monkeypatch) as world,
        client_of(world) as client,
    ):
        world.all_backed_up("IMG_{}.JPG", 8)
        world.live_photo("IMG_90")
        assert client.run("reconcile", dry_run=True)["outcome"] == "nothing to do"
        world.remove("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV")
        assert client.run("reconcile", dry_run=True)["counts"]["held"] == 2
        world.pass_days(14.5)
        world.remove("IMG_2.JPG")
        due = frozenset(world.ids[name] for name in ("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV"))
        found = Stage(world, client, {}, "", "", due, {}, {}, {})
        found.moments["plan"] = saved(world, "plan")
        planned = _uninterrupted(found, "plan")
        assert planned["counts"]["to_trash"] == 3 and planned["counts"]["held"] == 1
        found.digest = planned["digest"]
        found.planned_tables = tables(partition_of(world))
        world.pass_days(0.1)
        found.moments["apply"] = saved(world, "apply")
        applied = _uninterrupted(found, "apply")
        assert applied["outcome"] == "trashed" and world.simulator.trashed() == due
        found.applied = applied["run_id"]
        world.pass_days(0.1)
        found.moments["restore"] = saved(world, "restore")
        assert _uninterrupted(found, "restore")["outcome"] == "restored" and not world.simulator.trashed()
        put_back(world, found.moments["apply"])
        world.change_settings(applyScheduledRuns=True)
        _approve_nothing(world)
        found.moments["by itself"] = saved(world, "itself")
        assert _uninterrupted(found, "by itself")["outcome"] == "trashed"
        yield found


def _approve_nothing(world: World) -> None:
    """As if a first deletion had been confirmed long ago."""
    from state.db import writing
    from state.runs import FIRST_DELETE_CONFIRMED, set_fact

    with writing(partition_of(world)) as con:
        set_fact(con, FIRST_DELETE_CONFIRMED, "2026-01-01T00:00:00")


def _uninterrupted(stage: Stage, name: str) -> dict[str, Any]:
    """Run a job to its end, and note its requests and its writes."""
    stage.world.simulator.requests.clear()
    job, arguments = stage.job(name)
    outcome = stage.client.run(job, **arguments)
    stage.requests[name] = [r.method for r in stage.world.simulator.requests]
    stage.writes[name] = outcome["writes"]
    return outcome


def _check_the_plan_again(stage: Stage) -> None:
    """The plan is the same, nothing has been sent, and no quarantine has moved or begun twice."""
    partition = partition_of(stage.world)
    before = quarantine(partition)
    assert not stage.world.simulator.mutations()
    stage.world.pass_days(0.2)
    again = stage.client.run("reconcile", dry_run=True)
    assert again["digest"] == stage.digest and not stage.world.simulator.mutations()
    after = quarantine(partition)
    assert before.items() <= after.items()
    now, expected = tables(partition), dict(stage.planned_tables)
    began = {row[0]: row[1] for row in expected.pop("confirmed_deleted")}
    assert {row[0] for row in now.pop("confirmed_deleted")} == began.keys()
    assert now == expected
    assert statuses(partition) == {}


def _check_what_was_trashed(stage: Stage, dates: dict[str, Any], confirmed: dict[str, Any]) -> None:
    """Exactly the plan is in the trash, once, tagged, journaled; and all of it comes back."""
    world, partition = stage.world, partition_of(stage.world)
    assert world.simulator.trashed() == stage.due
    assert dates.items() <= deletion_dates(world).items()
    journaled = statuses(partition)
    runs = {asset: run for run, assets in journaled.items() for asset, status in assets.items() if status == "trashed"}
    assert runs.keys() == stage.due
    for asset_id, run_id in runs.items():
        assert asset_id in world.simulator.tag_members(tag_name(run_id))
    for tag in world.simulator.tags():
        if tag.startswith(tag_name("2")):
            assert world.simulator.tag_members(tag) <= stage.due
    assert not any(status in ("planned", "tagged") for run in journaled.values() for status in run.values())
    assert quarantine(partition) == confirmed
    for run_id in sorted(set(runs.values())):
        assert stage.client.run("restore", run_id=run_id)["outcome"] == "restored"
    assert not world.simulator.trashed()


def _started_again(stage: Stage, name: str) -> None:
    """What a person does after a crash, one hour later; and everything that must then hold."""
    world = stage.world
    if name == "plan":
        _check_the_plan_again(stage)
        return
    partition = partition_of(world)
    dates, confirmed = deletion_dates(world), quarantine(partition)
    assert dates.keys() <= stage.due
    world.pass_days(1 / 24)
    job, arguments = stage.job(name)
    again = stage.client.run(job, **arguments)
    if name == "restore":
        assert again["outcome"] in ("restored", "nothing to do"), again
        assert not world.simulator.trashed()
        assert set(statuses(partition)[stage.applied].values()) == {"restored"}
        return
    if "error" in again:
        assert name == "apply" and again["what"].startswith("This plan was applied already"), again
    _check_what_was_trashed(stage, dates, confirmed)


def _sample(count: int, most: int) -> list[int]:
    """1 to ``count``, or so many of them evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(step * (count - 1) / (most - 1)) for step in range(most)})


@pytest.mark.parametrize("name", ["plan", "apply", "restore", "by itself"])
def test_killed_at_any_request_it_ends_where_it_would_have_ended(stage: Stage, name: str) -> None:
    job, arguments = stage.job(name)
    for number, method in enumerate(stage.requests[name], start=1):
        if name == "by itself" and not _near_a_change(stage.requests[name], number):
            continue  # what the plan and the apply do there, they are killed at by themselves
        for took_effect in (False, True) if _may_change(name, method) else (False,):
            put_back(stage.world, stage.moments[name])
            ended = stage.client.run_killed_at_request(number, job, took_effect=took_effect, **arguments)
            assert ended == {"killed": True}, (number, method)
            _started_again(stage, name)


def _may_change(name: str, method: str) -> bool:
    return method in MUTATING or (name == "restore" and method == "POST")


def _near_a_change(methods: list[str], number: int) -> bool:
    return any(method in MUTATING for method in methods[max(0, number - 2) : number])


@pytest.mark.parametrize("name", ["plan", "apply", "restore"])
def test_killed_at_any_write_it_ends_where_it_would_have_ended(stage: Stage, name: str) -> None:
    job, arguments = stage.job(name)
    for number in _sample(len(stage.writes[name]), WRITES_SAMPLED):
        put_back(stage.world, stage.moments[name])
        assert stage.client.run(job, die_at=number, **arguments) == {"killed": True}, stage.writes[name][number - 1]
        _started_again(stage, name)


@pytest.mark.parametrize("took_effect", [False, True])
def test_invariant_10_after_a_restore_that_was_killed_the_next_run_leaves_its_photos_alone(
    stage: Stage, took_effect: bool
) -> None:
    put_back(stage.world, stage.moments["restore"])
    number = stage.requests["restore"].index("POST") + 1
    job, arguments = stage.job("restore")
    killed = stage.client.run_killed_at_request(number, job, took_effect=took_effect, **arguments)
    assert killed == {"killed": True}
    assert stage.world.simulator.trashed() == (frozenset() if took_effect else stage.due)
    stage.world.pass_days(40)
    after = stage.client.run("reconcile", dry_run=False)
    assert (after["outcome"], after["counts"]["to_trash"]) == ("planned", 1), after  # the photo deleted last, alone
