"""Which way the steps run: as Prefect task runs while a Prefect server is up, else directly."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.options import checked_way
from cli.output import note
from engine.errors import DeletionSyncError

if TYPE_CHECKING:
    from tasks.step import Step

_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ChosenWay:
    """``call`` runs a step; ``name`` is what the run's folder and summary say."""

    call: Callable[..., Any]
    name: str


def chosen(way: str) -> ChosenWay:
    """The way that --way asks for. Each step tells its name as the phase of the progress display.

    Raises UsageError for an unknown way, DeletionSyncError where Prefect was asked for and does not answer.
    """
    checked_way(way)
    address = os.environ.get("PREFECT_API_URL", "").strip()
    if way != "direct" and address and _answers(address):
        module = importlib.import_module("flows.prefect_way")
    elif way == "prefect":
        raise DeletionSyncError(
            "No Prefect server answers." if address else "PREFECT_API_URL is not set.",
            "Start the Prefect server, or use --way direct.",
        )
    else:
        if way == "auto" and address:
            note("No Prefect server answers at PREFECT_API_URL: the steps run directly.")
        module = importlib.import_module("flows.direct")
    return ChosenWay(_telling(module.call), module.WAY)


def _telling(call: Callable[..., Any]) -> Callable[..., Any]:
    from tasks import progress

    def told(step: Step, *arguments: Any) -> Any:
        progress.report(step.name, 0, None)
        return call(step, *arguments)

    return told


def _answers(address: str) -> bool:
    import httpx

    try:
        answer = httpx.get(f"{address.rstrip('/')}/health", timeout=_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False
    return answer.status_code == httpx.codes.OK
