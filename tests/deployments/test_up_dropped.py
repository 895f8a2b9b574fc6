"""An account that `up` is not started with any more: held against a real Prefect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from deployments import definitions
from deployments.accounts import Account, save
from tests.flows.conftest import prefect_server  # noqa: F401
from tests.flows.test_two_ways import ROOT

ANNA = "https_photos__anna"
SETTING_UP = """
import json, sys
from pathlib import Path
from deployments import accounts
from deployments.setup import set_up
from prefect.client.orchestration import get_client
set_up(accounts.load(Path(sys.argv[1])), Path(sys.argv[2]), lambda _: None)
with get_client(sync_client=True) as client:
    print(json.dumps(sorted(row.name for row in client.read_deployments() if row.paused)))
"""


def set_up_with(folder: Path, server: str, known: list[Account]) -> set[str]:
    """What is paused after it."""
    save(folder / "accounts.json", known)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    done = subprocess.run(
        [sys.executable, "-c", SETTING_UP, str(folder / "accounts.json"), str(folder)],
        env={**clean, "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": server, "PYTHONPATH": str(ROOT)},
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_schedules_of_a_dropped_account_rest_until_it_is_there_again(
    tmp_path: Path,
    prefect_server: str,  # noqa: F811
) -> None:
    both = [Account(tmp_path / "me"), Account(tmp_path / "anna", ANNA, "anna")]
    annas = set(definitions.names(both)) - set(definitions.names(both[:1]))
    assert len(annas) == 4
    assert set_up_with(tmp_path, prefect_server, both) == set()
    assert set_up_with(tmp_path, prefect_server, both[:1]) == annas
    assert set_up_with(tmp_path, prefect_server, both) == set()
