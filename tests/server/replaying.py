"""Replays exchanges recorded on real servers against the simulator, and compares the answers. No tests live here.

The recordings are looked for in a folder beside the repository, or where SERVER_RECORDINGS says.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.simulator import Simulator, serving, sha1_checksum
from server.simulator.model import Asset
from tests.server.simulator_support import patient

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "server-recordings"
FOLDER = Path(os.environ.get("SERVER_RECORDINGS", BESIDE))
VERSIONS = ("2.7.5", "3.1.0")
KEY_A = ["asset.read", "asset.view", "asset.download", "asset.delete", "tag.create", "tag.asset"]
NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
DATE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")
HANGS_AFTER = 0.3  # seconds without a byte
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Values that must be the same, not only of the same type.
EXACT = {"message", "total", "count", "images", "videos", "action", "reason", "error", "success", "isTrashed", "path"}
EXACT |= {"visibility", "nextPage", "status", "originalFileName", "code", "values", "expected", "maximum", "minimum"}
EXACT |= {"statusCode", "res", "major", "minor", "patch", "prerelease", "trashDays", "trash", "permissions", "checksum"}
EXACT |= {"authStatus", "successful", "redirectUri", "type", "isFavorite", "inclusive", "format", "origin", "value"}

# Null in recordings made right after an upload, before the server has read the picture.
UNTIL_PROCESSED = {"thumbhash", "width", "height"}

# What is not replayed, by group (None: all of it) and the exchange's place, with the reason.
NOT_REPLAYED: dict[str, dict[int | None, str]] = {
    "10-server": {
        11: "version-history: no call of the client",
        20: "an administrator's key",
        13: "the web page's text",
    },
    "11-auth-errors": {
        28: "administration: no call of the client",
        29: "administration: no call of the client",
    },
    "12-login": {
        **dict.fromkeys((11, 12), "child sessions: no call of the client"),
        15: "a summary, not an exchange",
    },
    "30-tags": {
        4: "a summary, not an exchange",
        61: "a job of the administrator; the simulator's method stands for it",
    },
    "46-misc": {
        2: "a summary, not an exchange",
        12: "keys are made by a method",
        14: "keys are revoked by a method",
        16: "keys are made by a method",
    },
    "50-thumbnails": {19: "originals: no call of the client", 20: "originals: no call of the client"},
    "70-tag-then-trash": {3: "a summary, not an exchange", 5: "a summary, not an exchange"},
    "71-two-tags": {3: "a summary, not an exchange"},
    "80-scale": {None: "summaries of measurements"},
    "81-ties": {None: "summaries of measurements; test_simulator_search has the behaviour"},
    "82-huge-real": {None: "summaries of measurements"},
    "83-huge-tag": {None: "summaries of measurements"},
    "90-partner": {
        **dict.fromkeys((0, 2, 11, 12), "partner sharing is arranged by a method"),
        4: "a summary, not an exchange",
    },
    "91-locked": dict.fromkeys((0, 1, 2, 3, 4, 6), "elevated sessions are not simulated"),
    "92-sessions": dict.fromkeys(range(8), "passwords and child sessions: no call of the client"),
}
# Searches that list assets of other recordings too: their number says nothing.
ANY_NUMBER = {("46-misc", 7), ("90-partner", 1), ("90-partner", 3), ("31-tag-search", 13), ("90-partner", 10)}


@cache
def recording(version: str, group: str) -> list[dict[str, Any]]:
    exchanges: list[dict[str, Any]] = json.loads((FOLDER / version / f"{group}.json").read_text())["exchanges"]
    return exchanges


@cache
def recorded_assets(version: str) -> dict[str, dict[str, Any]]:
    """Every asset that any answer of this version shows whole, by id, as it was seen first."""
    found: dict[str, dict[str, Any]] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "originalFileName" in node and "id" in node:
                found.setdefault(node["id"], node)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for path in sorted((FOLDER / version).glob("[0-9]*.json")):
        walk([exchange.get("response") for exchange in recording(version, path.stem)])
    return found


@dataclass
class Replay:
    """A simulator in the state that the recordings began with, and the names by which requests call things."""

    version: str
    sim: Simulator
    client: httpx.Client
    alice: str
    bob: str
    names: dict[str, str] = field(default_factory=dict)  # recorded id or placeholder: the simulator's
    played: int = 0

    def seed(self, asset_id: str, owner: str | None = None, **more: Any) -> Asset:
        """An asset of the recordings; what no answer shows of it is made up."""
        shown = recorded_assets(self.version).get(asset_id, {})
        made_up = {"checksum": sha1_checksum(asset_id.encode()), "file_name": "unseen.jpg"}
        known = (
            {
                "checksum": shown["checksum"],
                "file_name": shown["originalFileName"],
                "visibility": shown["visibility"],
                "live_photo_video_id": shown["livePhotoVideoId"],
                "type": shown["type"],
                "captured_at": datetime.fromisoformat(shown["fileCreatedAt"]),
                "is_favorite": shown["isFavorite"],
            }
            if shown
            else made_up
        )
        self.sim.add_asset(owner or self.alice, asset_id=asset_id, **(known | more))
        return self.sim.asset(asset_id)

    def ids_of(self, group: str, place: int, name: str = "ids") -> list[str]:
        ids: list[str] = recording(self.version, group)[place]["request"]["json"][name]
        return list(dict.fromkeys(ids))

    def play(self, group: str, *places: int) -> None:
        """Send the requests recorded at these places, and compare the answers."""
        for place in places:
            reason = NOT_REPLAYED.get(group, {}).get(place)
            if reason is None:
                self._play_one(group, place)

    def play_all(self, group: str) -> None:
        self.play(group, *range(len(recording(self.version, group))))

    def _play_one(self, group: str, place: int) -> None:
        exchange = recording(self.version, group)[place]
        label = f"{self.version} {group}[{place}] {exchange['note']}"
        request, expected = exchange["request"], exchange["response"]
        headers = {name.lower(): self.translate(value) for name, value in request["headers"].items()}
        extra: dict[str, Any] = {"content": body_of(self, request["json"], headers)}
        if isinstance(request["json"], dict) and "multipart_fields" in request["json"]:
            parts = request["json"]
            headers.pop("content-type", None)
            extra = {"data": parts["multipart_fields"], "files": {"assetData": (parts["assetData"], UPLOADED)}}
        method, path = request["method"], self.translate(request["path"])
        if expected["status"] is None:  # the answer never ended
            with pytest.raises(httpx.ReadTimeout):
                self.client.request(method, path, headers=headers, timeout=HANGS_AFTER, **extra)
            self.played += 1
            return
        answer = self.client.request(method, path, headers=headers, **extra)
        assert answer.status_code == expected["status"], f"{label}: {answer.status_code} {answer.text[:300]}"
        for name in ("x-correlation-id", "x-immich-cid"):
            assert (name in answer.headers) == (name in expected["headers"]), f"{label}: header {name}"
        streamed = ("transfer-encoding",) if path.startswith("/api/sync") else ()
        for name in ("content-type", "content-encoding", *streamed):
            assert answer.headers.get(name) == expected["headers"].get(name), f"{label}: header {name}"
        cookies = expected["headers"].get("set-cookie", [])
        assert list(map(_cookie, answer.headers.get_list("set-cookie"))) == list(map(_cookie, cookies)), label
        self._compare_bodies(label, expected["body"], answer, any_number=(group, place) in ANY_NUMBER)
        self.played += 1

    def _compare_bodies(self, label: str, expected: Any, answer: httpx.Response, *, any_number: bool) -> None:
        if isinstance(expected, dict) and "lines" in expected:
            self._compare_lines(label, expected, answer, any_number=any_number)
        elif isinstance(expected, dict) and "__binary__" in expected:
            assert answer.content[:3].hex() == expected["head_hex"][:6], label
        elif isinstance(expected, dict) and "__text__" in expected:
            assert answer.text, label
        elif isinstance(expected, dict) and "__truncated__" in expected:
            total = re.search(r'"assets": \{"total": (\d+)', expected["__truncated__"])
            if total is not None and not any_number:
                assert answer.json()["assets"]["total"] == int(total[1]), label
        elif expected is None:
            assert answer.content == b"", label
        else:
            self._compare(label, expected, answer.json())

    def _compare_lines(self, label: str, expected: dict[str, Any], answer: httpx.Response, *, any_number: bool) -> None:
        """The same number of lines, and each that was recorded whole; a refusal is one line without its end."""
        assert answer.text.endswith("\n") == expected["ends_with_newline"], label
        lines = answer.text.splitlines()
        if any_number:
            return
        assert len(lines) == expected["total_lines"] or not expected["ends_with_newline"], label
        for place, recorded in enumerate(expected["lines"]):
            with contextlib.suppress(json.JSONDecodeError):
                self._compare(f"{label}: line {place}", json.loads(recorded), json.loads(lines[place]))

    def _compare(self, where: str, expected: Any, actual: Any, key: str = "") -> None:
        """The same keys, the same types, lists of the same length; the same values under EXACT keys."""
        if key in UNTIL_PROCESSED and None in (expected, actual):
            return
        assert type(actual) is type(expected), f"{where}: {actual!r} where {expected!r} was recorded"
        if isinstance(expected, dict):
            assert set(actual) == set(expected), f"{where}: keys differ by {set(actual) ^ set(expected)}"
            for name, value in expected.items():
                self._compare(f"{where}.{name}", value, actual[name], name)
        elif isinstance(expected, list):
            assert len(actual) == len(expected), f"{where}: {len(actual)} items where {len(expected)} were recorded"
            order = {"items": "id", "tags": "value"} if self.version == "2.7.5" else {"tags": "value"}
            if key in order:  # a server gives an asset's tags in any order, and 2.7.5 equal capture times too
                expected, actual = (sorted(some, key=lambda one: str(one[order[key]])) for some in (expected, actual))
            for place, pair in enumerate(zip(expected, actual, strict=True)):
                self._compare(f"{where}[{place}]", *pair, key)
        elif key == "ack":
            assert actual.partition("|")[:2] == expected.partition("|")[:2], where
            recorded, given = expected.partition("|")[2], actual.partition("|")[2]
            assert self.names.setdefault(recorded, given) == given, f"{where}: another update id than before"
        elif isinstance(expected, str) and UUID.fullmatch(expected):
            assert self.names.setdefault(expected, actual) == actual, f"{where}: another id than before"
        elif isinstance(expected, str) and DATE.fullmatch(expected):
            assert re.sub(r"\d", "0", actual) == re.sub(r"\d", "0", expected), f"{where}: another kind of date"
        elif key in EXACT:
            assert actual == expected, f"{where}: {actual!r} where {expected!r} was recorded"

    def translate(self, text: str) -> str:
        for recorded, name in self.names.items():
            if recorded != name:
                text = text.replace(recorded, name)
        return text


def _cookie(header: str) -> list[str]:
    """A cookie's name and attributes, without its value and its date."""
    return [re.sub(r"^(\w+|Expires)=.*", r"\1", part) if "Max-Age" not in part else part for part in header.split("; ")]


UPLOADED = b"\xff\xd8 the bytes of a photo that is in the trash"


def body_of(replay: Replay, body: Any, headers: dict[str, str]) -> bytes | None:
    """The bytes of a recorded request; where the recording only tells the size of a list, a list of that size."""
    if body is None:
        return None
    if isinstance(body, str):
        return sized_body(body)
    if "__raw__" in body:
        return str(body["__raw__"]).encode()
    return replay.translate(json.dumps({name: sized_list(name, value) for name, value in body.items()})).encode()


def sized_list(name: str, told: Any) -> Any:
    """A list as long as the recording tells; any other value as it is."""
    number = re.fullmatch(r"<(\d+) (items|random v4 uuids)>", told) if isinstance(told, str) else None
    if number is None:
        return told
    if name == "acks":
        return ["SyncCompleteV1|01a1fb78-c349-7eee-bdcc-1cdf9c2d5ca8"] * int(number[1])
    if number[2] == "items":
        return [{"id": str(n), "checksum": f"{n:040x}"} for n in range(int(number[1]))]
    return [str(uuid.uuid4()) for _ in range(int(number[1]))]


def sized_body(told: str) -> bytes:
    """A DELETE body of exactly the size that the recording tells."""
    size = int(re.findall(r"(\d+) bytes", told)[0])
    start = b'{"ids": ["' + str(uuid.uuid4()).encode() + b'"]'
    return start + b" " * (size - len(start) - 1) + b"}"


@contextlib.contextmanager
def begun(version: str) -> Iterator[Replay]:
    """A fresh simulator with the users of the recordings and their keys, and no assets."""
    sim = Simulator(version, clock=lambda: NOW)
    sim.jobs_by_themselves = False
    sim.add_user("Admin", "admin@example.com")
    alice = sim.add_user("Alice", "alice@example.com", "alicepw12345")
    bob = sim.add_user("Bob", "bob@example.com", "bobpw")
    with serving(sim) as base_url, httpx.Client(**patient(base_url)) as client:
        client.headers.clear()
        one = Replay(version, sim, client, alice, bob)
        for owner, name in ((alice, "ALICE"), (bob, "BOB")):
            scopes = {"A": KEY_A, "B": [*KEY_A, "tag.read"], "C": ["all"]}
            one.names |= {f"<{name}_KEY_{key}>": sim.add_key(owner, held, f"key{key}") for key, held in scopes.items()}
        one.names["<TOKEN>"] = sim.add_session(alice)
        yield one


def seed_base(one: Replay) -> None:
    search = recording(one.version, "20-search-metadata")
    places = [0, 2, 3, 27]  # the default listing, hidden, archived, trashed
    items = [item for place in places for item in search[place]["response"]["body"]["assets"]["items"]]
    for item in {item["id"]: item for item in sorted(items, key=lambda item: str(item["createdAt"]))}.values():
        one.seed(item["id"], trashed=item["isTrashed"])
    checks = recording(one.version, "22-bulk-upload-check")
    for place, owner, tagged, visibility in ((2, one.bob, 30, "timeline"), (3, one.alice, 29, "locked")):
        digest = bytes.fromhex(checks[place]["request"]["json"]["assets"][0]["checksum"])
        (asset_id,) = one.ids_of("30-tags", tagged, "assetIds")
        checksum = base64.b64encode(digest).decode()
        one.seed(asset_id, owner, checksum=checksum, visibility=visibility, captured_at=NOW)
