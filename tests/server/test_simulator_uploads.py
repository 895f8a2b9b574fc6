"""The simulator: uploads, their duplicates, live photos by upload, and thumbnails."""

from __future__ import annotations

import base64
import hashlib
import io
import uuid

import httpx
import pytest
from PIL import Image

from tests.server.simulator_support import VERSIONS, House, checksum_of, house

pytestmark = pytest.mark.parametrize("version", VERSIONS)
WHEN = {"fileCreatedAt": "2025-03-04T05:06:07.000Z", "fileModifiedAt": "2025-03-04T05:06:07.000Z"}


def upload(one: House, name: str, content: bytes, **more: str) -> httpx.Response:
    form = WHEN | more
    if not one.sim.modern:
        form |= {"deviceAssetId": name, "deviceId": "test"}
    return one.client.post("/api/assets", data=form, files={"assetData": (name, content)})


def test_an_uploads_checksum_is_the_sha1_of_its_bytes(version: str) -> None:
    with house(version) as one:
        content = b"\r\n--any\x00bytes\r\n\r\n" * 1000
        answer = upload(one, "ö 1.jpg", content)
        assert answer.status_code == 201
        asset = one.sim.asset(answer.json()["id"])
        assert base64.b64decode(asset.checksum) == hashlib.sha1(content).digest()
        assert (asset.content, asset.file_name) == (content, "ö 1.jpg")
        assert one.search()["items"][0]["fileCreatedAt"] == "2025-03-04T05:06:07.000Z"


def test_known_content_is_a_duplicate_and_stays_in_the_trash(version: str) -> None:
    with house(version) as one:
        first = upload(one, "a.jpg", b"same").json()["id"]
        one.delete(first)
        again = upload(one, "b.jpg", b"same")
        assert (again.status_code, again.json()) == (200, {"status": "duplicate", "id": first})
        assert one.sim.trashed() == {first}


def test_an_upload_that_names_a_video_makes_a_live_photo(version: str) -> None:
    with house(version) as one:
        video = upload(one, "a.mov", b"moving").json()["id"]
        assert one.sim.asset(video).visibility == "timeline"
        still = upload(one, "a.jpg", b"still", livePhotoVideoId=video).json()["id"]
        assert one.sim.asset(video).visibility == "hidden"
        assert one.sim.asset(still).live_photo_video_id == video
        assert upload(one, "b.jpg", b"other", livePhotoVideoId=str(uuid.uuid4())).status_code == 400


def test_an_upload_without_dates_is_400(version: str) -> None:
    with house(version) as one:
        answer = one.client.post("/api/assets", files={"assetData": ("a.jpg", b"x")})
        assert answer.status_code == 400
        assert one.search()["total"] == 0


def test_a_thumbnail_is_webp_a_preview_jpeg_and_trashed_assets_have_both(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a.jpg", trashed=True)
        for query, kind in (("", "webp"), ("?size=preview", "jpeg")):
            answer = one.client.get(f"/api/assets/{asset_id}/thumbnail{query}")
            assert answer.headers["content-type"] == f"image/{kind}"
            with Image.open(io.BytesIO(answer.content)) as picture:
                picture.load()
                assert picture.format == kind.upper()


def test_thumbnails_differ_by_content(version: str) -> None:
    with house(version) as one:
        pictures = {one.client.get(f"/api/assets/{one.add(name)}/thumbnail").content for name in ("a", "b", "c")}
        assert len(pictures) == 3


def test_a_hidden_motion_video_has_no_thumbnail_and_an_unknown_id_is_400(version: str) -> None:
    with house(version) as one:
        hidden = one.add("a.mov", visibility="hidden")
        assert one.client.get(f"/api/assets/{hidden}/thumbnail").status_code == 404
        assert one.client.get(f"/api/assets/{uuid.uuid4()}/thumbnail").status_code == 400
        assert one.client.get(f"/api/thumbnail/{hidden}").status_code == 404


def test_a_thumbnail_comes_only_after_the_servers_job(version: str) -> None:
    with house(version) as one:
        one.sim.jobs_by_themselves = False
        path = f"/api/assets/{upload(one, 'a.jpg', b'x').json()['id']}/thumbnail"
        assert one.client.get(path).status_code == 404
        one.sim.run_jobs()
        assert one.client.get(path).status_code == 200


def test_an_unchanged_thumbnail_is_304(version: str) -> None:
    with house(version) as one:
        path = f"/api/assets/{one.add('a.jpg')}/thumbnail"
        tag = one.client.get(path).headers["etag"]
        assert one.client.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_content_already_there_by_checksum_is_a_duplicate_too(version: str) -> None:
    with house(version) as one:
        known = one.add("seeded")
        assert one.sim.asset(known).checksum == checksum_of("seeded")
        assert upload(one, "a.jpg", b"seeded").json()["id"] == known
