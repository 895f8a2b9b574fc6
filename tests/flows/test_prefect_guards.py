"""What Prefect's caching, retries and forms must not be able to do to a deletion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import ParameterTypeError

from engine.errors import DeletionSyncError
from flows import prefect_way
from flows.apply import apply
from flows.reconcile import reconcile
from flows.restore import restore
from flows.withheld import Withheld
from server.errors import KeyRefused, ServerUnreachable
from tasks import (
    classify,
    delete,
    diff,
    enumerate,
    fetch_server_assets,
    hash,
    journal,
    merge_observed,
    rails,
    scope_filter,
    tag,
)
from tasks import restore as restore_step
from tasks.refs import Ref, RunRef
from tests.deployments.upping import until
from tests.flows.test_two_ways import ROOT, STEPS
from tests.world import small_world

ALL = [
    *(enumerate.STEP, hash.STEP, merge_observed.STEP, fetch_server_assets.STEP, diff.STEP, scope_filter.STEP),
    *(classify.STEP, rails.STEP, tag.STEP, delete.STEP, journal.STEP, restore_step.STEP),
]
PURE = {"diff", "scope_filter", "classify"}


def test_the_steps_have_the_names_of_the_pipeline_in_its_order() -> None:
    assert [step.name for step in ALL] == [*STEPS, "tag", "delete", "journal", "restore"]


@pytest.mark.parametrize("step", ALL, ids=lambda step: step.name)
def test_only_the_pure_steps_are_cached_and_by_an_explicit_key(step: Any) -> None:
    made = prefect_way.task_of(step)
    assert made.name == step.name
    if step.name in PURE:
        assert made.cache_key_fn is not None and step.rule_facts is not None
    else:
        assert made.cache_key_fn is None and made.cache_policy == NO_CACHE and not made.persist_result


@pytest.mark.parametrize("step", [tag.STEP, delete.STEP, journal.STEP, restore_step.STEP], ids=lambda step: step.name)
def test_what_changes_the_server_is_never_retried_by_the_pipeline(step: Any) -> None:
    assert step.retries == 0 and prefect_way.task_of(step).retries == 0


def test_no_flow_is_retried_by_itself() -> None:
    assert [flow.retries for flow in (reconcile, apply, restore)] == [0, 0, 0]


def test_the_cache_key_names_the_step_the_rule_the_facts_and_every_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.backed_up("a.jpg")
        summary = world.reconcile()
        run = RunRef(str(world.home), next(world.home.glob("partitions/*__*")).name, summary.run_id)
        one, other = Ref("server.parquet", 1, "11"), Ref("server.parquet", 1, "22")
        keys = [
            prefect_way.cache_key(diff.STEP, run, (one,)),
            prefect_way.cache_key(diff.STEP, run, (other,)),
            prefect_way.cache_key(scope_filter.STEP, run, (one,)),
            prefect_way.cache_key(classify.STEP, run, (one,)),
        ]
        again = prefect_way.cache_key(diff.STEP, run, (one,))
        world.pass_days(1)
        later = RunRef(run.home, run.partition, world.reconcile().run_id)
        assert len(set(keys)) == len(keys) and again == keys[0]
        assert prefect_way.cache_key(diff.STEP, later, (one,)) == keys[0], "an unchanged diff comes from the cache"
        assert prefect_way.cache_key(classify.STEP, later, (one,)) != keys[3], "the quarantine depends on the clock"


class _State:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def result(self, raise_on_failure: bool) -> BaseException:
        assert raise_on_failure is False
        return self.error


@pytest.mark.parametrize(("error", "again"), [(ServerUnreachable("x"), True), (KeyRefused("x"), False)])
def test_a_step_is_tried_again_only_for_what_passes_by_itself(error: DeletionSyncError, again: bool) -> None:
    nothing: Any = None
    state: Any = _State(Withheld(error))
    assert prefect_way.passes_by_itself(nothing, nothing, state) is again


def test_an_unchanged_run_is_cached_and_a_cache_whose_files_are_gone_does_the_work_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: str
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.all_backed_up("IMG_{}.JPG", 4)
        (tmp_path / "clock").write_text(world.now.isoformat())
        seen = _child("tests.flows.twice", tmp_path, prefect_server)
        assert len(set(seen["digests"])) == 1
        assert seen["files"][0] == seen["files"][1], "a cached file is brought into the run's own folder"
        with httpx.Client(base_url=f"{prefect_server}/", trust_env=False, timeout=60) as api:

            def cached() -> bool:
                wanted = {"task_runs": {"state": {"name": {"any_": ["Cached"]}}}}
                runs = api.post("task_runs/filter", json=wanted).raise_for_status().json()
                names = {run["name"].rsplit("-", 1)[0] for run in runs}
                assert names <= PURE
                return names == PURE

            until(cached, "the cached task runs")  # the server records task runs some seconds later


@pytest.mark.parametrize(
    "parameters",
    [
        {"plan_digest": "0" * 64},
        {"plan_digest": "0" * 64, "confirm": ""},
        {"plan_digest": "0" * 64, "confirm": "no"},
        {"plan_digest": "short", "confirm": "yes, move the photos of this plan to the server's trash"},
    ],
)
def test_the_apply_form_cannot_be_sent_without_a_digest_and_a_confirmation(parameters: dict[str, str]) -> None:
    with pytest.raises(ParameterTypeError):
        apply.validate_parameters({"partition": "default", **parameters})
    schema = apply.parameters.model_dump()
    assert schema["required"] == ["plan_digest", "confirm"]
    assert "reviewed" in json.dumps(schema["properties"]["plan_digest"])


def test_every_parameter_describes_itself_in_the_form() -> None:
    for flow in (reconcile, apply, restore):
        for name, shown in flow.parameters.model_dump()["properties"].items():
            assert shown.get("description"), f"{flow.name}: {name}"


def _child(module: str, folder: Path, api_url: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder / "clock")],
        env={**clean, "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": api_url, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
