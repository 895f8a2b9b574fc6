"""The flow `reconcile`: plan what to trash; apply it where that was asked and is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from flows.privacy import apply_settings

apply_settings()

from prefect import flow  # noqa: E402
from pydantic import Field  # noqa: E402

from flows import pipeline, prefect_way  # noqa: E402
from flows.naming import reconcile_name  # noqa: E402
from flows.report import run_and_show  # noqa: E402
from tasks.opening import DEFAULT_PARTITION  # noqa: E402


@flow(name="reconcile", flow_run_name=reconcile_name, retries=0, persist_result=False)
def reconcile(
    partition: Annotated[str, Field(min_length=1, max_length=300)] = DEFAULT_PARTITION,
    dry_run: bool = True,
    local_checksums_file: Path | None = None,
    applies_itself: bool = True,
    time_budget_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None,
) -> Any:
    """Find photos that were deleted locally and plan to move their server copies to the trash.

    Args:
        partition: Which server and account: a folder name from `deletion-sync status`, or "default" for the one of
            SERVER_URL and SERVER_API_KEY.
        dry_run: On: change nothing on the server. Off: apply the plan if a first confirmed deletion and the setting
            applyScheduledRuns allow it; otherwise the plan waits for your approval.
        local_checksums_file: A file with one base64 SHA-1 per line that stands for the local libraries. Leave it empty
            to read the registered libraries.
        applies_itself: Off: a real run ends with its plan, whatever the settings allow.
        time_budget_seconds: Stop reading new files after so long; the next run goes on, and this one deletes nothing.
            Leave it empty for the setting hashTimeBudgetSeconds.
    """
    request = pipeline.ReconcileRequest(partition, dry_run, local_checksums_file, applies_itself, time_budget_seconds)
    return run_and_show(partition, lambda: pipeline.reconcile(prefect_way.call, prefect_way.WAY, request))
