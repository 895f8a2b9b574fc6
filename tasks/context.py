"""What a step finds at hand: its run's folder and facts, the partition, the settings, the server client.

Each step opens its own context from the small RunRef, so that it can run in any process that has the state folder
and the credentials.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.policy import Policy
from engine.runs import parse_run_id
from engine.settings import Settings, parse_settings
from library.protocol import Library
from library.registry import open_library
from server.client import PhotoServer
from state import identity
from state.credentials import load_credentials
from state.db import reading
from state.home import Home
from state.libraries import registered
from state.partition import Partition, by_name
from tasks import clock
from tasks.files import read_json
from tasks.refs import RunRef

RUN_FACTS = "run.json"
CHECKSUMS_FILE_LIBRARY = "checksums-file"


@dataclass(frozen=True)
class Context:
    """One run as a step sees it. ``facts`` is the run's run.json."""

    run: RunRef
    home: Home
    partition: Partition
    folder: Path
    facts: dict[str, Any]

    @cached_property
    def settings(self) -> Settings:
        """The settings as they were when the run began."""
        return parse_settings(self.facts["settings"])

    @property
    def user_id(self) -> str:
        return str(self.facts["user_id"])

    @property
    def checksums_file(self) -> Path | None:
        """The checksums file that stands for the local libraries in this run, if one was given."""
        given = self.facts["checksums_file"]
        return None if given is None else Path(given)

    @property
    def started_at(self) -> datetime:
        """UTC without a zone."""
        return datetime.fromisoformat(self.facts["started_at"])

    def policy(self, *, history_lost: bool) -> Policy:
        """What this run's decisions depend on beside the relations."""
        return Policy(
            user_id=self.user_id,
            now=self.started_at,
            strictness=self.settings.deletionStrictness,
            quarantine_days=self.settings.quarantineDays,
            selected_albums=self.settings.selected_albums,
            include_external=self.settings.includeExternalLibraries,
            change_log=self.checksums_file is None,
            history_lost=history_lost,
        )

    def libraries(self, *, with_registered: bool = False) -> dict[str, Library]:
        """The libraries of this run by id: the checksums file alone, else every registered one; or both."""
        found: dict[str, Library] = {}
        if self.checksums_file is not None:
            name, config = CHECKSUMS_FILE_LIBRARY, {"path": str(self.checksums_file)}
            found[name] = open_library(name, "checksums_file", self.checksums_file.name, config)
            if not with_registered:
                return found
        with reading(self.partition) as con:
            rows = registered(con)
        if not rows and not found:
            raise UsageError(
                "No local library is registered.",
                "Add one with `deletion-sync library add FOLDER`, or give --local-checksums-file FILE.",
            )
        for row in rows:
            library = open_library(row.library_id, row.kind, row.label, json.loads(row.config))
            if not library.has_change_log:
                raise UsageError(
                    f"“{row.label}” tells only what it holds now, not what left it: nothing can be concluded from it.",
                    f"Remove it with `deletion-sync library remove {row.label}`.",
                )
            found[row.library_id] = library
        return found

    @contextmanager
    def server(self) -> Iterator[PhotoServer]:
        """A client for this partition's server. Raises UsageError when the credentials name another server."""
        with server_of(self.partition, page_size=self.settings.pageSize) as client:
            yield client


def open_context(run: RunRef) -> Context:
    """The context of a run that was opened before. Raises UsageError for an unknown run."""
    home = Home(Path(run.home))
    partition = by_name(home, run.partition)
    folder = run_folder(partition, run.run_id)
    return Context(run, home, partition, folder, read_json(folder / RUN_FACTS))


def run_folder(partition: Partition, run_id: str) -> Path:
    """The folder of a run; it need not exist. Raises UsageError for what is no run id."""
    return partition.runs / parse_run_id(run_id)


@contextmanager
def server_of(partition: Partition, *, page_size: int = 1000) -> Iterator[PhotoServer]:
    """A client for a partition's server, with the credentials of the environment or of .env.

    Raises UsageError when they are for another server, or the key is another account's (invariant 12).
    """
    credentials = load_credentials(os.environ, Path.cwd())
    if credentials.server_url != partition.server_url:
        raise UsageError(
            f"SERVER_URL is {credentials.server_url}, but this state belongs to {partition.server_url}.",
            "Set SERVER_URL and SERVER_API_KEY for that server.",
        )
    with PhotoServer(credentials.server_url, credentials.api_key, page_size=page_size) as client:
        known = identity.cached(Home(partition.path.parents[1]), credentials)
        if partition.user_id is not None and partition.user_id != (known or client.identity()).user_id:
            raise UsageError(
                "The API key belongs to another account than this state.", "Set SERVER_API_KEY for that account."
            )
        yield client


def iso(moment: datetime) -> str:
    """A naive UTC moment as text that datetime.fromisoformat reads back."""
    return moment.isoformat()


def stamp() -> str:
    """Now, as the journal and the summaries write it: UTC, RFC 3339."""
    return clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
