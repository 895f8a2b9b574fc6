"""Whether a running `up` works: the server answers, the worker reports, the deployments are there."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from deployments import accounts, definitions, running
from deployments.place import POOL, WORKER, Place
from deployments.supervisor import SERVER

if TYPE_CHECKING:
    import httpx

_SECONDS = 10.0  # to wait for an answer
_TRIES, _REST_SECONDS = 20, 0.2
_PAGE = 200
_SILENCE = 60.0  # after so long without a report the worker counts as gone; it reports every 10 s


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``text`` is a sentence for a person."""

    what: str
    well: bool
    text: str


def check(place: Place) -> list[Finding]:
    """Look at the `up` of this home; all findings are well, or something is wrong. Raises StateError."""
    import httpx

    found = running.now_running(place)
    if found is None:
        return [Finding("up", False, "deletion-sync is not up. Start it with `deletion-sync up`.")]
    said = f"Up since {found.since[11:16]} UTC (pid {found.pid})."
    findings = [Finding("up", found.ready, said if found.ready else f"{said} It is still starting.")]
    server = found.parts.get(SERVER)
    if server is None or not server.ready:  # what is asked now would wait until it has started
        return findings
    try:
        with httpx.Client(base_url=f"{found.url}/api", timeout=_SECONDS, trust_env=False) as api:
            _admit(api)
            findings.append(Finding("server", True, f"Prefect's server answers at {found.url}"))
            findings += [_worker(api), _deployments(api, place), _schedules(api)]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        findings.append(Finding("server", False, f"Prefect's server does not answer ({type(error).__name__})."))
    return findings


def _admit(api: httpx.Client) -> None:
    """Have the token without which the server takes no POST."""
    client = str(uuid.uuid4())
    for _ in range(_TRIES):  # it is written to a database that may be busy, which the server answers by 503
        answer = api.get("/csrf-token", params={"client": client})
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        time.sleep(_REST_SECONDS)
    answer.raise_for_status()
    api.headers.update({"Prefect-Csrf-Client": client, "Prefect-Csrf-Token": answer.json()["token"]})


def _worker(api: httpx.Client) -> Finding:
    for row in _rows(api, f"/work_pools/{POOL}/workers/filter"):
        if row["name"] == WORKER:
            silent = (datetime.now(UTC) - datetime.fromisoformat(row["last_heartbeat_time"])).total_seconds()
            well = silent <= _SILENCE
            return Finding("worker", well, f"The worker reported {max(0, silent):.0f} s ago.")
    return Finding("worker", False, "The worker has not reported yet.")


def _deployments(api: httpx.Client, place: Place) -> Finding:
    wanted = definitions.names(accounts.load(place.accounts))
    there = {row["name"] for row in _rows(api, "/deployments/filter")}
    missing = [name for name in wanted if name not in there]
    if missing:
        return Finding("deployments", False, f"Deployments are missing: {', '.join(missing)}. Start `up` again.")
    return Finding("deployments", True, f"The deployments are there: {', '.join(wanted)}.")


def _schedules(api: httpx.Client) -> Finding:
    """Whether the server plans what the schedules say: where it does not, nothing would ever run by itself."""
    active = {
        row["id"]: row["name"]
        for row in _rows(api, "/deployments/filter")
        if not row["paused"] and any(schedule["active"] for schedule in row["schedules"])
    }
    state = {"type": {"any_": ["SCHEDULED"]}}
    runs = _rows(api, "/flow_runs/filter", flow_runs={"state": state}, sort="EXPECTED_START_TIME_ASC")
    planned = {run["deployment_id"] for run in runs}
    missing = sorted(name for row_id, name in active.items() if row_id not in planned)
    if missing:
        return Finding(
            "schedules", False, f"No next run is planned of: {', '.join(missing)}. See `deletion-sync logs`."
        )
    names = ", ".join(sorted(active.values())) or "none; all are switched off"
    return Finding("schedules", True, f"The schedules run: {names}.")


def _rows(api: httpx.Client, path: str, **wanted: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = api.post(path, json={"limit": _PAGE, **wanted}).raise_for_status().json()
    return rows
