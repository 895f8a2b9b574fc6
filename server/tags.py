"""Server tags: a run's tag, its members, and its removal (spec, Trash run tag)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from server import errors
from server.answers import malformed
from server.http import Transport
from server.listing import search
from server.parallel import side_by_side
from server.rows import VISIBILITIES
from server.shapes import Tag, uuid_in, uuid_out, uuids_out

BATCH = 500
_TAGGING_SECONDS = 180.0  # real servers took 11 to 20 s for 1000 assets, and home servers are slower


def upsert_tag(transport: Transport, name: str) -> Tag:
    """The tag of that whole name, made where it is not there yet.

    By PUT, which makes the parents of a name with slashes and is idempotent; by POST where PUT is refused. Raises
    MissingScope naming tag.read where POST finds the tag already there and the key may not look it up.
    """
    try:
        answer = transport.write("PUT", "/api/tags", {"tags": [name]})
    except errors.BadRequest:
        return _posted(transport, name)
    tags = [_tag(item, answer.what) for item in answer.json_list()]
    found = _named(tags, name)
    if found is None:
        raise malformed(answer.what, "does not have the tag that was asked for")
    return found


def _posted(transport: Transport, name: str) -> Tag:
    try:
        answer = transport.write("POST", "/api/tags", {"name": name})
    except errors.BadRequest as error:
        if "already exists" not in error.server_message:
            raise
        found = _named(list_tags(transport), name)
        if found is None:
            raise
        return found
    return _tag(answer.json_object(), answer.what)


def list_tags(transport: Transport) -> list[Tag]:
    """Every tag of this user. Raises MissingScope without tag.read."""
    answer = transport.read("GET", "/api/tags")
    return [_tag(item, answer.what) for item in answer.json_list()]


def tag_assets(transport: Transport, tag_id: str, ids: Iterable[str]) -> int:
    """Attach the tag; the number of newly tagged assets. Foreign, locked and unknown ids are skipped in silence.

    One call per 500. The server may lose a tagging that follows another one quickly: read the members back.
    """
    tag_id, wanted, count = uuid_out(tag_id), uuids_out(ids), 0
    for start in range(0, len(wanted), BATCH):
        body = {"tagIds": [tag_id], "assetIds": wanted[start : start + BATCH]}
        answer = transport.write("PUT", "/api/tags/assets", body, read_timeout=_TAGGING_SECONDS)
        newly = answer.json_object().get("count")
        if not isinstance(newly, int):
            raise malformed(answer.what, "has no count")
        count += newly
    return count


def untag_assets(transport: Transport, tag_id: str, ids: Iterable[str]) -> int:
    """Detach the tag; the number of assets that had it."""
    tag_id, wanted, count = uuid_out(tag_id), uuids_out(ids), 0
    for start in range(0, len(wanted), BATCH):
        body = {"ids": wanted[start : start + BATCH]}
        answer = transport.write("DELETE", f"/api/tags/{tag_id}/assets", body, read_timeout=_TAGGING_SECONDS)
        count += sum(1 for result in answer.json_list() if isinstance(result, dict) and result.get("success") is True)
    return count


def tag_members(transport: Transport, tag_id: str, size: int) -> frozenset[str]:
    """Ids of the assets that have the tag, trashed and hidden ones too, as far as the search shows them."""
    criteria = {"tagIds": [uuid_out(tag_id)]}  # an empty list would match every asset
    found = side_by_side(lambda visibility: search(transport, criteria, visibility, size), VISIBILITIES)
    return frozenset(asset_id for tables in found for table in tables for asset_id in table["asset_id"].to_pylist())


def delete_tag(transport: Transport, tag_id: str) -> bool:
    """Remove the tag, not its assets. True when it is gone, False when the key lacks tag.delete."""
    try:
        transport.write("DELETE", f"/api/tags/{uuid_out(tag_id)}", None)
    except errors.MissingScope:
        return False
    except errors.NotFound:
        pass
    return True


def _named(tags: list[Tag], name: str) -> Tag | None:
    return next((tag for tag in tags if tag.value == name), None)


def _tag(item: Any, what: str) -> Tag:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise malformed(what, "lists something that is no tag")
    value = item.get("value")
    return Tag(uuid_in(item.get("id"), what, "id"), item["name"], value if isinstance(value, str) else item["name"])
