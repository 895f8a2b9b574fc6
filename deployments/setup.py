"""What Prefect's server must know before a worker starts: the pool, the deployments, the fate of earlier runs."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from deployments import definitions
from deployments.accounts import Account
from deployments.place import LIMIT, POOL
from engine.errors import DeletionSyncError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, StateType
    from prefect.client.schemas.responses import DeploymentResponse

Tell = Callable[[str], None]

_PAGE = 200


def set_up(accounts: list[Account], folder: Path, tell: Tell) -> None:
    """Bring the server to where a worker can start. No worker of the pool may be at work.

    Deployments are written anew only where their definitions changed, so that a schedule that a person switched off
    in the UI stays off. Raises DeletionSyncError.
    """
    from prefect.client.orchestration import get_client

    timezone = definitions.local_timezone()
    path = definitions.written(folder, accounts)
    mark = definitions.mark(path, timezone)
    with get_client(sync_client=True) as client:
        _make_pool(client)
        _close_cut_off(client, tell)
        _free_limits(client)
        _pause_dropped(client, accounts, tell)
        _drop_missed(client, tell)
        if _value(client, definitions.DEPLOYED_VARIABLE) == mark and _all_there(client, accounts):
            return
        _set_value(client, definitions.TIMEZONE_VARIABLE, timezone)
    tell("Writing the deployments.")
    _deploy(path, tell)
    with get_client(sync_client=True) as client:
        _close_forms(client)
        _resume(client, accounts)
        _set_value(client, definitions.DEPLOYED_VARIABLE, mark)


def _make_pool(client: SyncPrefectClient) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    try:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process", base_job_template=template))
    except ObjectAlreadyExists:
        return


def _close_cut_off(client: SyncPrefectClient, tell: Tell) -> None:
    """Runs that were on when everything was killed have no process any more: say so, and free their places."""
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    for run in _runs(client, [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]):
        state: Any = Crashed(message="It was cut off. What it left open the next run brings to an end.")
        client.set_flow_run_state(run.id, state, force=True)
        tell(f"The run “{run.name}” had been cut off. It is marked as crashed.")


def _free_limits(client: SyncPrefectClient) -> None:
    """A run that was killed holds its account's limit for a minute more. None is on now; the next one makes it anew."""
    for limit in client.read_global_concurrency_limits(limit=_PAGE):
        if limit.name.startswith(LIMIT):
            client.delete_global_concurrency_limit_by_name(limit.name)


def _drop_missed(client: SyncPrefectClient, tell: Tell) -> None:
    """Of the runs of a schedule that were missed while nothing ran, the newest one starts, and the others never."""
    from prefect.client.schemas.objects import StateType

    missed: dict[UUID | None, list[UUID]] = {}
    for run in _runs(client, [StateType.SCHEDULED], before=datetime.now(UTC)):
        if run.auto_scheduled:
            missed.setdefault(run.deployment_id, []).append(run.id)
    for ids in missed.values():
        for run_id in ids[1:]:
            client.delete_flow_run(run_id)
    if missed:
        count = sum(map(len, missed.values()))
        tell(f"Scheduled runs that were missed: {count}. One of each deployment starts now, and no other.")


def _runs(client: SyncPrefectClient, states: list[StateType], before: datetime | None = None) -> list[FlowRun]:
    """The pool's flow runs in one of the states and expected before then, the latest first."""
    from prefect.client.schemas import filters
    from prefect.client.schemas.sorting import FlowRunSort

    wanted = filters.FlowRunFilter(
        state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=states)),
        expected_start_time=None
        if before is None
        else filters.FlowRunFilterExpectedStartTime.model_validate({"before_": before}),
    )
    pool = filters.WorkPoolFilter(name=filters.WorkPoolFilterName(any_=[POOL]))
    found: list[FlowRun] = []
    while True:
        page = client.read_flow_runs(
            flow_run_filter=wanted,
            work_pool_filter=pool,
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=_PAGE,
            offset=len(found),
        )
        found += page
        if len(page) < _PAGE:
            return found


def _deployments(client: SyncPrefectClient) -> list[DeploymentResponse]:
    """The deployments of our pool."""
    found: list[DeploymentResponse] = []
    while True:
        page = client.read_deployments(limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return [row for row in found if row.work_pool_name == POOL]


def _pause_dropped(client: SyncPrefectClient, accounts: list[Account], tell: Tell) -> None:
    """An account that `up` was not started with keeps its deployments, but no schedule of them starts anything."""
    wanted = set(definitions.names(accounts))
    for row in _deployments(client):
        if row.name not in wanted and not row.paused:
            client.pause_deployment(row.id)
            tell(f"The deployment “{row.name}” is paused: `up` was started without its account.")


def _resume(client: SyncPrefectClient, accounts: list[Account]) -> None:
    """An account that is there again has its schedules again."""
    wanted = set(definitions.names(accounts))
    for row in _deployments(client):
        if row.name in wanted and row.paused:
            client.resume_deployment(row.id)


def _all_there(client: SyncPrefectClient, accounts: list[Account]) -> bool:
    return set(definitions.names(accounts)) <= {row.name for row in _deployments(client)}


def _close_forms(client: SyncPrefectClient) -> None:
    """Let the server refuse a parameter that a flow does not have, such as a misspelt one, before a run is made."""
    from prefect.client.schemas.actions import DeploymentUpdate

    for row in client.read_deployments(limit=_PAGE):
        schema = {**(row.parameter_openapi_schema or {}), "additionalProperties": False}
        client.update_deployment(row.id, DeploymentUpdate(parameter_openapi_schema=schema))


def _value(client: SyncPrefectClient, name: str) -> Any:
    variable = client.read_variable_by_name(name)
    return None if variable is None else variable.value


def _set_value(client: SyncPrefectClient, name: str, value: str) -> None:
    from prefect.client.schemas.actions import VariableCreate, VariableUpdate

    if client.read_variable_by_name(name) is None:
        client.create_variable(VariableCreate(name=name, value=value))
    else:
        client.update_variable(VariableUpdate(name=name, value=value))


def _deploy(path: Path, tell: Tell) -> None:
    """`prefect deploy --all`, in this process, which has Prefect loaded already. Raises DeletionSyncError.

    What it prints is advice for somebody without `up`, so it is told only when it fails.
    """
    from prefect.cli import app

    before, said = sys.argv, io.StringIO()
    sys.argv = ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(path)]
    try:
        with contextlib.redirect_stdout(said):
            app()
    except SystemExit as end:
        if end.code:
            for line in said.getvalue().splitlines():
                tell(line)
            raise DeletionSyncError(
                "The deployments could not be written.", "`deletion-sync logs` shows what Prefect said."
            ) from None
    finally:
        sys.argv = before
