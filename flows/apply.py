"""The flow `apply`: a person approves a plan by its digest, and exactly that is moved to the trash."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from flows.privacy import apply_settings

apply_settings()

from prefect import flow  # noqa: E402
from pydantic import Field  # noqa: E402

from flows import pipeline, prefect_way  # noqa: E402
from flows.naming import apply_name  # noqa: E402
from flows.report import run_and_show  # noqa: E402
from tasks.opening import DEFAULT_PARTITION  # noqa: E402


class Confirm(StrEnum):
    """The answer that the form asks for. There is no default: a form sent as it is approves nothing."""

    TRASH = "yes, move the photos of this plan to the server's trash"


@flow(name="apply", flow_run_name=apply_name, retries=0, persist_result=False)
def apply(
    plan_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")],
    confirm: Confirm,
    partition: Annotated[str, Field(min_length=1, max_length=300)] = DEFAULT_PARTITION,
) -> Any:
    """Move the photos of a reviewed plan to the server's trash, minus what changed since. Refuses a stale plan.

    Args:
        plan_digest: The digest of the plan that you reviewed, from the run's summary.
        confirm: Your confirmation. It is required.
        partition: Which server and account: "default" for the one of SERVER_URL and SERVER_API_KEY, or a folder name
            from `deletion-sync status`.
    """
    assert confirm is Confirm.TRASH
    return run_and_show(partition, lambda: pipeline.apply(prefect_way.call, prefect_way.WAY, plan_digest, partition))
