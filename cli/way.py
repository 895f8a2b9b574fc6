"""Which way a pipeline runs: as a Prefect flow run while a Prefect server is up, else directly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cli.options import checked_way
from cli.output import note
from engine.errors import DeletionSyncError

if TYPE_CHECKING:
    from flows.ways import Way

_SECONDS = 2.0


def chosen(way: str, *, quiet: bool = False) -> Way:
    """The way that --way asks for. ``quiet``: do not tell that auto found no Prefect server.

    Raises UsageError for an unknown way, DeletionSyncError where Prefect was asked for and does not answer.
    """
    from flows.ways import Way

    checked_way(way)
    address = os.environ.get("PREFECT_API_URL", "").strip()
    if way != "direct" and address and _answers(address):
        return Way.PREFECT
    if way == "prefect":
        raise DeletionSyncError(
            "No Prefect server answers." if address else "PREFECT_API_URL is not set.",
            "Start the Prefect server, or use --way direct.",
        )
    if way == "auto" and address and not quiet:
        note("No Prefect server answers at PREFECT_API_URL: the steps run directly.")
    return Way.DIRECT


def _answers(address: str) -> bool:
    import httpx

    try:
        answer = httpx.get(f"{address.rstrip('/')}/health", timeout=_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False
    return answer.status_code == httpx.codes.OK
