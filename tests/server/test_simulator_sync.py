"""The simulator's change stream: what comes in which order, how acks move the position, and when it starts afresh."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import httpx
import pytest

from server.simulator import sync_lines
from tests.server.simulator_devices import Device, device, kinds, shown
from tests.server.simulator_support import START, VERSIONS, checksum_of, house

pytestmark = pytest.mark.parametrize("version", VERSIONS)


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
