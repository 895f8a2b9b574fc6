"""Where `up` keeps its things, inside deletion-sync's own home, and the environment that its processes get.

Nothing is started here, and Prefect is not imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.errors import DeletionSyncError
from flows.privacy import ALWAYS, UNLESS_SET
from state.credentials import KEY, NOTIFY, URL
from state.home import Home

HOST = "127.0.0.1"
POOL = "deletion-sync"
WORKER = "up"
LIMIT = "deletion-sync "  # begins the name of an account's concurrency limit
DEFINITIONS = Path(__file__).with_name("prefect.yaml")

READY = "deletion-sync: ready"  # a line of its own on the stdout of server and worker, for `up`

# What a process of `up` finds in its environment.
LIFELINE, ACCOUNTS = "DELETION_SYNC_LIFELINE", "DELETION_SYNC_ACCOUNTS"
LISTENER = "DELETION_SYNC_LISTENER"  # the number of the open socket that the server listens on

_OURS = ("engine", "state", "server", "library", "tasks", "flows", "cli")
_LOOPBACK = "127.0.0.1,localhost"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders and files of `up` in one home."""

    home: Home

    @property
    def root(self) -> Path:
        return self.home.root / "up"

    @property
    def lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def running(self) -> Path:
        return self.root / "running.json"

    @property
    def lifeline(self) -> Path:
        return self.root / "lifeline"

    @property
    def log(self) -> Path:
        return self.root / "up.log"

    @property
    def accounts(self) -> Path:
        return self.root / "accounts.json"

    @property
    def work(self) -> Path:
        """The working directory of server and worker: nothing that a person put somewhere can be found from it."""
        return self.root / "work"

    @property
    def prefect(self) -> Path:
        return self.home.root / "prefect"


def origin(port: int) -> str:
    """The address of the UI: ``http://127.0.0.1:4200``."""
    return f"http://{HOST}:{port}"


def environment(place: Place, port: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the worker and of the flow runs: what is there, with Prefect's settings replaced by ours.

    Prefect reads its names without regard to case.
    """
    kept = {name: value for name, value in environ.items() if not name.upper().startswith("PREFECT_")}
    return {
        **kept,
        **ALWAYS,
        **UNLESS_SET,
        **_settings(place, port),
        **_without_proxy(environ),
        "DELETION_SYNC_HOME": str(place.home.root),
        LIFELINE: str(place.lifeline),
        ACCOUNTS: str(place.accounts),
        # The worker starts flow runs as `python`, which must be this one.
        "PATH": os.pathsep.join(filter(None, [str(Path(sys.executable).parent), environ.get("PATH", "")])),
        "PYTHONUNBUFFERED": "1",
    }


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of Prefect's server, which has no use for the photo server's key, nor for where notices go."""
    return {name: value for name, value in environment.items() if name not in (URL, KEY, NOTIFY)}


def check_modules() -> None:
    """Raise DeletionSyncError where another module has the name of one of ours, and would run in its stead."""
    root = Path(__file__).parents[1]
    for name in _OURS:
        found = find_spec(name)
        if found is None or found.origin is None or Path(found.origin).parents[1] != root:
            shown = found.origin if found is not None else "nowhere"
            raise DeletionSyncError(
                f"The module {name!r} is found at {shown}, and not beside {root / 'deployments'}.",
                "Start deletion-sync as the command `deletion-sync`, and without PYTHONPATH.",
            )


def _settings(place: Place, port: int) -> dict[str, str]:
    address = origin(port)
    return {
        "PREFECT_HOME": str(place.prefect),
        "PREFECT_PROFILES_PATH": str(place.prefect / "profiles.toml"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_UI_URL": address,
        "PREFECT_UI_API_URL": f"{address}/api",
        # Else Prefect copies its pages into its own package, which may be read-only.
        "PREFECT_UI_STATIC_DIRECTORY": str(place.prefect / "ui"),
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": address,
        # In memory a restart of the server would lose who holds a limit.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_WORKER_HEARTBEAT_SECONDS": "10",
        "PREFECT_WORKER_QUERY_SECONDS": "5",
        "PREFECT_WORKER_ENABLE_CANCELLATION": "true",
        "PREFECT_LOGGING_COLORS": "false",
        "PREFECT_CLI_COLORS": "false",
        "PREFECT_CLI_PROMPT": "false",
    }


def _without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = ",".join(filter(None, [known, _LOOPBACK]))
    return {"NO_PROXY": names, "no_proxy": names}
