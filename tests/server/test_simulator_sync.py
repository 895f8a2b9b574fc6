"""The simulator's change stream: what comes in which order, how acks move the position, and when it starts afresh."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest

from server.simulator import sync_lines
from tests.server.simulator_support import START, VERSIONS, House, checksum_of, house

pytestmark = pytest.mark.parametrize("version", VERSIONS)

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
    with httpx.Client(base_url=one.base_url, headers=headers, trust_env=False) as client:
        yield Device(one, client, version)


@pytest.fixture
def phone(version: str) -> Iterator[Device]:
    with house(version) as one, device(one, version) as held:
        yield held


def kinds(lines: list[Line]) -> list[str]:
    return [line["type"] for line in lines]


def shown(lines: list[Line]) -> list[str]:
    return [line["data"]["id"] for line in lines if line["type"].startswith("AssetV")]


def test_a_key_is_refused_first_for_its_scope_and_then_for_being_a_key(version: str) -> None:
    with house(version) as one:
        for method, path, scope in (
            ("POST", "stream", "sync.stream"),
            ("GET", "ack", "syncCheckpoint.read"),
            ("POST", "ack", "syncCheckpoint.update"),
            ("DELETE", "ack", "syncCheckpoint.delete"),
        ):
            body: dict[str, list[str]] = {"types": []} if path == "stream" or method == "DELETE" else {"acks": []}
            for scopes, message in (
                (["asset.read"], f"Missing required permission: {scope}"),
                ([scope], "Sync endpoints cannot be used with API keys"),
            ):
                headers = {"x-api-key": one.sim.add_key(one.user_id, scopes)}
                answer = one.client.request(method, f"/api/sync/{path}", headers=headers, json=body)
                assert (answer.status_code, answer.json()["message"]) == (403, message)


def test_deletions_come_before_assets_and_the_complete_comes_last(phone: Device, version: str) -> None:
    one = phone.house
    kept, gone = one.add("kept.jpg"), one.add("gone.jpg")
    one.delete(gone, force=True)
    lines = phone.stream()
    assert kinds(lines) == ["AssetDeleteV1", phone.entity, "SyncCompleteV1"]
    assert lines[0]["data"] == {"assetId": gone}
    assert shown(lines) == [kept]
    assert lines[2]["data"] == {}
    assert all(line["ack"].startswith(line["type"] + "|") for line in lines)
    assert phone.ask().headers["content-type"] == "application/jsonlines+json"


def test_a_line_has_the_fields_of_its_version(phone: Device, version: str) -> None:
    one = phone.house
    motion = one.add("a.mov", visibility="hidden")
    one.add('ä "1"\n.jpg', live_photo_video_id=motion, captured_at=START + timedelta(milliseconds=7), library_id=motion)
    video, still = (line["data"] for line in phone.stream()[:2])
    created = {"createdAt": "2026-03-01T12:00:00.000Z"} if version == "3.1.0" else {}
    assert still == created | {
        "id": still["id"],
        "ownerId": one.user_id,
        "originalFileName": 'ä "1"\n.jpg',
        "fileCreatedAt": "2026-03-01T12:00:00.007Z",
        "fileModifiedAt": "2026-03-01T12:00:00.007Z",
        "localDateTime": "2026-03-01T12:00:00.007Z",
        "type": "IMAGE",
        "deletedAt": None,
        "isFavorite": False,
        "visibility": "timeline",
        "duration": None,
        "livePhotoVideoId": motion,
        "stackId": None,
        "libraryId": motion,
        "width": 320,
        "height": 240,
        "isEdited": False,
        "checksum": checksum_of('ä "1"\n.jpg'),
        "thumbhash": still["thumbhash"],
    }
    assert (video["type"], video["thumbhash"]) == ("VIDEO", None)
    assert video["duration"] == (1000 if version == "3.1.0" else "00:00:01.000")


def test_an_older_servers_lines_have_small_types_and_whole_seconds(phone: Device, version: str) -> None:
    phone.house.sim.older_lines = True
    phone.house.add("a.jpg", captured_at=START + timedelta(milliseconds=7), trashed=True)
    data = phone.stream()[0]["data"]
    assert (data["type"], data["fileCreatedAt"]) == ("image", "2026-03-01T12:00:00Z")
    assert data["deletedAt"] == "2026-03-01T12:00:00Z"


def test_an_asset_that_is_not_read_yet_has_no_size_and_no_thumbhash(phone: Device, version: str) -> None:
    phone.house.sim.change_asset(phone.house.add("a.jpg"), processed=False)
    data = phone.stream()[0]["data"]
    assert (data["width"], data["height"], data["thumbhash"]) == (None, None, None)


def test_locked_archived_hidden_and_trashed_assets_are_all_in_the_stream(phone: Device, version: str) -> None:
    for visibility in ("locked", "archive", "hidden", "timeline"):
        phone.house.add(f"{visibility}.jpg", visibility=visibility, trashed=visibility == "timeline")
    data = [line["data"] for line in phone.stream()[:-1]]
    assert [(one["visibility"], one["deletedAt"] is not None) for one in data] == [
        ("locked", False),
        ("archive", False),
        ("hidden", False),
        ("timeline", True),
    ]


def test_another_users_assets_are_not_in_the_stream_even_a_partners(phone: Device, version: str) -> None:
    one = phone.house
    bob = one.sim.add_user("Bob", "bob@example.com")
    one.sim.share_with_partner(bob, one.user_id)
    theirs = one.sim.add_asset(bob, checksum=checksum_of("b"), file_name="b.jpg")
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    one.sim.purge(theirs)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]


@pytest.mark.parametrize(
    "change", ["trash", "restore", "archive", "favorite", "rename", "link", "unlink", "tag", "re-trash"]
)
def test_every_change_of_an_asset_brings_it_again_at_the_end(phone: Device, version: str, change: str) -> None:
    one = phone.house
    motion = one.add("m.mov", visibility="hidden" if change == "unlink" else "timeline")
    linked = motion if change == "unlink" else None
    still = one.add("s.jpg", trashed=change in ("restore", "re-trash"), live_photo_video_id=linked)
    one.add("other.jpg")
    phone.acknowledge(*phone.stream())
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    match change:
        case "trash" | "re-trash":
            one.delete(still)
        case "restore":
            one.restore(still)
        case "archive":
            one.client.put("/api/assets", json={"ids": [still], "visibility": "archive"})
        case "favorite":
            one.client.put("/api/assets", json={"ids": [still], "isFavorite": True})
        case "rename":
            one.sim.change_asset(still, file_name="new.jpg")
        case "link":
            one.client.put(f"/api/assets/{still}", json={"livePhotoVideoId": motion})
        case "unlink":
            one.client.put(f"/api/assets/{still}", json={"livePhotoVideoId": None})
        case "tag":  # the tag itself is not in the stream; the metadata job that follows is a change
            tag = one.client.put("/api/tags", json={"tags": ["t"]}).json()[0]["id"]
            one.sim.jobs_by_themselves = False
            one.client.put("/api/tags/assets", json={"tagIds": [tag], "assetIds": [still]})
            assert shown(phone.stream()) == []
            one.sim.run_jobs()
    lines = phone.stream()
    assert shown(lines) == ([motion, still] if change in ("link", "unlink") else [still])
    assert shown(phone.stream(reset=True))[-1] == still
    if change == "trash":
        assert lines[0]["data"]["deletedAt"] is not None


def test_a_purge_is_a_deletion_line_and_the_asset_is_gone(phone: Device, version: str) -> None:
    one = phone.house
    asset_id = one.add("a.jpg")
    phone.acknowledge(*phone.stream())
    one.delete(asset_id)
    one.clock.forward(days=31)
    one.sim.run_nightly_jobs()
    lines = phone.stream(reset=True)  # the complete acknowledged above is over 30 days old
    assert kinds(lines) == ["AssetDeleteV1", "SyncCompleteV1"]
    assert lines[0]["data"] == {"assetId": asset_id}


def test_update_ids_only_grow_even_when_the_clock_goes_back(phone: Device, version: str) -> None:
    for number in range(5):
        phone.house.add(f"{number}.jpg")
        phone.house.clock.forward(minutes=-1)
    lines = phone.stream()
    ids = [uuid.UUID(line["ack"].partition("|")[2]) for line in lines]
    assert ids == sorted(ids)
    assert len(set(ids)) == 6
    assert {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}


def test_without_an_ack_the_same_lines_come_again(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    first, again = phone.stream(), phone.stream()
    assert first[:-1] == again[:-1]
    assert first[-1] != again[-1]
    assert phone.acks() == {}


def test_an_older_ack_moves_the_position_back(phone: Device, version: str) -> None:
    ids = [phone.house.add(f"{number}.jpg") for number in range(3)]
    lines = phone.stream()
    phone.acknowledge(lines[2])
    assert shown(phone.stream()) == []
    phone.acknowledge(lines[0])
    assert shown(phone.stream()) == ids[1:]


def test_of_several_acks_of_a_type_the_last_one_counts(phone: Device, version: str) -> None:
    ids = [phone.house.add(f"{number}.jpg") for number in range(3)]
    lines = phone.stream()
    phone.acknowledge(lines[2], lines[0])
    assert shown(phone.stream()) == ids[1:]


def test_acks_are_per_entity_type(phone: Device, version: str) -> None:
    one = phone.house
    one.add("kept.jpg")
    one.delete(one.add("gone.jpg"), force=True)
    deletion, upsert, complete = phone.stream()
    phone.acknowledge(upsert, complete)
    assert kinds(phone.stream()) == ["AssetDeleteV1", "SyncCompleteV1"]
    phone.acknowledge(deletion)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    assert list(phone.acks()) == [phone.entity, "SyncCompleteV1", "AssetDeleteV1"]


def test_acks_are_per_session(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    with device(phone.house, version) as tablet:
        assert len(tablet.stream()) == 2
    assert len(phone.stream()) == 1


def test_deleting_acks_replays_all_or_one_type(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.client.request("DELETE", "/api/sync/ack", json={"types": [phone.entity]})
    assert list(phone.acks()) == ["SyncCompleteV1"]
    assert len(phone.stream()) == 2
    phone.client.request("DELETE", "/api/sync/ack", json={})
    assert phone.acks() == {}


def test_an_empty_list_of_acks_is_500_and_more_than_1000_are_400(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    ack = phone.stream()[0]["ack"]
    statuses = [phone.client.post("/api/sync/ack", json={"acks": [ack] * n}).status_code for n in (0, 1, 1000, 1001)]
    assert statuses == [500, 204, 204, 400]


@pytest.mark.parametrize("ack", ["", "|", "xx", "Foo|01a1fb7c-cf40-736b-a1fd-0e39aaa9b4e2"])
def test_an_ack_of_an_unknown_type_is_400(phone: Device, version: str, ack: str) -> None:
    answer = phone.client.post("/api/sync/ack", json={"acks": [ack]})
    assert answer.status_code == 400
    assert answer.json()["message"] == f"Invalid ack type: {ack.partition('|')[0]}"


@pytest.mark.parametrize("broken", ["", "|", "|notauuid"])
def test_a_malformed_ack_is_accepted_and_breaks_every_stream_until_it_is_deleted(
    phone: Device, version: str, broken: str
) -> None:
    answer = phone.client.post("/api/sync/ack", json={"acks": [phone.entity + broken]})
    assert answer.status_code == 204
    for _ in range(2):
        failed = phone.ask()
        assert (failed.status_code, failed.json()["message"]) == (500, "Internal server error")
    phone.client.request("DELETE", "/api/sync/ack", json={})
    assert kinds(phone.stream()) == ["SyncCompleteV1"]


def test_a_pending_reset_is_the_only_line_until_it_is_acknowledged(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.sim.demand_sync_reset(phone.house.user_id)
    for _ in range(2):
        assert phone.stream() == [{"type": "SyncResetV1", "data": {}, "ack": "SyncResetV1|reset"}]
    assert len(phone.acks()) == 2
    phone.acknowledge(*phone.stream())
    assert phone.acks() == {}
    assert len(phone.stream()) == 2


def test_a_pending_reset_is_cleared_by_asking_for_a_reset(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.sim.demand_sync_reset(phone.house.user_id)
    assert len(phone.stream(reset=True)) == 2
    assert phone.acks() == {}
    assert len(phone.stream()) == 2


def test_a_complete_acknowledged_over_30_days_ago_makes_a_reset(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.clock.forward(days=30)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    phone.house.clock.forward(minutes=1)
    assert kinds(phone.stream()) == ["SyncResetV1"]
    phone.acknowledge(*phone.stream())
    assert len(phone.stream()) == 2


def test_a_deletion_older_than_31_days_is_no_longer_in_the_stream(phone: Device, version: str) -> None:
    one = phone.house
    one.delete(one.add("gone.jpg"), force=True)
    one.clock.forward(days=31)
    assert kinds(phone.stream()) == ["AssetDeleteV1", "SyncCompleteV1"]
    one.clock.forward(seconds=1)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]


def test_the_other_versions_types_are_400(phone: Device, version: str) -> None:
    other = ["AssetsV1"] if version == "3.1.0" else ["AssetsV2"]
    answer = phone.ask(other)
    assert answer.status_code == 400
    kind = "application/json" if version == "3.1.0" else "application/jsonlines+json"
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert phone.ask(["Nope"]).status_code == 400
    assert phone.ask({}).status_code == 400


def test_a_deprecated_type_beside_a_good_one_hangs_after_some_lines(phone: Device, version: str) -> None:
    if version == "2.7.5":
        assert kinds(phone.stream(types=["UsersV1", "AssetsV1"])) == ["UserV1", "SyncCompleteV1"]
        return
    received = []
    wanted = {"types": ["UsersV1", "AssetsV1"]}
    with (
        pytest.raises(httpx.ReadTimeout),
        phone.client.stream("POST", "/api/sync/stream", json=wanted, timeout=0.3) as answer,
    ):
        assert answer.status_code == 200
        received += [json.loads(line) for line in answer.iter_lines()]
    assert "SyncCompleteV1" not in kinds(received)


def test_no_types_give_just_the_complete(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    assert kinds(phone.stream(types=[])) == ["SyncCompleteV1"]


def test_what_changes_while_a_stream_is_read_is_in_the_next_one(phone: Device, version: str) -> None:
    one = phone.house
    rows = [{"checksum": checksum_of(str(n)), "file_name": f"{n}.jpg"} for n in range(30_000)]
    ids = one.sim.add_assets(one.user_id, rows)
    wanted = {"types": ["AssetsV2" if version == "3.1.0" else "AssetsV1"]}
    with phone.client.stream("POST", "/api/sync/stream", json=wanted) as answer:
        lines = answer.iter_lines()
        first = json.loads(next(lines))
        one.delete(ids[-1])
        rest = [json.loads(line) for line in lines]
    assert shown([first, *rest]) == ids
    assert rest[-2]["data"]["deletedAt"] is None
    phone.acknowledge(*rest[-2:])
    assert shown(phone.stream()) == [ids[-1]]


def test_an_ended_session_is_401(phone: Device, version: str) -> None:
    phone.house.sim.expire_sessions(phone.house.user_id)
    assert phone.ask().status_code == 401
    with device(phone.house, version) as other:
        assert other.ask().status_code == 200
        phone.house.sim.revoke_sessions(phone.house.user_id)
        assert other.ask().status_code == 401


def test_a_session_that_is_not_used_for_90_days_ends(phone: Device, version: str) -> None:
    for _ in range(2):
        phone.house.clock.forward(days=89)
        assert phone.ask([]).status_code == 200
    phone.house.clock.forward(days=90)
    assert phone.ask([]).status_code == 401


def test_a_logins_cookie_outranks_a_key(phone: Device, version: str) -> None:
    one = phone.house
    known = {"email": "ann@example.com", "password": "secret"}
    assert one.client.post("/api/auth/login", json=known).status_code == 201
    assert one.client.post("/api/sync/stream", json={"types": []}).status_code == 200
    one.sim.revoke_sessions(one.user_id)
    assert one.client.get("/api/users/me").status_code == 401
    one.client.cookies.clear()
    assert one.client.get("/api/users/me").status_code == 200


def test_neither_streams_nor_acks_nor_logins_count_as_mutations(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.client.request("DELETE", "/api/sync/ack", json={})
    assert phone.house.sim.mutations() == []


def test_the_lines_can_be_had_without_a_socket(phone: Device, version: str) -> None:
    one = phone.house
    for number in range(3):
        one.add(f"{number}.jpg")
    lines = [json.loads(line) for line in b"".join(sync_lines(one.sim, one.user_id)).splitlines()]
    assert lines[:-1] == phone.stream()[:-1]
    assert lines[-1]["type"] == "SyncCompleteV1"
