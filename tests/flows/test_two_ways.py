"""One pipeline, two ways to run it: directly, and as Prefect flows with a running or an ephemeral server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.privacy import UNLESS_SET
from tests.deployments.upping import until
from tests.world import small_world

ROOT = Path(__file__).parents[2]
STEPS = ["enumerate", "hash", "merge_observed", "fetch_server_assets", "diff", "scope_filter", "classify", "rails"]


def told(root: Path, monkeypatch: pytest.MonkeyPatch, way: str, **environment: str) -> list[dict[str, Any]]:
    """What the story's runs ended with, and what the server saw, for one way."""
    root.mkdir()
    with small_world(root, monkeypatch) as world:
        clock_file = root / "clock"
        clock_file.write_text(world.now.isoformat())
        world.simulator.clock = lambda: type(world.now).fromisoformat(clock_file.read_text())
        world.all_backed_up("IMG_{}.JPG", 6)
        world.live_photo("IMG_90")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        done = subprocess.run(
            [sys.executable, "-m", "tests.flows.story", way, str(world.folder), str(clock_file)],
            env={**clean, "PREFECT_HOME": str(root / "prefect"), "PYTHONPATH": str(ROOT), **environment},
            capture_output=True, text=True, timeout=540, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        seen: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        requests = [[r.method, r.path.split("?")[0]] for r in world.simulator.mutations()]
        return [*seen, {"trashed": sorted(world.trashed()), "mutations": requests}]


def comparable(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between any two runs: ids, times, the partition's name in the digest, and the way."""
    own = {"run_id", "started_at", "durationMs", "digest", "way"}
    kept = [{key: value for key, value in part.items() if key not in own} for part in seen]
    for part in kept:
        part["next_step"] = str(part.get("next_step", "")).split("--run-id")[0]
        part["mutations"] = [method for method, _ in part.get("mutations", [])]
    return kept


@pytest.fixture(scope="module")
def directly(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return told(tmp_path_factory.mktemp("direct") / "d", monkeypatch, "direct")


def test_the_story_goes_as_it_should(directly: list[dict[str, Any]]) -> None:
    first, held, planned, applied, again, restored, after, journal, server = directly
    assert (first["outcome"], first["dry_run"]) == ("nothing to do", True)
    assert (held["counts"]["held"], held["counts"]["delete"]) == (2, 0)
    assert (planned["outcome"], planned["counts"]["to_trash"]) == ("planned", 3)
    assert (applied["outcome"], applied["counts"]["trashed"]) == ("trashed", 2)
    assert again["error"] == "ConfirmationNeeded"
    assert (restored["outcome"], after["outcome"]) == ("restored", "nothing to do")
    assert server["trashed"] == []
    statuses = [status for status, _ in journal["journal"]]
    assert statuses == [
        *("approve", "planned", "planned", "tagged", "tagged", "trashed", "trashed", "run_finished"),
        *("exclude_add", "restored", "restored"),
    ]


def test_with_a_running_prefect_server_the_outcomes_are_the_same_and_the_steps_are_task_runs(
    directly: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: str
) -> None:
    begun = datetime.now(UTC).isoformat()
    seen = told(tmp_path / "p", monkeypatch, "prefect", PREFECT_API_URL=prefect_server)
    assert comparable(seen) == comparable(directly)
    with httpx.Client(base_url=f"{prefect_server}/", trust_env=False, timeout=60) as api:
        mine = {"flow_runs": {"start_time": {"after_": begun}}, "sort": "START_TIME_ASC"}
        flow_runs = api.post("flow_runs/filter", json=mine).json()
        states = [[run["state_type"], run["state"]["message"]] for run in flow_runs]
        assert [kind for kind, _ in states] == ["COMPLETED"] * 4 + ["FAILED"] + ["COMPLETED"] * 2
        assert [message for kind, message in states if kind == "COMPLETED"] == [
            *("nothing to do", "nothing to do", "planned 2, review needed", "trashed 2", "restored 2", "nothing to do"),
        ]
        of_first = {"flow_runs": {"id": {"any_": [flow_runs[0]["id"]]}}, "sort": "EXPECTED_START_TIME_ASC"}

        def names() -> Any:
            runs = api.post("task_runs/filter", json=of_first).raise_for_status().json()
            return [run["name"].rsplit("-", 1)[0] for run in runs] if len(runs) >= len(STEPS) else None

        assert until(names, "the task runs") == STEPS  # the server records task runs some seconds later
        everything = json.dumps(api.post("task_runs/filter", json={}).json() + flow_runs)
        of_planned = {"logs": {"flow_run_id": {"any_": [flow_runs[2]["id"]]}}, "sort": "TIMESTAMP_ASC"}
        kept_logs = api.post("logs/filter", json=of_planned).json()
        logs = json.dumps(api.post("logs/filter", json={}).json())
        artifacts = api.post("artifacts/filter", json={}).json()
    for text in (everything, logs):
        assert "IMG_" not in text and os.environ.get("SERVER_API_KEY", "no key set") not in text
    assert_runs_are_readable(flow_runs, artifacts, [entry["message"] for entry in kept_logs], seen)


def assert_runs_are_readable(
    flow_runs: list[dict[str, Any]], artifacts: list[dict[str, Any]], lines: list[str], seen: list[dict[str, Any]]
) -> None:
    """Names, logs and pages tell a person what happened; the planned run is the third, its apply the fourth."""
    digest, applied = seen[2]["digest"], seen[3]["run_id"]
    assert [run["name"] for run in flow_runs] == [
        *("default: full, real", "default: full, dry run", "default: full, dry run"),
        *([f"default: apply {digest[:8]}, real"] * 2),
        *(f"default: restore {applied}, real", "default: full, dry run"),
    ]
    own = [line for line in lines if line.split(":")[0] in (*STEPS, "Ended", "Next")]
    assert [line.split(":")[0] for line in own] == [*STEPS, "Ended", "Next"]
    assert "rails: 2 photos to be moved to the server's trash." in own
    planned, went, refused = (
        next(a["data"] for a in artifacts if a["flow_run_id"] == run["id"] and a["key"] == "summary")
        for run in flow_runs[2:5]
    )
    assert planned.startswith("# Planned: your review is needed") and digest in planned
    assert "[IMG_1.JPG](" in planned and "![](data:image/" in planned
    assert went.startswith("# Moved to the server's trash") and "/tags?path=" in went
    assert refused.startswith("# Failed") and "**Next:**" in refused
    own_ids = {run["id"] for run in flow_runs}
    bars = [a for a in artifacts if a["key"] == "progress" and a["flow_run_id"] in own_ids]
    assert {a["flow_run_id"] for a in bars} == {run["id"] for run in flow_runs}
    assert sum(a["data"] == 100.0 for a in bars) == len(flow_runs) - 1  # the refused one did not end


@pytest.mark.timeout(600)  # its server answers slowly: it takes a minute and a half on a busy machine
def test_with_the_ephemeral_server_the_outcomes_are_the_same(
    directly: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert UNLESS_SET["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] == "120"
    seen = told(tmp_path / "e", monkeypatch, "prefect")
    assert comparable(seen) == comparable(directly)
