"""One asset at a time: the server's own word on it, and its thumbnail."""

from __future__ import annotations

from collections.abc import Iterable

from server import errors
from server.answers import malformed
from server.http import Transport
from server.parallel import side_by_side
from server.rows import rows
from server.shapes import AssetState, uuid_out, uuids_out


def assets_by_id(transport: Transport, ids: Iterable[str]) -> dict[str, AssetState | None]:
    """Id (in lower case) to its state; None where the server has no such asset, or it is foreign or locked.

    Raises UsageError for an id that is no UUID, and ServerError: then nothing is known of any of them.
    """
    wanted = uuids_out(ids)
    return dict(zip(wanted, side_by_side(lambda asset_id: _state(transport, asset_id), wanted), strict=True))


def _state(transport: Transport, asset_id: str) -> AssetState | None:
    try:
        answer = transport.read("GET", f"/api/assets/{asset_id}")
    except errors.NotFound as error:
        if error.status == 400:
            return None
        raise  # a 404 is about the path: whatever stands there is not this API
    row = rows([answer.json_object()], what=answer.what).to_pylist()[0]
    if row["asset_id"] != asset_id:
        raise malformed(answer.what, "is about another asset")
    return AssetState(
        asset_id,
        row["owner_id"],
        row["checksum"],
        row["is_trashed"],
        row["visibility"],
        row["live_photo_video_id"],
        row["file_name"],
    )


def thumbnail(transport: Transport, asset_id: str) -> bytes:
    """The thumbnail's bytes, of trashed assets too. Raises NotFound where there is none (hidden motion videos)."""
    asset_id = uuid_out(asset_id)
    try:
        answer = transport.read("GET", f"/api/assets/{asset_id}/thumbnail", accept="image/*")
    except errors.NotFound as error:
        if not error.server_message.startswith("Cannot GET"):
            raise
        answer = transport.read("GET", f"/api/thumbnail/{asset_id}", accept="image/*")
    if not answer.headers.get("Content-Type", "").lower().startswith("image/"):
        raise malformed(answer.what, "is no image")
    return answer.content
