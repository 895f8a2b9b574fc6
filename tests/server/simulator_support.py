"""A served simulator with one user and one key, for the simulator's own tests."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from server.simulator import Simulator, serving

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
VERSIONS = ("2.7.5", "3.1.0")


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = START
        self.lock = threading.Lock()

    def __call__(self) -> datetime:
        with self.lock:
            return self.now

    def forward(self, **parts: float) -> None:
        with self.lock:
            self.now += timedelta(**parts)


@dataclass(frozen=True, slots=True)
class House:
    """The simulator, its clock, a user, and a client that holds an all-scopes key of that user."""

    sim: Simulator
    clock: Clock
    user_id: str
    client: httpx.Client
    base_url: str

    def search(self, **wanted: Any) -> dict[str, Any]:
        answer = self.client.post("/api/search/metadata", json=wanted)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["assets"]
        return found

    def delete(self, *ids: str, force: bool = False) -> httpx.Response:
        return self.client.request("DELETE", "/api/assets", json={"ids": list(ids), "force": force})

    def restore(self, *ids: str) -> httpx.Response:
        return self.client.post("/api/trash/restore/assets", json={"ids": list(ids)})

    def add(self, name: str, **more: Any) -> str:
        return self.sim.add_asset(self.user_id, checksum=checksum_of(name), file_name=name, **more)


def patient(base_url: str, headers: Any = None) -> dict[str, Any]:
    """What a client of the simulator is made with: on a busy machine an answer may take longer than httpx's 5 s."""
    return {"base_url": base_url, "headers": headers, "trust_env": False, "timeout": 60}


@contextlib.contextmanager
def house(version: str = "3.1.0", **settings: Any) -> Iterator[House]:
    clock = Clock()
    sim = Simulator(version, clock, **settings)
    user_id = sim.add_user("Ann", "ann@example.com", "secret")
    headers = {"x-api-key": sim.add_key(user_id, ["all"], "all")}
    with serving(sim) as base_url, httpx.Client(**patient(base_url, headers)) as client:
        yield House(sim, clock, user_id, client, base_url)


def checksum_of(name: str) -> str:
    return b64encode(hashlib.sha1(name.encode()).digest()).decode()
