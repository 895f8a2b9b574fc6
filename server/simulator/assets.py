"""Asset endpoints: read, trash, restore, update, counts, presence by checksum, thumbnails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from server.simulator.model import VISIBILITIES, Asset, Auth
from server.simulator.pictures import jpeg_of, webp_of
from server.simulator.render import full_asset_json
from server.simulator.search import canonical_checksum
from server.simulator.validation import Field, checked
from server.simulator.wire import Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

DATABASE_PARAMETERS = 65_535  # a statement's limit; a longer list is answered with 500
IDS = {"ids": Field("uuids", required=True)}
PATH_ID = {"id": Field("uuid", required=True)}
UPDATABLE = {"isFavorite": Field("bool"), "visibility": Field("enum", options=VISIBILITIES)}
THUMBNAIL_SIZES = ("original", "fullsize", "preview", "thumbnail")
CACHING = "private, max-age=86400, no-transform, stale-while-revalidate=2592000, stale-if-error=2592000"


def sees(sim: Simulator, auth: Auth, asset: Asset | None) -> bool:
    """Whether this user may look at the asset: an own one, or a partner's in the timeline or archive."""
    if asset is None or asset.visibility == "locked":
        return False
    user_id = auth.user.user_id
    return asset.owner_id == user_id or ((asset.owner_id, user_id) in sim.partners and asset.deleted_at is None)


def owns(auth: Auth, asset: Asset | None) -> bool:
    """Whether this user may change the asset. A locked one needs an elevated session, which is not simulated."""
    return asset is not None and asset.visibility != "locked" and asset.owner_id == auth.user.user_id


def owned(sim: Simulator, auth: Auth, asset_ids: Iterable[str], permission: str) -> list[Asset]:
    """The distinct assets of these ids. Raises Refusal 400 if any is unknown, foreign, locked or in upper case."""
    found = []
    for asset_id in dict.fromkeys(asset_ids):
        asset = sim.assets.get(asset_id)
        if asset is None or not owns(auth, asset):
            raise Refusal(400, f"Not found or no {permission} access")
        found.append(asset)
    return found


def get_asset(sim: Simulator, call: Call) -> Reply:
    asset_id = checked(call.ids, PATH_ID, modern=sim.modern)["id"]
    asset = sim.assets.get(asset_id)
    if asset is None or not sees(sim, call.who, asset):
        raise Refusal(400, "Not found or no asset.read access")
    return Reply(200, full_asset_json(sim, asset))


def delete_assets(sim: Simulator, call: Call) -> Reply:
    """All or nothing. Trashing a trashed asset renews its deletion date; ``force`` destroys, with the linked motion."""
    wanted = checked(call.body, IDS | {"force": Field("bool")}, modern=sim.modern)
    assets = owned(sim, call.who, wanted["ids"], "asset.delete")
    if not wanted.get("force"):
        for asset in assets:
            sim.put(replace(asset, deleted_at=sim.now(), updated_at=sim.now()))
        return Reply(204)
    for asset in assets:
        sim.purge(asset.asset_id)
    for motion_id in {asset.live_photo_video_id for asset in assets} & sim.assets.keys():
        if all(other.live_photo_video_id != motion_id for other in sim.assets.values()):
            sim.purge(str(motion_id))
    return Reply(204)


def restore_assets(sim: Simulator, call: Call) -> Reply:
    """All or nothing; ``count`` is the length of the list, whatever was in the trash."""
    ids = checked(call.body, IDS, modern=sim.modern)["ids"]
    assets = owned(sim, call.who, ids, "asset.delete")
    if len(ids) >= DATABASE_PARAMETERS:
        raise Refusal(500, "Failed to restore assets")
    for asset in assets:
        sim.put(replace(asset, deleted_at=None, updated_at=sim.now()))
    return Reply(200, {"count": len(ids)})


def restore_all(sim: Simulator, call: Call) -> Reply:
    mine = [a for a in sim.assets.values() if a.deleted_at is not None and a.owner_id == call.who.user.user_id]
    for asset in mine:
        sim.put(replace(asset, deleted_at=None, updated_at=sim.now()))
    return Reply(200, {"count": len(mine)})


def update_assets(sim: Simulator, call: Call) -> Reply:
    wanted = checked(call.body, IDS | UPDATABLE, modern=sim.modern)
    for asset in owned(sim, call.who, wanted.pop("ids"), "asset.update"):
        sim.put(_updated(sim, asset, wanted))
    return Reply(204)


def update_asset(sim: Simulator, call: Call) -> Reply:
    """Update one asset. Linking a motion video hides it; unlinking (null) puts it back into the timeline."""
    asset_id = checked(call.ids, PATH_ID, modern=sim.modern)["id"]
    fields = UPDATABLE | {"livePhotoVideoId": Field("uuid", nullable=True)}
    wanted = checked(call.body, fields, modern=sim.modern)
    (asset,) = owned(sim, call.who, [asset_id], "asset.update")
    if "livePhotoVideoId" in wanted:
        motion_id = wanted["livePhotoVideoId"]
        if motion_id is not None:
            hide_motion(sim, call.who, motion_id)
        elif asset.live_photo_video_id in sim.assets:
            sim.put(replace(sim.assets[asset.live_photo_video_id], visibility="timeline", updated_at=sim.now()))
        asset = replace(asset, live_photo_video_id=motion_id)
    asset = _updated(sim, asset, wanted)
    sim.put(asset)
    return Reply(200, full_asset_json(sim, asset))


def hide_motion(sim: Simulator, auth: Auth, motion_id: str) -> None:
    """Make a video the motion part of a still. Raises Refusal 400 where it is no own video."""
    motion = sim.assets.get(motion_id)
    if motion is None:
        raise Refusal(400, "Live photo video not found")
    if motion.type != "VIDEO":
        raise Refusal(400, "Live photo video must be a video")
    if motion.owner_id != auth.user.user_id:
        raise Refusal(400, "Live photo video does not belong to the user")
    if motion.visibility == "timeline":
        sim.put(replace(motion, visibility="hidden", updated_at=sim.now()))


def _updated(sim: Simulator, asset: Asset, wanted: dict[str, Any]) -> Asset:
    favorite = wanted.get("isFavorite", asset.is_favorite)
    visibility = wanted.get("visibility", asset.visibility)
    return replace(asset, is_favorite=favorite, visibility=visibility, updated_at=sim.now())


def statistics(sim: Simulator, call: Call) -> Reply:
    """Counts of own assets: timeline and archive, untrashed, unless the query says otherwise."""
    fields = {
        "visibility": Field("enum", options=VISIBILITIES),
        "isTrashed": Field("flag"),
        "isFavorite": Field("flag"),
    }
    wanted = checked(call.query, fields, modern=sim.modern)
    if wanted.get("visibility") == "locked":
        raise Refusal(401, "Elevated permission is required")
    shown = {wanted["visibility"]} if "visibility" in wanted else {"timeline", "archive"}
    favorite = wanted.get("isFavorite")
    types = [
        a.type
        for a in sim.assets.values()
        if a.owner_id == call.who.user.user_id
        and a.visibility in shown
        and (a.deleted_at is not None) == wanted.get("isTrashed", False)
        and favorite in (None, a.is_favorite)
    ]
    images, videos = types.count("IMAGE"), types.count("VIDEO")
    return Reply(200, {"images": images, "videos": videos, "total": len(types)})


def bulk_upload_check(sim: Simulator, call: Call) -> Reply:
    """Which checksums, hex or base64, this user has in any visibility, trashed ones included."""
    rows = call.body.get("assets") if isinstance(call.body, dict) else None
    if not isinstance(rows, list):
        checked(call.body, {"assets": Field("texts", required=True)}, modern=sim.modern)
    checks = [_check_row(sim, place, row) for place, row in enumerate(rows or [])]
    if not checks or len(checks) >= DATABASE_PARAMETERS:
        raise Refusal(500, "Failed to check bulk upload")
    results: list[dict[str, Any]] = []
    for row_id, given in checks:
        checksum = canonical_checksum(given)
        found = sim.by_checksum.get((call.who.user.user_id, checksum or ""))
        if not found:
            results.append({"id": row_id, "action": "accept"})
            continue
        asset = sim.assets[found[0]]
        duplicate = {"action": "reject", "reason": "duplicate", "assetId": asset.asset_id}
        results.append({"id": row_id, **duplicate, "isTrashed": asset.deleted_at is not None})
    return Reply(200, {"results": results})


def _check_row(sim: Simulator, place: int, row: Any) -> tuple[str, str]:
    values = row if isinstance(row, dict) else {}
    row_id, checksum = values.get("id"), values.get("checksum")
    if not sim.modern:
        problems = [f"assets.{place}.{name} should not be empty" for name in ("id", "checksum") if not values.get(name)]
        if problems:
            raise Refusal(400, problems)
    if not isinstance(row_id, str) or not isinstance(checksum, str):
        fields = {"id": Field("text", required=True), "checksum": Field("text", required=True)}
        checked(values, fields, modern=sim.modern)
    return str(row_id), str(checksum)


def thumbnail(sim: Simulator, call: Call) -> Reply:
    """webp, or jpeg for ``size=preview``. A hidden motion video and a just uploaded asset have none: 404."""
    asset_id = checked(call.ids, PATH_ID, modern=sim.modern)["id"]
    size_field = {"size": Field("enum", options=THUMBNAIL_SIZES)}
    size = checked(call.query, size_field, modern=sim.modern).get("size", "thumbnail")
    asset = sim.assets.get(asset_id)
    if asset is None or not sees(sim, call.who, asset):
        raise Refusal(400, "Not found or no asset.view access")
    if size == "original" and not sim.modern:
        raise Refusal(400, "May not request original file")
    if size in ("original", "fullsize"):
        plain = {"location": "original?", "content-type": "text/plain; charset=utf-8"}
        return Reply(302, headers=plain, raw=b"Found. Redirecting to original?")
    if asset.visibility == "hidden" or not asset.processed:
        raise Refusal(404, "Asset media not found")
    ending = "jpeg" if size == "preview" else "webp"
    tag = f'W/"{asset.checksum[:12]}-{ending}"'
    name = quote(f"{PurePosixPath(asset.file_name).stem}_{size}.{ending}")
    headers = {
        "cache-control": CACHING,
        "etag": tag,
        "content-disposition": f"inline; filename*=UTF-8''{name}",
        "accept-ranges": "bytes",
    }
    if call.headers.get("if-none-match") == tag:
        return Reply(304, headers=headers, raw=b"")
    picture = jpeg_of(asset.content) if ending == "jpeg" else webp_of(asset.checksum)
    return Reply(200, headers=headers | {"content-type": f"image/{ending}"}, raw=picture)


ENDPOINTS = (
    Endpoint("PUT", "/api/assets", update_assets, "asset.update", mutates=True),
    Endpoint("DELETE", "/api/assets", delete_assets, "asset.delete", mutates=True),
    Endpoint("GET", "/api/assets/statistics", statistics, "asset.statistics"),
    Endpoint("POST", "/api/assets/bulk-upload-check", bulk_upload_check, "asset.upload"),
    Endpoint("GET", "/api/assets/{id}", get_asset, "asset.read"),
    Endpoint("PUT", "/api/assets/{id}", update_asset, "asset.update", mutates=True),
    Endpoint("GET", "/api/assets/{id}/thumbnail", thumbnail, "asset.view"),
    Endpoint("POST", "/api/trash/restore/assets", restore_assets, "asset.delete", mutates=True),
    Endpoint("POST", "/api/trash/restore", restore_all, "asset.delete", mutates=True),
)
