"""A phone that is signed in at the simulator and reads its change stream."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.server.simulator_support import House, patient

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Device:
    """A signed-in session of the house's user, or of another one."""

    house: House
    client: httpx.Client
    version: str

    @property
    def entity(self) -> str:
        return "AssetV2" if self.version == "3.1.0" else "AssetV1"

    def ask(self, types: Any = None, **more: Any) -> httpx.Response:
        wanted = ["AssetsV2" if self.version == "3.1.0" else "AssetsV1"] if types is None else types
        return self.client.post("/api/sync/stream", json={"types": wanted} | more)

    def stream(self, **more: Any) -> list[Line]:
        answer = self.ask(**more)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def acknowledge(self, *lines: Line) -> None:
        answer = self.client.post("/api/sync/ack", json={"acks": [line["ack"] for line in lines]})
        assert answer.status_code == 204, answer.text

    def acks(self) -> dict[str, str]:
        return {one["type"]: one["ack"] for one in self.client.get("/api/sync/ack").json()}


@contextlib.contextmanager
def device(one: House, version: str, user_id: str | None = None) -> Iterator[Device]:
    headers = {"Authorization": f"Bearer {one.sim.add_session(user_id or one.user_id)}"}
    with httpx.Client(**patient(one.base_url, headers)) as client:
        yield Device(one, client, version)


def kinds(lines: list[Line]) -> list[str]:
    return [line["type"] for line in lines]


def shown(lines: list[Line]) -> list[str]:
    return [line["data"]["id"] for line in lines if line["type"].startswith("AssetV")]
