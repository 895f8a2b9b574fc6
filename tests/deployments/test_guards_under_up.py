"""What must not go wrong with a deletion when Prefect runs it: retries, kills, forms and plans, on one real `up`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deployments.place import POOL, Place
from deployments.place import environment as ups_environment
from state.home import Home
from state.runs import RunRecord, runs
from tasks.opening import find_partition
from tasks.settle import open_lines
from tests.cli.program import now, photos
from tests.deployments.upping import PROGRAM, Up, api_of, ended_run, group, run_of, until, upped
from tests.free_ports import free_port
from tests.world import World, small_world

YES = "yes, move the photos of this plan to the server's trash"
PHOTOS = 30


@dataclass
class Stage:
    """The world, and the `up` that is on. Each test has a photo of its own to delete."""

    world: World
    stack: ExitStack
    up: Up = field(init=False)

    def start(self) -> Up:
        work, port = self.world.home.parent / "work", str(free_port())
        self.up = self.stack.enter_context(upped(self.world.home, work, "--port", port, **self.credentials))
        self.up.told("Ready")
        return self.up

    @property
    def credentials(self) -> dict[str, str]:
        return {name: os.environ[name] for name in ("SERVER_URL", "SERVER_API_KEY")}

    def run(self, deployment: str, **parameters: object) -> Any:
        """A flow run of a deployment, ended."""
        with api_of(self.up.url) as api:
            return ended_run(api, run_of(api, deployment, **parameters)["id"])

    def apply(self, digest: str) -> Any:
        return self.run("apply/apply", plan_digest=digest, confirm=YES)

    def retried(self, run: Any) -> Any:
        """The run after the button Retry of the UI."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        with api_of(self.up.url) as api:
            answer = api.post(f"/flow_runs/{run['id']}/set_state", json={"state": state}).json()
            assert answer["status"] == "ACCEPT", answer
            until(lambda: api.get(f"/flow_runs/{run['id']}").json()["run_count"] > run["run_count"], "the retry")
            return ended_run(api, run["id"])

    def plan(self, *gone: str) -> str:
        """Delete photos locally and plan, by the command line; the plan's digest."""
        self.world.remove(*gone)
        self.world.now = now()
        return str(self.world.reconcile().digest)

    def deletes(self, name: str) -> int:
        """How often the server was asked to trash that photo."""
        return sum(
            self.world.ids[name] in (request.json or {}).get("ids", ())
            for request in self.world.simulator.mutations()
            if (request.method, request.path) == ("DELETE", "/api/assets")
        )

    def changes(self) -> int:
        return len(self.world.simulator.mutations())

    @contextmanager
    def at_the_delete(self, act: Callable[[], None]) -> Iterator[None]:
        """``act`` once, while the server has the DELETE and its sender waits for the answer."""
        left = [act]

        def arrived(method: str, path: str) -> None:
            if (method, path) == ("DELETE", "/api/assets") and left:
                left.pop()()

        self.world.simulator.faults.arrived = arrived
        try:
            yield
        finally:
            self.world.simulator.faults.arrived = None
        assert not left, "no DELETE came"

    def settled(self, name: str) -> None:
        """The photo is in the trash, was sent once, and nothing is left open."""
        assert name in self.world.trashed() and self.deletes(name) == 1
        assert not open_lines(find_partition()[1])


def page_of(stage: Stage, run: dict[str, Any]) -> str:
    """The newest summary page of a flow run."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}, "key": {"any_": ["summary"]}}}
    with api_of(stage.up.url) as api:
        rows = api.post("/artifacts/filter", json=wanted).raise_for_status().json()
    return str(max(rows, key=lambda row: row["created"])["data"])


def photo(number: int) -> str:
    return f"2024/IMG_{number}.JPG"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("guards")
    with pytest.MonkeyPatch.context() as monkeypatch, small_world(root, monkeypatch) as world, ExitStack() as stack:
        world.simulator.clock = now
        photos(world, PHOTOS)
        world.now = now()
        assert world.reconcile().outcome == "nothing to do"
        found = Stage(world, stack)
        found.start()
        yield found


@pytest.mark.parametrize(
    ("deployment", "parameters"),
    [
        ("apply/apply", {}),
        ("apply/apply", {"plan_digest": "0" * 64}),
        ("apply/apply", {"plan_digest": "0" * 64, "confirm": "no"}),
        ("apply/apply", {"plan_digest": "short", "confirm": YES}),
        ("apply/apply", {"plan_digest": "0" * 64, "confirm": YES, "force": True}),
        ("reconcile/full", {"dryrun": True}),
        ("reconcile/full", {"dry_run": "perhaps"}),
        ("reconcile/full", {"partition": ""}),
        ("reconcile/incremental", {"time_budget_seconds": 0}),
        ("restore/restore", {}),
    ],
    ids=str,
)
def test_a_form_that_is_incomplete_unknown_or_out_of_bounds_is_refused(
    stage: Stage, deployment: str, parameters: dict[str, object]
) -> None:
    with api_of(stage.up.url) as api:
        found = api.get(f"/deployments/name/{deployment}").raise_for_status().json()
        answer = api.post(f"/deployments/{found['id']}/create_flow_run", json={"parameters": parameters})
        assert answer.status_code in (409, 422), answer.text


@pytest.mark.parametrize("parameters", [{"plan_digest": "0" * 64}, {"plan_digest": "0" * 64, "confirm": "no"}])
def test_without_the_forms_check_the_flow_itself_refuses(stage: Stage, parameters: dict[str, object]) -> None:
    before = stage.changes()
    with api_of(stage.up.url) as api:
        found = api.get("/deployments/name/apply/apply").raise_for_status().json()
        unchecked = {"parameters": parameters, "enforce_parameter_schema": False}
        run = ended_run(api, api.post(f"/deployments/{found['id']}/create_flow_run", json=unchecked).json()["id"])
    assert run["state_type"] in ("FAILED", "CRASHED") and stage.changes() == before


def test_an_approved_plan_goes_once_and_its_retry_in_the_ui_deletes_nothing_more(stage: Stage) -> None:
    run = stage.apply(stage.plan(photo(1)))
    assert (run["state_type"], run["state"]["message"]) == ("COMPLETED", "trashed 1")
    before = stage.changes()
    again = stage.retried(run)
    assert (again["state_type"], again["state"]["message"]) == ("FAILED", "ConfirmationNeeded")
    assert "applied already" in page_of(stage, again)
    assert stage.changes() == before and stage.world.trashed() == {photo(1)}


def test_a_completed_real_run_that_is_retried_in_the_ui_deletes_nothing_more(stage: Stage) -> None:
    stage.world.change_settings(applyScheduledRuns=True)
    stage.world.remove(photo(2))
    run = stage.run("reconcile/full", dry_run=False)
    assert run["state"]["message"] == "trashed 1"
    before = stage.changes()
    assert stage.retried(run)["state"]["message"] == "nothing to do"
    assert stage.changes() == before
    stage.settled(photo(2))


def test_a_retry_reads_the_library_again_and_spares_a_photo_that_came_back(stage: Stage) -> None:
    stage.world.remove(photo(3))
    stage.world.simulator.faults.add("DELETE", "/api/assets", status=500, times=None)
    run = stage.run("reconcile/full", dry_run=False)
    assert run["state_type"] == "FAILED"
    stage.world.simulator.faults.clear()
    stage.world.write(photo(3))
    before = stage.deletes(photo(3))
    again = stage.retried(run)
    assert (again["state_type"], again["state"]["message"]) == ("COMPLETED", "nothing to do")
    assert photo(3) not in stage.world.trashed() and stage.deletes(photo(3)) == before


def test_a_plan_that_is_stale_is_refused(stage: Stage) -> None:
    digest = stage.plan(photo(4))
    newer = stage.plan(photo(5))
    before = stage.changes()
    run = stage.apply(digest)
    assert (run["state_type"], run["state"]["message"]) == ("FAILED", "ConfirmationNeeded")
    assert "stale" in page_of(stage, run)
    assert stage.changes() == before and newer != digest


def test_a_plan_that_another_run_has_consumed_is_refused(stage: Stage) -> None:
    planned = stage.world.reconcile()
    assert stage.world.apply(planned).outcome == "trashed"
    before = stage.changes()
    run = stage.apply(str(planned.digest))
    assert (run["state_type"], run["state"]["message"]) == ("FAILED", "ConfirmationNeeded")
    assert "applied already" in page_of(stage, run)
    assert stage.changes() == before


def test_a_plan_that_was_changed_on_disk_is_refused(stage: Stage) -> None:
    digest = stage.plan(photo(6))
    (path,) = [path for path in _run_folders() if json.loads(path.read_text())["digest"] == digest]
    content = json.loads(path.read_text())
    (unit,) = content["units"]
    unit["asset_id"] = stage.world.ids[photo(7)]
    path.write_text(json.dumps(content))
    before = stage.changes()
    run = stage.apply(digest)
    assert (run["state_type"], run["state"]["message"]) == ("FAILED", "ConfirmationNeeded")
    assert "not the one that was approved" in page_of(stage, run)
    assert stage.changes() == before
    stage.world.write(photo(6))


def test_two_workers_on_the_pool_run_one_run_of_an_account_at_a_time(stage: Stage, tmp_path: Path) -> None:
    place = Place(Home(stage.world.home))
    port = int(stage.up.url.rsplit(":", 1)[1])
    stage.world.remove(photo(8))
    began = now().replace(tzinfo=None)
    with subprocess.Popen(
        [PROGRAM.with_name("prefect"), "worker", "start", "--pool", POOL, "--name", "second"], cwd=tmp_path,
        env={**ups_environment(place, port, os.environ), **stage.credentials}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as second:  # fmt: skip
        try:
            with api_of(stage.up.url) as api:

                def workers() -> bool:
                    return len(api.post(f"/work_pools/{POOL}/workers/filter", json={}).json()) == 2

                until(workers, "the second worker")
                names = ("reconcile/full", "reconcile/incremental")
                started = [run_of(api, name, dry_run=False)["id"] for name in names]
                ended = [ended_run(api, run_id) for run_id in started]
        finally:
            os.killpg(second.pid, signal.SIGKILL)
    assert sorted(run["state"]["message"] for run in ended) == ["nothing to do", "trashed 1"]
    one, other = sorted((run for run in _recorded() if run.started_at >= began), key=lambda run: run.started_at)
    assert one.duration_ms is not None
    assert (other.started_at - one.started_at).total_seconds() * 1000 >= one.duration_ms - 50
    stage.settled(photo(8))


def test_a_worker_that_is_killed_in_the_middle_of_an_apply_trashes_once_and_the_next_run_settles(stage: Stage) -> None:
    worker = stage.up.pid("worker")
    digest = stage.plan(photo(9))
    with stage.at_the_delete(lambda: os.killpg(worker, signal.SIGKILL)), api_of(stage.up.url) as api:
        run_id = run_of(api, "apply/apply", plan_digest=digest, confirm=YES)["id"]
        stage.up.ready_again("worker", worker)
        assert ended_run(api, run_id)["state_type"] == "CRASHED"
    assert open_lines(find_partition()[1])
    assert stage.run("reconcile/full", dry_run=False)["state"]["message"] == "nothing to do"
    stage.settled(photo(9))


def test_a_server_that_is_restarted_in_the_middle_of_a_run_costs_the_run_nothing(stage: Stage) -> None:
    server = stage.up.pid("server")
    stage.world.remove(photo(10))
    with stage.at_the_delete(lambda: os.killpg(server, signal.SIGKILL)), api_of(stage.up.url) as api:
        run_id = run_of(api, "reconcile/full", dry_run=False)["id"]
        stage.up.ready_again("server", server)
    with api_of(stage.up.url) as api:
        run = ended_run(api, run_id)
    assert (run["state_type"], run["state"]["message"]) == ("COMPLETED", "trashed 1")
    stage.settled(photo(10))


def test_after_power_loss_in_the_middle_of_a_run_the_next_up_settles_and_trashes_nothing_twice(stage: Stage) -> None:
    leaders = [stage.up.pid(name) for name in ("server", "worker")]
    stage.world.remove(photo(11))

    def power_loss() -> None:
        stage.up.process.kill()
        for leader in leaders:
            os.killpg(leader, signal.SIGKILL)

    with stage.at_the_delete(power_loss), api_of(stage.up.url) as api:
        run_id = run_of(api, "reconcile/full", dry_run=False)["id"]
        stage.up.process.wait()
    until(lambda: not any(group(leader) for leader in leaders), "the end of all")
    stage.start()
    with api_of(stage.up.url) as api:
        assert api.get(f"/flow_runs/{run_id}").json()["state_type"] == "CRASHED"
    assert stage.run("reconcile/full", dry_run=False)["state"]["message"] == "nothing to do"
    stage.settled(photo(11))


def _run_folders() -> list[Path]:
    return sorted(find_partition()[1].runs.glob("*/plan.json"))


def _recorded() -> list[RunRecord]:
    from state.db import reading

    with reading(find_partition()[1]) as con:
        return runs(con)
