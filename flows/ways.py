"""The two ways to run a pipeline, behind one call each. The outcome is the same; the summary says which way it was."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from flows import direct, pipeline
from flows.pipeline import ReconcileRequest, RestoreRequest
from flows.withheld import Withheld
from tasks.opening import DEFAULT_PARTITION
from tasks.summary import Summary


class Way(StrEnum):
    """DIRECT calls the steps here and now; PREFECT makes a flow run of them, with a task run per step."""

    DIRECT = "direct"
    PREFECT = "prefect"


def reconcile(way: Way, request: ReconcileRequest) -> Summary:
    """See flows.pipeline.reconcile."""
    if way is Way.DIRECT:
        return pipeline.reconcile(direct.call, direct.WAY, request)
    from flows.reconcile import reconcile as flow

    state = flow(
        request.partition, request.dry_run, request.checksums_file, request.applies_itself,
        request.time_budget_seconds, return_state=True,
    )  # fmt: skip
    return _summary(state)


def apply(way: Way, digest: str, partition: str = DEFAULT_PARTITION) -> Summary:
    """See flows.pipeline.apply. Calling it is the confirmation."""
    if way is Way.DIRECT:
        return pipeline.apply(direct.call, direct.WAY, digest, partition)
    from flows.apply import Confirm
    from flows.apply import apply as flow

    return _summary(flow(digest, Confirm.TRASH, partition, return_state=True))


def restore(way: Way, request: RestoreRequest) -> Summary:
    """See flows.pipeline.restore_run."""
    if way is Way.DIRECT:
        return pipeline.restore_run(direct.call, direct.WAY, request)
    from uuid import UUID

    from flows.restore import restore as flow

    ids = [UUID(asset_id) for asset_id in request.asset_ids] or None
    return _summary(
        flow(request.run_id, ids, request.file_name_matches, request.exclude, request.partition, return_state=True)
    )


def _summary(state: Any) -> Summary:
    """The summary that a flow run ended with. Raises what the flow raised."""
    result = state.result(raise_on_failure=False)
    if isinstance(result, Withheld):
        raise result.error from None
    if isinstance(result, BaseException):
        raise result
    return Summary(**{**result, "notes": tuple(result["notes"])})
