"""How a run is called in Prefect's lists: which partition, what kind, and whether it is dry or real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECONCILE = "reconcile"  # the flow with the parameter dry_run
SHOWN = 8  # characters of a digest


def reconcile_name() -> str:
    """`default: incremental, dry run`. The kind is the deployment's name, where there is one."""
    kind, given = _running()
    if kind is None:
        kind = "full" if given.get("time_budget_seconds") is None else "incremental"
    return f"{given.get('partition', 'default')}: {kind}, {'dry run' if is_dry(RECONCILE, given) else 'real'}"


def is_dry(flow: str | None, given: Mapping[str, Any]) -> bool:
    """Whether a run is asked to be dry. `reconcile` is where nothing else is said; `apply` and `restore` never are."""
    return flow == RECONCILE and bool(given.get("dry_run", True))


def apply_name() -> str:
    """`default: apply 3f0a12bc, real`."""
    _, given = _running()
    return f"{given.get('partition', 'default')}: apply {str(given.get('plan_digest', ''))[:SHOWN]}, real"


def restore_name() -> str:
    """`default: restore 20260301T120000.000001Z-52fcb5d7, real`."""
    _, given = _running()
    return f"{given.get('partition', 'default')}: restore {given.get('run_id', '')}, real"


def _running() -> tuple[str | None, dict[str, Any]]:
    """The deployment's name and the parameters of the flow run that is named."""
    from prefect import runtime

    return runtime.deployment.name, dict(runtime.flow_run.parameters or {})
