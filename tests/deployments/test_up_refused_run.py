"""A run of an account that `up` has no more, as the worker starts it: held against a real Prefect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from deployments.accounts import Account, save
from deployments.place import ACCOUNTS
from tests.flows.conftest import prefect_server  # noqa: F401

CREATING = """
import json, sys
from flows.reconcile import reconcile
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    print(client.create_flow_run(reconcile, parameters={"partition": sys.argv[1]}).id)
"""
LOOKING = """
import json, sys
from uuid import UUID
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    state = client.read_flow_run(UUID(sys.argv[1])).state
    print(json.dumps([state.type.value, state.message]))
"""
PARTITION = "https_photos__anna"


def test_a_run_of_an_unknown_account_fails_and_says_what_to_do(
    tmp_path: Path,
    prefect_server: str,  # noqa: F811
) -> None:
    (tmp_path / "me").mkdir()
    save(tmp_path / "accounts.json", [Account(tmp_path / "me")])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    given = {
        **clean, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": prefect_server,
        "DELETION_SYNC_HOME": str(tmp_path / "home"), ACCOUNTS: str(tmp_path / "accounts.json"),
    }  # fmt: skip

    def ran(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *arguments], env={**given, **more}, cwd=tmp_path, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    run_id = ran("-c", CREATING, PARTITION).stdout.splitlines()[-1]
    refused = ran("-P", "-m", "deployments.flow_run", PREFECT__FLOW_RUN_ID=run_id)
    kind, message = json.loads(ran("-c", LOOKING, run_id).stdout.splitlines()[-1])
    assert kind == "FAILED" and "--account" in message and message in refused.stderr
    assert PARTITION not in message and str(tmp_path) not in message
