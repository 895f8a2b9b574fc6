"""How either version writes the lines of the change stream, made while they are sent.

What a line is about is decided in sync.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from server.simulator.changes import newer_than, written
from server.simulator.model import Asset, User, stamp
from server.simulator.render import VIDEO_DURATION, VIDEO_MILLISECONDS, size_of, thumbhash_of

if TYPE_CHECKING:
    from server.simulator.store import Simulator

BLOCK = 500  # lines that are made at a time
WHOLE_SECONDS = orjson.OPT_UTC_Z | orjson.OPT_OMIT_MICROSECONDS


def line(entity: str, data: dict[str, Any], update_id: int | str) -> bytes:
    """One line with its newline; ``update_id`` may be the word that stands for one."""
    number = update_id if isinstance(update_id, str) else written(update_id)
    return orjson.dumps({"type": entity, "data": data, "ack": f"{entity}|{number}"}) + b"\n"


def deletion_lines(sim: Simulator, owner_id: str, checkpoint: int) -> Iterator[bytes]:
    """Blocks of AssetDeleteV1 lines, of the deletions known now."""
    return _deletion_blocks(*newer_than(sim.changes.deletions.get(owner_id, {}), checkpoint))


def asset_lines(sim: Simulator, owner_id: str, checkpoint: int) -> Iterator[bytes]:
    """Blocks of AssetV1 lines (AssetV2 in 3.x), of the assets as they are now; later changes are not in them."""
    ids, update_ids = newer_than(sim.changes.assets.get(owner_id, {}), checkpoint)
    return _asset_blocks(sim, [sim.assets[one] for one in ids], update_ids)


def _deletion_blocks(ids: Sequence[str], update_ids: Sequence[int]) -> Iterator[bytes]:
    for start in range(0, len(ids), BLOCK):
        part = slice(start, start + BLOCK)
        pairs = zip(ids[part], update_ids[part], strict=True)
        yield b"".join(line("AssetDeleteV1", {"assetId": one}, update_id) for one, update_id in pairs)


def _asset_blocks(sim: Simulator, assets: Sequence[Asset], update_ids: Sequence[int]) -> Iterator[bytes]:
    for start in range(0, len(assets), BLOCK):
        part = slice(start, start + BLOCK)
        pairs = zip(assets[part], update_ids[part], strict=True)
        yield "".join(
            [_asset_line(asset, update_id, sim.modern, sim.older_lines) for asset, update_id in pairs]
        ).encode()


def _asset_line(asset: Asset, update_id: int, modern: bool, older: bool) -> str:
    """Written by hand, with only the name escaped: a million of these are to be as fast as their bytes."""
    entity = "AssetV2" if modern else "AssetV1"
    captured = _date(asset.captured_at, older)
    modified = captured if asset.modified_at is asset.captured_at else _date(asset.modified_at, older)
    local = captured if asset.local_captured_at is asset.captured_at else _date(asset.local_captured_at, older)
    created = ""
    if modern:
        uploaded = captured if asset.created_at is asset.captured_at else _date(asset.created_at, older)
        created = f'"createdAt":{uploaded},'
    duration: Any = None
    if asset.type == "VIDEO":
        duration = VIDEO_MILLISECONDS if modern else f'"{VIDEO_DURATION}"'
    width, height = size_of(asset)
    kind = asset.type.lower() if older else asset.type
    return (
        f'{{"type":"{entity}","data":{{"id":"{asset.asset_id}","ownerId":"{asset.owner_id}",'
        f'"originalFileName":{orjson.dumps(asset.file_name).decode()},'
        f'"fileCreatedAt":{captured},"fileModifiedAt":{modified},{created}"localDateTime":{local},'
        f'"type":"{kind}","deletedAt":{_date(asset.deleted_at, older)},'
        f'"isFavorite":{"true" if asset.is_favorite else "false"},"visibility":"{asset.visibility}",'
        f'"duration":{duration or "null"},"livePhotoVideoId":{_text(asset.live_photo_video_id)},"stackId":null,'
        f'"libraryId":{_text(asset.library_id)},"width":{width or "null"},"height":{height or "null"},'
        f'"isEdited":false,"checksum":"{asset.checksum}","thumbhash":{_text(thumbhash_of(asset))}}},'
        f'"ack":"{entity}|{written(update_id)}"}}\n'
    )


def _date(moment: datetime | None, older: bool) -> str:
    if moment is None:
        return "null"
    whole = orjson.dumps(moment, option=WHOLE_SECONDS).decode()
    return whole if older else f'{whole[:-2]}.{moment.microsecond // 1000:03}Z"'


def _text(value: str | None) -> str:
    return "null" if value is None else f'"{value}"'


def user_data(user: User) -> dict[str, Any]:
    """The data of UserV1."""
    return {
        "id": user.user_id,
        "name": user.name,
        "email": user.email,
        "avatarColor": None,
        "deletedAt": None,
        "profileChangedAt": stamp(user.created_at),
        "hasProfileImage": False,
    }


def own_user_data(user: User, used_bytes: int) -> dict[str, Any]:
    """The data of AuthUserV1."""
    shared = user_data(user)
    image = shared.pop("hasProfileImage")
    own = {"isAdmin": False, "pinCode": None, "oauthId": "", "storageLabel": None}
    return shared | own | {"quotaSizeInBytes": None, "quotaUsageInBytes": used_bytes, "hasProfileImage": image}
