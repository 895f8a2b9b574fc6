"""How either version writes users, assets and tags as JSON."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING, Any

from server.simulator.model import Asset, Tag, User, fine_stamp, stamp

if TYPE_CHECKING:
    from server.simulator.store import Simulator

DEVICE_ID = "simulator"
IMAGE_SIZE = (320, 240)
VIDEO_SIZE = (160, 120)
VIDEO_MILLISECONDS = 1000
VIDEO_DURATION = "00:00:01.000"  # the same, as 2.x writes it
THUMBHASH = "0tgGHYQKtGuHiXdhrqVoivaJb5/4"
UNKNOWN_EXIF: tuple[str, ...] = (
    "orientation",
    "lensModel",
    "fNumber",
    "focalLength",
    "iso",
    "exposureTime",
    "latitude",
    "longitude",
)
UNKNOWN_EXIF += ("city", "state", "country", "projectionType", "rating")


def asset_json(sim: Simulator, asset: Asset, *, exif: bool = False) -> dict[str, Any]:
    """An asset as a search lists it: no tags and no deletion date."""
    video = asset.type == "VIDEO"
    width, height = size_of(asset)
    item: dict[str, Any] = {
        "id": asset.asset_id,
        "createdAt": stamp(asset.created_at),
        "ownerId": asset.owner_id,
        "libraryId": asset.library_id,
        "type": asset.type,
        "originalPath": f"/data/upload/{asset.owner_id}/{asset.asset_id[:2]}/{asset.asset_id}",
        "originalFileName": asset.file_name,
        "originalMimeType": mimetypes.guess_type(asset.file_name)[0] or "application/octet-stream",
        "thumbhash": thumbhash_of(asset),
        "fileCreatedAt": stamp(asset.captured_at),
        "fileModifiedAt": stamp(asset.modified_at),
        "localDateTime": stamp(asset.local_captured_at),
        "updatedAt": stamp(asset.updated_at),
        "isFavorite": asset.is_favorite,
        "isArchived": asset.visibility == "archive",
        "isTrashed": asset.deleted_at is not None,
        "visibility": asset.visibility,
        "livePhotoVideoId": asset.live_photo_video_id,
        "people": [],
        "checksum": asset.checksum,
        "isOffline": asset.is_offline,
        "hasMetadata": True,
        "duplicateId": None,
        "resized": True,
        "width": width,
        "height": height,
        "isEdited": False,
    }
    if sim.modern:
        item["duration"] = VIDEO_MILLISECONDS if video else None
    else:
        item["duration"] = VIDEO_DURATION if video else "0:00:00.00000"
        item["deviceAssetId"] = asset.asset_id
        item["deviceId"] = DEVICE_ID
    if exif:
        item["exifInfo"] = _exif_json(asset, width, height)
    return item


def size_of(asset: Asset) -> tuple[int | None, int | None]:
    """Width and height in pixels, unknown until the server has read the picture."""
    if not asset.processed:
        return None, None
    return VIDEO_SIZE if asset.type == "VIDEO" else IMAGE_SIZE


def thumbhash_of(asset: Asset) -> str | None:
    return None if asset.visibility == "hidden" or not asset.processed else THUMBHASH


def full_asset_json(sim: Simulator, asset: Asset) -> dict[str, Any]:
    """An asset as GET /api/assets/{id} shows it: with its owner, exif and tags."""
    owner = sim.users[asset.owner_id]
    tags = [sim.tags_by_id[tag_id] for tag_id in asset.tags]
    item = asset_json(sim, asset, exif=True) | {
        "owner": partner_json(owner),
        "tags": [tag_json(tag, nested=True) for tag in sorted(tags, key=lambda tag: (tag.created_at, tag.value))],
        "stack": None,
    }
    return item if sim.modern else item | {"unassignedFaces": []}


def _exif_json(asset: Asset, width: int | None, height: int | None) -> dict[str, Any]:
    return dict.fromkeys(UNKNOWN_EXIF) | {
        "make": "Simulated",
        "model": "Camera",
        "exifImageWidth": width,
        "exifImageHeight": height,
        "fileSizeInByte": 4096 if asset.content is None else len(asset.content),
        "dateTimeOriginal": asset.captured_at.isoformat(),
        "modifyDate": asset.modified_at.isoformat(),
        "timeZone": "UTC",
        "description": "",
    }


def tag_json(tag: Tag, *, nested: bool = False) -> dict[str, Any]:
    """A tag; a root has no parentId and a tag without colour no color. Inside an asset the times are finer."""
    when = fine_stamp if nested else stamp
    item = {
        "id": tag.tag_id,
        "parentId": tag.parent_id,
        "name": tag.value.rsplit("/", 1)[-1],
        "value": tag.value,
        "createdAt": when(tag.created_at),
        "updatedAt": when(tag.updated_at),
        "color": tag.color,
    }
    return {name: value for name, value in item.items() if value is not None}


def partner_json(user: User) -> dict[str, Any]:
    """The short form of a user, inside other answers."""
    return {
        "id": user.user_id,
        "email": user.email,
        "name": user.name,
        "profileImagePath": "",
        "avatarColor": "orange",
        "profileChangedAt": fine_stamp(user.created_at),
    }


def user_json(user: User, used_bytes: int) -> dict[str, Any]:
    """The user as GET /api/users/me shows it."""
    return partner_json(user) | {
        "profileChangedAt": stamp(user.created_at),
        "storageLabel": None,
        "shouldChangePassword": False,
        "isAdmin": False,
        "createdAt": stamp(user.created_at),
        "deletedAt": None,
        "updatedAt": stamp(user.created_at),
        "oauthId": "",
        "quotaSizeInBytes": None,
        "quotaUsageInBytes": used_bytes,
        "status": "active",
        "license": None,
    }
