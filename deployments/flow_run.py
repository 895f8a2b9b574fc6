"""`python -m deployments.flow_run`: one flow run, as the worker starts it, with the account's credentials at hand.

Runs of one account wait for each other, whichever deployment they are of, so that the queue is seen in the UI. That
is for the eye: the guarantee is the partition's lock.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from deployments import accounts, lifeline
from deployments.place import ACCOUNTS, LIMIT, check_modules
from engine import database
from engine.errors import DeletionSyncError
from flows.channels import resource_of
from flows.withheld import name_of
from server import stream_bulk
from state.home import Home
from state.partition import Partition
from tasks.opening import DEFAULT_PARTITION, find_partition

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_LEASE_SECONDS = 60  # how long a slot outlives a run that was killed


def main() -> None:
    """Run the flow run that PREFECT__FLOW_RUN_ID names, and end as Prefect's engine does."""
    lifeline.follow(os.environ)
    check_modules()
    flow_run = _asked_for()
    partition = str(flow_run.parameters.get("partition", DEFAULT_PARTITION))
    try:
        _use_credentials(partition)
    except DeletionSyncError as error:
        _refuse(flow_run, error)
        return
    try:
        with _one_at_a_time(partition, flow_run):
            sys.argv = ["prefect.engine"]
            runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
    finally:
        _let_go()


def _let_go() -> None:
    """DuckDB tells of everything that outlives it, in lines that whoever reads `logs` would take for trouble."""
    database.let_go()
    stream_bulk.let_go()
    gc.collect()


def _asked_for() -> FlowRun:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(os.environ["PREFECT__FLOW_RUN_ID"]))


def _refuse(flow_run: FlowRun, error: DeletionSyncError) -> None:
    """End the run as failed before its flow begins. The log of `up` has the whole error."""
    from prefect.client.orchestration import get_client
    from prefect.states import Failed

    sys.stderr.write(f"{error}\n")
    message = str(error) if isinstance(error, accounts.AccountGone) else name_of(error)
    state: Any = Failed(message=message)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run.id, state, force=True)


def _use_credentials(partition: str) -> None:
    """Put the account's credentials where the flow looks first, in this process alone.

    Where they cannot be had the flow looks for them itself, in the account's folder, and tells why. Raises AccountGone
    where there is no such account or folder, and StateError where the accounts cannot be read.
    """
    from state.credentials import KEY, NOTIFY, URL, load_credentials, notify_urls

    known = os.environ.get(ACCOUNTS)
    if known is None:
        return
    home = Home.locate(os.environ)
    directory = accounts.account_of(accounts.load(Path(known)), home, os.environ, partition).directory
    try:
        found = load_credentials(os.environ, directory)
    except DeletionSyncError:
        os.chdir(directory)
        return
    os.environ[URL], os.environ[KEY] = found.server_url, found.api_key.get_secret_value()
    if addresses := notify_urls(os.environ, directory):
        os.environ[NOTIFY] = " ".join(address.get_secret_value() for address in addresses)


def limit_of(partition: Partition) -> str:
    """The name of the account's limit in Prefect: neither its address nor its user id."""
    return f"{LIMIT}{resource_of(partition)}"


@contextlib.contextmanager
def _one_at_a_time(partition: str, flow_run: FlowRun) -> Iterator[None]:
    """Hold the account's limit in Prefect. Without a known account there is none: the flow then ends by itself."""
    from prefect.client.orchestration import get_client
    from prefect.concurrency.sync import concurrency
    from prefect.logging.loggers import flow_run_logger

    try:
        limit = limit_of(find_partition(partition)[1])
    except DeletionSyncError:
        yield
        return
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(limit, 1)
        if client.read_global_concurrency_limit_by_name(limit).active_slots:
            flow_run_logger(flow_run).info("Another run of this account is on. This one waits for it.")
    with concurrency(limit, lease_duration=_LEASE_SECONDS, strict=True, raise_on_lease_renewal_failure=False):
        yield


if __name__ == "__main__":
    main()
