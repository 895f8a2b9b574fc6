"""The simulator against exchanges recorded on real servers: the same requests must get the same kind of answers.

The recordings are looked for in a folder beside the repository (or where SERVER_RECORDINGS says); without them these
tests skip, and the test_simulator_*.py modules pin the essentials by themselves.
"""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.simulator import Simulator, serving, sha1_checksum
from server.simulator.model import Asset
from server.simulator.render import DEVICE_ID

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "server-recordings"
FOLDER = Path(os.environ.get("SERVER_RECORDINGS", BESIDE))
VERSIONS = ("2.7.5", "3.1.0")
KEY_A = ["asset.read", "asset.view", "asset.download", "asset.delete", "tag.create", "tag.asset"]
NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
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
        24: "the change stream is not simulated here",
        28: "administration: no call of the client",
        29: "administration: no call of the client",
    },
    "12-login": {
        **dict.fromkeys((11, 12, 13), "child sessions: no call of the client"),
        14: "the change stream is not simulated here",
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
    "60-sync": {None: "the change stream; the other calls of this group are replayed by their notes"},
    "70-tag-then-trash": {3: "a summary, not an exchange", 5: "a summary, not an exchange"},
    "71-two-tags": {3: "a summary, not an exchange"},
    "80-scale": {None: "summaries of measurements"},
    "81-ties": {None: "summaries of measurements; test_simulator_search has the behaviour"},
    "82-huge-real": {None: "summaries of measurements"},
    "83-huge-tag": {None: "summaries of measurements"},
    "90-partner": {
        **dict.fromkeys((0, 2, 11, 12), "partner sharing is arranged by a method"),
        4: "a summary, not an exchange",
        10: "the change stream is not simulated here",
    },
    "91-locked": dict.fromkeys((0, 1, 2, 3, 4, 6), "elevated sessions are not simulated"),
    "92-sessions": dict.fromkeys(range(8), "passwords and child sessions: no call of the client"),
}
# Searches that list assets of other recordings too: their number says nothing.
ANY_NUMBER = {("46-misc", 7), ("90-partner", 1), ("90-partner", 3), ("31-tag-search", 13)}

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no server recordings here"),
    pytest.mark.parametrize("version", VERSIONS),
]


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
        answer = self.client.request(request["method"], self.translate(request["path"]), headers=headers, **extra)
        assert answer.status_code == expected["status"], f"{label}: {answer.status_code} {answer.text[:300]}"
        for name in ("x-correlation-id", "x-immich-cid"):
            assert (name in answer.headers) == (name in expected["headers"]), f"{label}: header {name}"
        kind = expected["headers"].get("content-type")
        assert answer.headers.get("content-type") == kind, f"{label}: content type {kind}"
        self._compare_bodies(label, expected["body"], answer, any_number=(group, place) in ANY_NUMBER)
        self.played += 1

    def _compare_bodies(self, label: str, expected: Any, answer: httpx.Response, *, any_number: bool) -> None:
        if isinstance(expected, dict) and "__binary__" in expected:
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
        elif isinstance(expected, str) and UUID.fullmatch(expected):
            assert self.names.setdefault(expected, actual) == actual, f"{where}: another id than before"
        elif key in EXACT:
            assert actual == expected, f"{where}: {actual!r} where {expected!r} was recorded"

    def translate(self, text: str) -> str:
        for recorded, name in self.names.items():
            if recorded != name:
                text = text.replace(recorded, name)
        return text


UPLOADED = b"\xff\xd8 the bytes of a photo that is in the trash"


def body_of(replay: Replay, body: Any, headers: dict[str, str]) -> bytes | None:
    """The bytes of a recorded request; where the recording only tells the size of a list, a list of that size."""
    if body is None:
        return None
    if isinstance(body, str):
        return sized_body(body)
    if "__raw__" in body:
        return str(body["__raw__"]).encode()
    return replay.translate(json.dumps({name: sized_list(value) for name, value in body.items()})).encode()


def sized_list(told: Any) -> Any:
    """A list as long as the recording tells; any other value as it is."""
    number = re.fullmatch(r"<(\d+) (items|random v4 uuids)>", told) if isinstance(told, str) else None
    if number is None:
        return told
    if number[2] == "items":
        return [{"id": str(n), "checksum": f"{n:040x}"} for n in range(int(number[1]))]
    return [str(uuid.uuid4()) for _ in range(int(number[1]))]


def sized_body(told: str) -> bytes:
    """A DELETE body of exactly the size that the recording tells."""
    size = int(re.findall(r"(\d+) bytes", told)[0])
    start = b'{"ids": ["' + str(uuid.uuid4()).encode() + b'"]'
    return start + b" " * (size - len(start) - 1) + b"}"


@pytest.fixture
def replay(version: str) -> Iterator[Replay]:
    """A fresh simulator with the two users, their keys and the assets that the recordings began with."""
    sim = Simulator(version, clock=lambda: NOW)
    sim.jobs_by_themselves = False
    alice = sim.add_user("Alice", "alice@example.com", "alicepw12345")
    bob = sim.add_user("Bob", "bob@example.com", "bobpw")
    with serving(sim) as base_url, httpx.Client(base_url=base_url, trust_env=False) as client:
        client.headers.clear()
        one = Replay(version, sim, client, alice, bob)
        for owner, name in ((alice, "ALICE"), (bob, "BOB")):
            scopes = {"A": KEY_A, "B": [*KEY_A, "tag.read"], "C": ["all"]}
            one.names |= {f"<{name}_KEY_{key}>": sim.add_key(owner, held, f"key{key}") for key, held in scopes.items()}
        one.names["<TOKEN>"] = sim.add_session(alice)
        seed_base(one)
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


def test_the_recorded_answers_about_the_server_itself(replay: Replay) -> None:
    replay.play_all("10-server")
    assert replay.played >= 20


def test_the_recorded_answers_to_good_and_bad_credentials(replay: Replay) -> None:
    good = replay.names["<TOKEN>"]
    for place in range(len(recording(replay.version, "11-auth-errors"))):
        replay.names["<TOKEN>"] = "badtoken" if place in (3, 7) else good
        replay.names["<KEY>"] = good
        request = recording(replay.version, "11-auth-errors")[place]["request"]
        for header in ("x-immich-user-token", "x-immich-session-token"):
            if header in request["headers"]:
                replay.names[request["headers"][header]] = good
        replay.play("11-auth-errors", place)
    assert replay.played >= 27


def test_the_recorded_answers_to_logins_and_logouts(replay: Replay) -> None:
    for place in range(11):
        replay.play("12-login", place)
        if place == 0:
            replay.names["<TOKEN>"] = next(reversed(replay.sim.sessions))
    assert replay.played == 11


def test_the_recorded_answers_to_searches(replay: Replay) -> None:
    replay.names['"deviceId": "rec"'] = f'"deviceId": "{DEVICE_ID}"'
    replay.play_all("20-search-metadata")
    assert replay.played == 58


@pytest.mark.parametrize("group", ["21-statistics", "22-bulk-upload-check"])
def test_the_recorded_counts_and_presence_checks(replay: Replay, group: str) -> None:
    replay.play_all(group)
    assert replay.played >= 13


def test_the_recorded_life_of_tags(replay: Replay) -> None:
    sim = replay.sim
    sim.tag_loss = 1.0  # two taggings of one asset in the recording met before the server's job ran
    for asset_id in replay.ids_of("30-tags", 2, "assetIds") + replay.ids_of("30-tags", 43):
        replay.seed(asset_id, trashed=False)
    replay.seed(*replay.ids_of("30-tags", 26, "assetIds"), trashed=True)
    # The asset whose job had not run between its two taggings: the trashed one on 2.7.5, the motion video on 3.1.0.
    slow = replay.ids_of("30-tags", 26 if replay.version == "2.7.5" else 27, "assetIds")[0]

    def jobs_but_the_slow_one() -> None:
        waiting = sim.metadata_jobs.pop(slow)
        sim.run_jobs()
        sim.metadata_jobs[slow] = waiting

    steps: list[tuple[str, range] | Callable[[], None]] = [
        ("30-tags", range(4)),
        ("31-tag-search", range(1)),
        sim.run_jobs,
        ("30-tags", range(5, 11)),
        ("31-tag-search", range(1, 3)),
        ("30-tags", range(11, 32)),
        jobs_but_the_slow_one,
        ("30-tags", range(32, 39)),
        ("31-tag-search", range(3, 14)),
        *([jobs_but_the_slow_one] if replay.version == "2.7.5" else []),
        ("30-tags", range(39, 48)),
        sim.run_jobs,
        ("30-tags", range(48, 52)),
        ("31-tag-search", range(14, 16)),
        ("30-tags", range(52, 61)),
        ("31-tag-search", range(16, 17)),
        sim.clean_tags,
        ("30-tags", range(62, 69)),
    ]
    for step in steps:
        if callable(step):
            step()
        else:
            replay.play(step[0], *step[1])
    assert replay.played == 67 + 17


def test_the_recorded_ways_of_trashing_and_restoring(replay: Replay) -> None:
    still, motion, again = (replay.ids_of("40-trash", place)[0] for place in (40, 43, 51))
    for asset_id in [replay.ids_of("40-trash", place)[0] for place in (0, 4, 19)]:
        replay.seed(asset_id, trashed=False)
    replay.seed(motion, trashed=False, visibility="hidden", type="VIDEO")
    replay.seed(still, live_photo_video_id=motion)
    replay.seed(again, checksum=sha1_checksum(UPLOADED))
    replay.sim.add_asset(replay.bob, checksum=sha1_checksum(b"bob"), file_name="bob.jpg", trashed=True)
    upload = recording(replay.version, "40-trash")[52]["request"]["json"]["multipart_fields"]
    if replay.version == "2.7.5":
        upload.setdefault("deviceAssetId", "z"), upload.setdefault("deviceId", "rec")
    replay.play_all("40-trash")
    assert replay.played == 55


def test_the_recorded_trash_that_is_switched_off(replay: Replay) -> None:
    replay.sim.trash_enabled = False
    replay.seed(*replay.ids_of("45-trash-disabled", 2), trashed=False)
    replay.play_all("45-trash-disabled")
    assert replay.played == 6


def test_the_recorded_limits_and_odd_requests(replay: Replay) -> None:
    replay.seed(*replay.ids_of("46-misc", 0), trashed=False)
    key = replay.sim.add_key(replay.alice, ["asset.read"], "tmp")
    replay.names["<KEY>"] = key
    replay.play("46-misc", *range(14))
    replay.sim.revoke_key(key)
    replay.play("46-misc", *range(14, 18))
    assert replay.played == 14


def test_the_recorded_thumbnails(replay: Replay) -> None:
    group = "50-thumbnails"
    fresh = recording(replay.version, group)[21]["request"]["path"].split("/")[3]
    replay.seed(fresh)
    replay.sim.change_asset(fresh, processed=False)
    first, second = recording(replay.version, group)[:2]
    shown = replay.client.get(first["request"]["path"], headers={"x-api-key": replay.names["<ALICE_KEY_A>"]})
    replay.names[second["request"]["headers"]["If-None-Match"]] = shown.headers["etag"]
    replay.play_all(group)
    assert replay.played == 22


def make_tags(replay: Replay, group: str, *places: int) -> None:
    """The tags that these requests name, which were made before the recording began."""
    for place in places:
        for tag_id in replay.ids_of(group, place, "tagIds"):
            tag = replay.sim.upsert_tag(replay.alice, f"made-before/{tag_id}")
            assert tag is not None
            replay.names[tag_id] = tag.tag_id


def test_the_recorded_taggings_that_are_followed_by_trashing(replay: Replay) -> None:
    group = "70-tag-then-trash"
    make_tags(replay, group, 0, 1, 4)
    for asset_id in replay.ids_of(group, 0, "assetIds") + replay.ids_of(group, 4, "assetIds"):
        replay.seed(asset_id)
    replay.play_all(group)
    assert replay.played == 5


def test_the_recorded_taggings_with_two_tags(replay: Replay) -> None:
    make_tags(replay, "71-two-tags", 0, 1, 2)
    for asset_id in replay.ids_of("71-two-tags", 0, "assetIds"):
        replay.seed(asset_id)
    replay.play_all("71-two-tags")
    assert replay.played == 3


def test_the_recorded_view_of_a_partners_assets(replay: Replay) -> None:
    replay.sim.share_with_partner(replay.bob, replay.alice)
    replay.play_all("90-partner")
    assert replay.played == 7


def test_the_recorded_refusal_of_locked_assets(replay: Replay) -> None:
    replay.play_all("91-locked")
    assert replay.played == 1


def test_the_recorded_end_of_all_other_sessions(replay: Replay) -> None:
    replay.names["<ALICE_TOKEN>"] = replay.sim.add_session(replay.alice)
    replay.play_all("92-sessions")
    assert replay.played == 3


def test_the_recorded_changes_between_change_streams(replay: Replay) -> None:
    notes = {"trash it", "restore it", "archive it", "lock it", "unlock via API key", "tag upsert", "tag asset"}
    notes |= {"force delete"}
    group = recording(replay.version, "60-sync")
    places = [place for place, one in enumerate(group) if one["note"] in notes]
    by_note = {group[place]["note"]: place for place in places}
    replay.seed(*replay.ids_of("60-sync", by_note["trash it"]), visibility="timeline")
    replay.seed(*replay.ids_of("60-sync", by_note["force delete"]), visibility="timeline")
    for place in places:
        replay._play_one("60-sync", place)
    assert replay.played == len(notes)


def test_every_recorded_group_is_replayed_or_has_a_reason(version: str) -> None:
    played = {"20-search-metadata", "21-statistics", "22-bulk-upload-check", "31-tag-search", "40-trash"}
    played |= {"45-trash-disabled"}
    groups = {path.stem for path in (FOLDER / version).glob("[0-9]*.json")}
    assert groups == played | set(NOT_REPLAYED)
