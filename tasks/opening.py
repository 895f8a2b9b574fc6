"""How a run begins: whose partition it is, what the server is, and a folder of its own.

Nothing is written to a partition before the server has answered once.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from server.client import PhotoServer
from state import identity, settings_file
from state.credentials import Credentials, load_credentials
from state.db import reading
from state.home import Home
from state.partition import Partition, activate, by_name
from state.runs import FIRST_DRY_RUN, LIBRARIES_CHANGED, create_run_folder, get_fact
from tasks import clock
from tasks.context import RUN_FACTS, iso
from tasks.files import write_json
from tasks.refs import RunRef

DEFAULT_PARTITION = "default"  # the one that SERVER_URL and SERVER_API_KEY lead to
PLAN_SCOPES = ("asset.read",)
TRASH_SCOPES = ("asset.read", "asset.delete", "tag.create", "tag.asset")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server said of itself when the run began. ``clock_skew_seconds``: this clock minus the server's."""

    version: str
    trash_enabled: bool
    trash_days: int | None
    clock_skew_seconds: float | None


def find_partition(name: str = DEFAULT_PARTITION, *, online: bool = True) -> tuple[Home, Partition]:
    """The partition of that folder name, or the one of the credentials, made on first use (spec, item 9).

    Without a cached identity the server is asked once; with ``online`` off the partition is then the one that
    knows only the address. Raises UsageError, StateError, ServerError.
    """
    home = Home.locate(os.environ)
    if name != DEFAULT_PARTITION:
        return home, by_name(home, name)
    credentials = load_credentials(os.environ, Path.cwd())
    known = identity.cached(home, credentials)
    if known is None and online:
        known = learn_identity(home, credentials)
    if known is None:
        return home, activate(home, credentials.server_url, None, _log)
    return home, activate(home, credentials.server_url, known.user_id, _log, email=known.email)


def learn_identity(home: Home, credentials: Credentials) -> identity.Identity:
    """Ask the server whose key it is, and remember the answer. Raises ServerError."""
    with PhotoServer(credentials.server_url, credentials.api_key) as server:
        who = server.identity()
    known = identity.Identity(who.user_id, who.email or "", who.name or "")
    identity.remember(home, credentials, known)
    return known


def ask_server(server: PhotoServer) -> ServerFacts:
    """The facts that the rails need, from the server itself. Raises ServerError."""
    policy = server.trash_policy()
    return ServerFacts(str(server.version()), policy.enabled, policy.days, server.clock_skew(clock.now()))


def check_scopes(server: PhotoServer, needed: tuple[str, ...]) -> None:
    """Raises UsageError that names every permission that the key lacks."""
    missing = server.missing_scopes(needed)
    if missing:
        raise UsageError(
            f"The API key lacks the permission{'s' if len(missing) > 1 else ''} {', '.join(missing)}.",
            "Add it to the key on the server's page Account Settings, API Keys, or make a new key.",
        )


def open_run(
    home: Home,
    partition: Partition,
    *,
    flow: str,
    way: str,
    dry_run: bool,
    checksums_file: Path | None,
    facts: ServerFacts,
    time_budget_seconds: int | None = None,
) -> RunRef:
    """Make the run's folder and its run.json. Needs the partition's lock.

    ``time_budget_seconds``: how long it may hash, where it is not hashTimeBudgetSeconds that says so.
    """
    if partition.user_id is None:
        raise UsageError(
            "The server has not told yet whose API key it is.", "Run `deletion-sync verify` while the server is up."
        )
    with reading(partition) as con:
        first_dry_run_done = get_fact(con, FIRST_DRY_RUN) is not None
        libraries = get_fact(con, LIBRARIES_CHANGED)
    started = clock.now()
    run_id = create_run_folder(partition.runs, started, home.device_id())
    document: dict[str, Any] = {
        "run_id": run_id,
        "flow": flow,
        "way": way,
        "dry_run": dry_run or not first_dry_run_done,
        "forced_dry_run": not dry_run and not first_dry_run_done,
        "started_at": iso(started.replace(tzinfo=None)),
        "started_system": time.time(),
        "user_id": partition.user_id,
        "checksums_file": None if checksums_file is None else str(checksums_file.absolute()),
        "libraries": libraries,
        "time_budget_seconds": time_budget_seconds,
        "settings": settings_file.load(partition).model_dump(mode="json"),
        "server": {
            "version": facts.version,
            "trash_enabled": facts.trash_enabled,
            "trash_days": facts.trash_days,
            "clock_skew_seconds": facts.clock_skew_seconds,
        },
    }
    write_json(partition.runs / run_id / RUN_FACTS, document)
    return RunRef(str(home.root), partition.name, run_id)


def _log(message: str) -> None:
    import logging

    logging.getLogger("deletion_sync").warning(message)
