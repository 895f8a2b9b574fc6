"""What Prefect keeps of an error is its name: folders, files and addresses in its text stay out of its database."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.errors import RailTripped, UsageError
from flows import notices, report, telling
from flows.naming import RECONCILE, is_dry
from flows.withheld import Withheld, name_of
from tasks.summary import Summary
from tests.deployments.upping import until
from tests.flows.test_two_ways import ROOT
from tests.world import small_world

PRIVATE = "Holiday with Anna"


def test_an_error_of_a_step_leaves_its_name_and_nothing_else_in_prefect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: str
) -> None:
    begun = datetime.now(UTC).isoformat()
    with small_world(tmp_path, monkeypatch) as world:
        world.backed_up("IMG_1.JPG")
        (tmp_path / "clock").write_text(world.now.isoformat())
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        (tmp_path / f"{PRIVATE}.txt").write_text("no checksum\n")
        given = [str(tmp_path / "clock"), str(tmp_path / f"{PRIVATE}.txt")]
        done = subprocess.run(
            [sys.executable, "-m", "tests.flows.withheld_by_prefect", *given],
            env={
                **clean, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": prefect_server,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert PRIVATE in seen["ours"], "the caller has the whole error"
    assert "Withheld" in seen["prefects"] and PRIVATE not in seen["prefects"]
    with httpx.Client(base_url=f"{prefect_server}/", trust_env=False, timeout=60) as api:
        runs = api.post("flow_runs/filter", json={"flow_runs": {"start_time": {"after_": begun}}}).json()
        of_runs = {"flow_runs": {"id": {"any_": [run["id"] for run in runs]}}}
        wanted = {"event": {"prefix": ["prefect.flow-run.", "prefect.task-run."]}, "occurred": {"since": begun}}

        def recorded() -> Any:
            tasks = api.post("task_runs/filter", json=of_runs).raise_for_status().json()
            events = api.post("events/filter", json={"filter": wanted}).raise_for_status().json()["events"]
            kinds = [event["event"] for event in events]
            whole = kinds.count("prefect.flow-run.Failed") == 2 and "prefect.task-run.Failed" in kinds
            return (tasks, events) if whole and any(task["state_type"] == "FAILED" for task in tasks) else None

        tasks, events = until(recorded, "the failed task and the events")  # the server records them seconds later
        logs = api.post("logs/filter", json={"logs": {"timestamp": {"after_": begun}}}).json()
    assert [run["state_type"] for run in runs] == ["FAILED"] * 2
    assert len({run["state"]["message"] for run in runs}) == 1 and runs[0]["state"]["message"].isidentifier()
    assert logs
    for kept in ([run["state"] for run in runs], [task["state"] for task in tasks], logs, events):
        assert PRIVATE not in json.dumps(kept)
    stored = [path for path in (tmp_path / "prefect").rglob("*") if path.is_file()]
    assert not [path for path in stored if PRIVATE.encode() in path.read_bytes()]


def test_a_rail_is_named() -> None:
    assert name_of(RailTripped("threshold", "12 of 40.")) == "rail: threshold"
    assert name_of(UsageError("x")) == "UsageError"


def test_what_prefect_may_write_down_of_an_error_has_no_text() -> None:
    assert PRIVATE.encode() not in pickle.dumps(Withheld(UsageError(f"/home/{PRIVATE} is gone.")))


@pytest.fixture
def without_pages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, bool]]:
    """A real run of `reconcile` of which Prefect takes no page; what was told."""
    told: list[tuple[Any, bool]] = []

    def refused(**_: object) -> None:
        raise httpx.ConnectError("Prefect is away")

    def tell(_: str, end: object, *, dry_run: bool) -> None:
        told.append((end, dry_run))

    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__FLOW_NAME", RECONCILE)
    monkeypatch.setattr(report, "is_dry", lambda *_: False)
    monkeypatch.setattr(report, "create_markdown_artifact", refused)
    monkeypatch.setattr(telling, "shown_progress", contextlib.nullcontext)
    monkeypatch.setattr(telling, "log", lambda _: None)
    monkeypatch.setattr(notices, "tell", tell)
    return told


def test_an_error_is_told_where_its_page_cannot_be_written(without_pages: list[tuple[Any, bool]]) -> None:
    error = UsageError(f"/home/{PRIVATE} is gone.")

    def work() -> Any:
        raise error

    state = report.run_and_show("default", work)
    assert without_pages == [(error, False)]
    assert state.message == "UsageError" and PRIVATE not in repr(state)
    assert state.data.error is error


def test_a_run_ends_as_it_ended_where_its_page_cannot_be_made(
    without_pages: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> str:
        raise UsageError("The file batch-0.json is damaged.")

    monkeypatch.setattr(report, "markdown", damaged)
    done = Summary("r", "apply", "direct", False, "", 0, "trashed", counts={"trashed": 3})
    state = report.run_and_show("default", lambda: done)
    assert (state.type.value, state.message) == ("COMPLETED", "trashed 3")
    assert without_pages == [(done, False)]


@pytest.mark.parametrize(
    ("flow", "given", "dry"),
    [
        ("reconcile", {}, True),
        ("reconcile", {"dry_run": True}, True),
        ("reconcile", {"dry_run": False}, False),
        ("apply", {}, False),
        ("restore", {}, False),
    ],
)
def test_a_reconciliation_of_which_nothing_else_is_said_is_dry(flow: str, given: dict[str, Any], dry: bool) -> None:
    assert is_dry(flow, given) is dry
