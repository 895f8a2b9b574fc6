"""The simulator: trash, restore, live photos, the trash switched off, and limits."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from tests.server.simulator_support import START, VERSIONS, house

pytestmark = pytest.mark.parametrize("version", VERSIONS)


@pytest.mark.parametrize("bad", ["unknown", "foreign", "locked", "purged", "upper case"])
def test_lesson_43_one_bad_id_refuses_the_whole_delete(version: str, bad: str) -> None:
    with house(version) as one:
        good, gone = one.add("good.jpg"), one.add("gone.jpg")
        one.sim.purge(gone)
        stranger = one.sim.add_user("Sam", "sam@example.com")
        bad_ids = {
            "unknown": str(uuid.uuid4()),
            "foreign": one.sim.add_asset(stranger, checksum="x" * 27 + "=", file_name="x.jpg"),
            "locked": one.add("locked.jpg", visibility="locked"),
            "purged": gone,
            "upper case": str(uuid.UUID(good)).upper(),
        }
        for answer in (one.delete(good, bad_ids[bad]), one.restore(good, bad_ids[bad])):
            assert answer.status_code == 400
            assert answer.json()["message"] == "Not found or no asset.delete access"
        assert one.sim.trashed() == set()


def test_duplicates_and_an_empty_list_are_no_error(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a.jpg")
        answer = one.delete(asset_id, asset_id)
        assert (answer.status_code, answer.content) == (204, b"")
        assert one.delete().status_code == 204
        assert one.sim.trashed() == {asset_id}


def test_trashing_again_resets_the_deletion_date(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a.jpg")
        one.delete(asset_id)
        assert one.sim.asset(asset_id).deleted_at == START
        one.clock.forward(days=2)
        assert one.delete(asset_id).status_code == 204
        assert one.sim.asset(asset_id).deleted_at == START + timedelta(days=2)


def test_lesson_15_trashing_a_still_leaves_its_motion_video_and_the_reverse(version: str) -> None:
    with house(version) as one:
        motion = one.add("a.mov", visibility="hidden")
        still = one.add("a.jpg", live_photo_video_id=motion)
        one.delete(still)
        assert one.sim.trashed() == {still}
        one.restore(still)
        one.delete(motion)
        assert one.sim.trashed() == {motion}
        assert one.sim.asset(still).live_photo_video_id == motion


def test_lesson_36_restore_counts_the_list_and_not_what_it_restored(version: str) -> None:
    with house(version) as one:
        trashed, never = one.add("a.jpg", trashed=True), one.add("b.jpg")
        assert one.restore(trashed, trashed, never).json() == {"count": 3}
        assert one.sim.trashed() == set()


def test_lesson_91_with_the_trash_off_a_delete_marks_and_the_night_destroys(version: str) -> None:
    with house(version, trash_enabled=False) as one:
        asset_id = one.add("a.jpg")
        assert one.delete(asset_id).status_code == 204
        assert one.client.get(f"/api/assets/{asset_id}").json()["isTrashed"] is True
        one.sim.run_nightly_jobs()
        assert one.client.get(f"/api/assets/{asset_id}").status_code == 400


def test_the_night_destroys_what_the_trash_kept_long_enough(version: str) -> None:
    with house(version, trash_days=10) as one:
        old = one.add("a.jpg", trashed=True)
        one.clock.forward(days=5)
        new = one.add("b.jpg", trashed=True)
        one.clock.forward(days=5)
        one.sim.run_nightly_jobs()
        assert one.sim.trashed() == {new}
        with pytest.raises(KeyError):
            one.sim.asset(old)


def test_force_destroys_the_still_and_its_motion_video(version: str) -> None:
    with house(version) as one:
        motion = one.add("a.mov", visibility="hidden")
        still = one.add("a.jpg", live_photo_video_id=motion)
        assert one.delete(still, force=True).status_code == 204
        assert one.search(withDeleted=True)["total"] == 0
        assert one.delete(motion).status_code == 400


@pytest.mark.parametrize("ids", [["abc"], ["00000000-0000-0000-0000-000000000000"], "abc", None])
def test_ids_must_be_a_list_of_random_uuids(version: str, ids: object) -> None:
    with house(version) as one:
        assert one.client.request("DELETE", "/api/assets", json={"ids": ids}).status_code == 400


def test_a_body_over_ten_mebibytes_is_500(version: str) -> None:
    with house(version) as one:
        limit = 10 * 1024 * 1024
        for size, status in ((limit, 204), (limit + 1, 500)):
            body = b'{"ids": []' + b" " * (size - 11) + b"}"
            headers = {"content-type": "application/json"}
            assert one.client.request("DELETE", "/api/assets", content=body, headers=headers).status_code == status


def test_one_asset_is_read_back_whole_and_an_unknown_one_is_400(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a.jpg", trashed=True)
        body = one.client.get(f"/api/assets/{asset_id}").json()
        assert (body["id"], body["isTrashed"], body["tags"]) == (asset_id, True, [])
        answer = one.client.get(f"/api/assets/{uuid.uuid4()}")
        assert (answer.status_code, answer.json()["message"]) == (400, "Not found or no asset.read access")


def test_locking_an_asset_takes_it_out_of_reach(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a.jpg")
        assert one.client.put("/api/assets", json={"ids": [asset_id], "visibility": "locked"}).status_code == 204
        assert one.client.put("/api/assets", json={"ids": [asset_id], "visibility": "timeline"}).status_code == 400
        assert one.delete(asset_id).status_code == 400


def test_linking_a_video_to_a_still_hides_it_and_unlinking_shows_it(version: str) -> None:
    with house(version) as one:
        still, video = one.add("a.jpg"), one.add("a.mov")
        answer = one.client.put(f"/api/assets/{still}", json={"livePhotoVideoId": video})
        assert answer.json()["livePhotoVideoId"] == video
        assert one.sim.asset(video).visibility == "hidden"
        assert one.client.put(f"/api/assets/{video}", json={"livePhotoVideoId": still}).status_code == 400
        one.client.put(f"/api/assets/{still}", json={"livePhotoVideoId": None})
        assert one.sim.asset(video).visibility == "timeline"
