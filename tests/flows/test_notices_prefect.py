"""Under Prefect a notice is an event that an automation can act on; held against a real Prefect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.channels import event_channels, resource_of
from tasks.opening import find_partition
from tests.deployments.upping import until
from tests.flows.noticing import SECRET, nobody, service
from tests.flows.test_two_ways import ROOT
from tests.world import small_world


def test_a_rail_under_prefect_is_one_event_of_the_account_and_names_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: str
) -> None:
    nobody(monkeypatch)
    with small_world(tmp_path, monkeypatch) as world, service() as there:
        monkeypatch.setenv("NOTIFY_URLS", there.url)
        world.all_backed_up("IMG_{}.JPG", 4)
        world.reconcile()
        world.remove(*(f"IMG_{number}.JPG" for number in range(4)))
        (tmp_path / "clock").write_text(world.now.isoformat())
        _, partition = find_partition()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        done = subprocess.run(
            [sys.executable, "-m", "tests.flows.noticed_by_prefect", str(tmp_path / "clock")],
            env={
                **clean, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": prefect_server,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == ["empty_local", "empty_local"]
        with httpx.Client(base_url=f"{prefect_server}/", trust_env=False, timeout=60) as api:
            wanted = {"event": {"prefix": ["deletion-sync."]}, "resource": {"id": [resource_of(partition)]}}

            def found() -> Any:
                return api.post("events/filter", json={"filter": wanted}).raise_for_status().json()["events"] or None

            (event,) = until(found, "the event")  # the server records events some seconds later
        assert event["event"] == "deletion-sync.rail"
        assert event["payload"]["title"] == there.titles[0] == "A safety rail stopped a run"
        assert len(there.taken) == 1
        assert any(one["prefect.resource.role"] == "flow-run" for one in event["related"])
        own = json.dumps([event["resource"], event["payload"]])
        for private in (world.user_id, world.url, partition.name, "IMG_", SECRET):
            assert private not in own, private
        assert SECRET not in done.stdout + done.stderr


def test_outside_of_a_flow_run_no_event_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_world(tmp_path, monkeypatch):
        assert event_channels(find_partition()[1]) == []
