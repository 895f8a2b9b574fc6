"""POST /api/assets: a multipart upload, its SHA-1, and the duplicate answer."""

from __future__ import annotations

from email.message import Message
from typing import TYPE_CHECKING

from server.simulator.assets import hide_motion
from server.simulator.model import VISIBILITIES
from server.simulator.store import sha1_checksum
from server.simulator.validation import Field, checked
from server.simulator.wire import Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

FIELDS = {
    "fileCreatedAt": Field("date", required=True),
    "fileModifiedAt": Field("date", required=True),
    "isFavorite": Field("flag"),
    "visibility": Field("enum", options=VISIBILITIES),
    "livePhotoVideoId": Field("uuid"),
}
DEVICE_FIELDS = {"deviceAssetId": Field("text", required=True), "deviceId": Field("text", required=True)}


def upload(sim: Simulator, call: Call) -> Reply:
    """201 ``created``, or 200 ``duplicate`` with the known asset's id where the user has this content, trashed or not.

    With ``livePhotoVideoId`` the upload is a still and the video named becomes its hidden motion part.
    """
    texts, files = _parts(call)
    values = checked(texts, FIELDS if sim.modern else FIELDS | DEVICE_FIELDS, modern=sim.modern)
    if "assetData" not in files:
        raise Refusal(400, "Unexpected end of form")
    file_name, content = files["assetData"]
    user_id = call.who.user.user_id
    checksum = sha1_checksum(content)
    known = [one for one in sim.by_checksum.get((user_id, checksum), ()) if sim.assets[one].library_id is None]
    if known:
        return Reply(200, {"status": "duplicate", "id": known[0]})
    motion_id = values.get("livePhotoVideoId")
    if motion_id is not None:
        hide_motion(sim, call.who, motion_id)
    asset_id = sim.add_asset(
        user_id,
        checksum=checksum,
        file_name=texts.get("filename") or file_name,
        visibility=values.get("visibility", "timeline"),
        live_photo_video_id=motion_id,
        captured_at=values["fileCreatedAt"],
        is_favorite=values.get("isFavorite", False),
        content=content,
    )
    sim.change_asset(asset_id, modified_at=values["fileModifiedAt"], processed=False)
    sim.queue_metadata_job([asset_id])
    return Reply(201, {"id": asset_id, "status": "created"})


def _parts(call: Call) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
    """The text fields and the files (name and bytes) of a multipart form."""
    kind = Message()
    kind["content-type"] = call.headers.get("content-type", "")
    boundary = kind.get_param("boundary")
    if kind.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise Refusal(400, "Multipart: Boundary not found")
    texts: dict[str, str] = {}
    files: dict[str, tuple[str, bytes]] = {}
    for piece in (b"\r\n" + call.raw).split(b"\r\n--" + boundary.encode())[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        part = Message()
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(":")
            part[name] = value.strip()
        field = part.get_param("name", header="content-disposition")
        file_name = part.get_filename()
        if not isinstance(field, str):
            continue
        if file_name is None:
            texts[field] = content.decode()
        else:
            files[field] = (file_name, content)
    return texts, files


ENDPOINTS = (Endpoint("POST", "/api/assets", upload, "asset.upload", mutates=True),)
