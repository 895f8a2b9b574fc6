"""Tag endpoints: make, list, give and take."""

from __future__ import annotations

import uuid
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.simulator.assets import owns, sees
from server.simulator.model import Auth, Tag
from server.simulator.render import tag_json
from server.simulator.validation import Field, checked
from server.simulator.wire import Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

PAIR_LIMIT = 32_767  # two parameters a row in one statement; more is answered with 500
NAME_LIMIT = 2_700  # compressed bytes of a name that the database's index takes
PATH_ID = {"id": Field("uuid", required=True)}
IDS = {"ids": Field("uuids", required=True)}


def own_tag(sim: Simulator, auth: Auth, tag_id: str, permission: str) -> Tag:
    """The user's tag. Raises Refusal 400 for an unknown or foreign one."""
    tag = sim.tags_by_id.get(tag_id)
    if tag is None or tag.user_id != auth.user.user_id:
        raise Refusal(400, f"Not found or no {permission} access")
    return tag


def _tag_of_path(sim: Simulator, call: Call, permission: str) -> Tag:
    return own_tag(sim, call.who, checked(call.ids, PATH_ID, modern=sim.modern)["id"], permission)


def create_tag(sim: Simulator, call: Call) -> Reply:
    """201 and a tag that no search finds yet; a name that exists is refused. Slashes make no parents here."""
    fields = {
        "name": Field("text", required=True),
        "parentId": Field("uuid", nullable=True),
        "color": Field("text", nullable=True),
    }
    wanted = checked(call.body, fields, modern=sim.modern)
    user_id = call.who.user.user_id
    value, parent_id = wanted["name"], wanted.get("parentId")
    if parent_id is not None:
        value = f"{own_tag(sim, call.who, parent_id, 'tag.read').value}/{value}"
    if (user_id, value) in sim.tag_ids:
        raise Refusal(400, "A tag with that name already exists")
    if len(zlib.compress(value.encode())) > NAME_LIMIT:
        raise Refusal(500, "Failed to create tag")
    now = sim.now()
    tag = Tag(str(uuid.uuid4()), user_id, value, parent_id, wanted.get("color"), False, now, now)
    sim.put_tag(tag)
    return Reply(201, tag_json(tag))


def upsert_tags(sim: Simulator, call: Call) -> Reply:
    """The tags of these names, made with their parents where missing; empty parts of a name are dropped."""
    names = checked(call.body, {"tags": Field("texts", required=True)}, modern=sim.modern)["tags"]
    tags = [sim.upsert_tag(call.who.user.user_id, name) for name in dict.fromkeys(names)]
    return Reply(200, [tag_json(tag) for tag in tags if tag is not None])


def list_tags(sim: Simulator, call: Call) -> Reply:
    mine = [tag for tag in sim.tags_by_id.values() if tag.user_id == call.who.user.user_id]
    return Reply(200, [tag_json(tag) for tag in sorted(mine, key=lambda tag: tag.value)])


def get_tag(sim: Simulator, call: Call) -> Reply:
    return Reply(200, tag_json(_tag_of_path(sim, call, "tag.read")))


def update_tag(sim: Simulator, call: Call) -> Reply:
    """Change a tag's colour, which is all that can change."""
    tag = _tag_of_path(sim, call, "tag.update")
    wanted = checked(call.body, {"color": Field("text", nullable=True)}, modern=sim.modern)
    tag = replace(tag, color=wanted.get("color", tag.color), updated_at=sim.now())
    sim.put_tag(tag)
    return Reply(200, tag_json(tag))


def delete_tag(sim: Simulator, call: Call) -> Reply:
    """Remove the tag and those below it; the assets stay."""
    tag = _tag_of_path(sim, call, "tag.delete")
    below = [
        other.tag_id
        for other in sim.tags_by_id.values()
        if other.user_id == tag.user_id and (other is tag or other.value.startswith(tag.value + "/"))
    ]
    for tag_id in below:
        sim.remove_tag(tag_id)
    return Reply(204)


def bulk_tag(sim: Simulator, call: Call) -> Reply:
    """``count`` of new pairs. Foreign, locked and unknown assets and tags are skipped in silence."""
    fields = {"tagIds": Field("uuids", required=True), "assetIds": Field("uuids", required=True)}
    wanted = checked(call.body, fields, modern=sim.modern)
    user_id = call.who.user.user_id
    tag_ids = [one for one in wanted["tagIds"] if one in sim.tags_by_id and sim.tags_by_id[one].user_id == user_id]
    asset_ids = [one for one in dict.fromkeys(wanted["assetIds"]) if owns(call.who, sim.assets.get(one))]
    if len(tag_ids) * len(asset_ids) > PAIR_LIMIT:
        raise Refusal(500, "Failed to bulk tag assets")
    return Reply(200, {"count": sim.tag_assets(tag_ids, asset_ids)})


def tag_assets(sim: Simulator, call: Call) -> Reply:
    """One result per id, in order; a partner's asset can be tagged here, an unknown one is ``no_permission``."""
    tag = _tag_of_path(sim, call, "tag.asset")
    ids = checked(call.body, IDS, modern=sim.modern)["ids"]
    if len(ids) > PAIR_LIMIT:
        raise Refusal(500, "Failed to tag assets")
    results: list[dict[str, Any]] = []
    for asset_id in ids:
        asset = sim.assets.get(asset_id)
        if not sees(sim, call.who, asset):
            results.append({"id": asset_id, "success": False, "error": "no_permission"})
        elif not sim.tag_assets([tag.tag_id], [asset_id]):
            results.append({"id": asset_id, "success": False, "error": "duplicate"})
        else:
            results.append({"id": asset_id, "success": True})
    return Reply(200, results)


def untag_assets(sim: Simulator, call: Call) -> Reply:
    """One result per id; an asset without the tag, or unknown, is ``not_found``."""
    tag = _tag_of_path(sim, call, "tag.asset")
    ids = checked(call.body, IDS, modern=sim.modern)["ids"]
    results: list[dict[str, Any]] = []
    for asset_id in ids:
        asset = sim.assets.get(asset_id)
        if asset is None or tag.tag_id not in asset.tags:
            results.append({"id": asset_id, "success": False, "error": "not_found"})
        else:
            sim.put(replace(asset, tags=asset.tags - {tag.tag_id}))
            results.append({"id": asset_id, "success": True})
    return Reply(200, results)


ENDPOINTS = (
    Endpoint("GET", "/api/tags", list_tags, "tag.read"),
    Endpoint("POST", "/api/tags", create_tag, "tag.create", mutates=True),
    Endpoint("PUT", "/api/tags", upsert_tags, "tag.create", mutates=True),
    Endpoint("PUT", "/api/tags/assets", bulk_tag, "tag.asset", mutates=True),
    Endpoint("GET", "/api/tags/{id}", get_tag, "tag.read"),
    Endpoint("PUT", "/api/tags/{id}", update_tag, "tag.update", mutates=True),
    Endpoint("DELETE", "/api/tags/{id}", delete_tag, "tag.delete", mutates=True),
    Endpoint("PUT", "/api/tags/{id}/assets", tag_assets, "tag.asset", mutates=True),
    Endpoint("DELETE", "/api/tags/{id}/assets", untag_assets, "tag.asset", mutates=True),
)
