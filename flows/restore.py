"""The flow `restore`: undo a run, in whole or in part."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from flows.privacy import apply_settings

apply_settings()

from prefect import flow  # noqa: E402
from pydantic import Field  # noqa: E402

from flows import pipeline, prefect_way  # noqa: E402
from flows.naming import restore_name  # noqa: E402
from flows.report import run_and_show  # noqa: E402
from tasks.opening import DEFAULT_PARTITION  # noqa: E402


@flow(name="restore", flow_run_name=restore_name, retries=0, persist_result=False)
def restore(
    run_id: Annotated[str, Field(min_length=1, max_length=64)],
    asset_ids: list[UUID] | None = None,
    file_name_matches: Annotated[str | None, Field(max_length=500)] = None,
    exclude: bool = True,
    partition: Annotated[str, Field(min_length=1, max_length=300)] = DEFAULT_PARTITION,
) -> Any:
    """Bring photos that a run moved to the trash back to the library, and protect them from later runs.

    Args:
        run_id: The run to undo, from its summary or from `deletion-sync journal list`.
        asset_ids: Only these assets; each Live Photo comes back whole. Empty: all of the run.
        file_name_matches: Only files whose name matches this regular expression.
        exclude: On: no later run trashes them again. Off: they may be trashed again after a new quarantine.
        partition: Which server and account: "default" for the one of SERVER_URL and SERVER_API_KEY, or a folder name
            from `deletion-sync status`.
    """
    request = pipeline.RestoreRequest(
        run_id, partition, tuple(str(asset_id) for asset_id in asset_ids or ()), file_name_matches, exclude
    )
    return run_and_show(partition, lambda: pipeline.restore_run(prefect_way.call, prefect_way.WAY, request))
