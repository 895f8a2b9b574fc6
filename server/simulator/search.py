"""POST /api/search/metadata and /statistics: filters, orders and pages over the simulated assets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from server.simulator.model import TYPES, VISIBILITIES, Asset, Auth
from server.simulator.render import asset_json
from server.simulator.validation import Field, checked
from server.simulator.wire import Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

Test = Callable[[Asset], bool]

DEFAULT_SIZE = 250
LISTINGS_KEPT = 16
FILTERS = {
    "visibility": Field("enum", options=VISIBILITIES),
    "withDeleted": Field("bool"),
    "order": Field("enum", options=("asc", "desc")),
    "type": Field("enum", options=TYPES),
    "id": Field("uuid"),
    "checksum": Field("text"),
    "originalFileName": Field("text"),
    "libraryId": Field("uuid", nullable=True),
    "tagIds": Field("uuids", nullable=True),
    "isFavorite": Field("bool"),
    "isMotion": Field("bool"),
    "isOffline": Field("bool"),
    "isNotInAlbum": Field("bool"),
} | {
    f"{what}{side}": Field("date")
    for what in ("created", "updated", "taken", "trashed")
    for side in ("After", "Before")
}
PAGE_FIELDS = FILTERS | {
    "page": Field("int", low=1),
    "size": Field("int", low=1, high=1000),
    "withExif": Field("bool"),
}
# Fields of the device identifiers, which 3.x dropped.
DEVICE_FIELDS = {"deviceId": Field("text"), "deviceAssetId": Field("text")}


def search_metadata(sim: Simulator, call: Call) -> Reply:
    """One page. ``total`` and ``count`` are of the page; ``nextPage`` is a string, null on the last page."""
    fields = PAGE_FIELDS if sim.modern else PAGE_FIELDS | DEVICE_FIELDS
    wanted = checked(call.body, fields, modern=sim.modern)
    page, size = int(wanted.pop("page", 1)), int(wanted.pop("size", DEFAULT_SIZE))
    with_exif = wanted.pop("withExif", False)
    ids = listing(sim, call.who, wanted)
    found = _page(sim, ids, page, size)
    items = [asset_json(sim, sim.assets[asset_id], exif=with_exif) for asset_id in found]
    more = page * size < len(ids)
    assets = {"total": len(items), "count": len(items), "items": items, "facets": []}
    none: dict[str, Any] = {"total": 0, "count": 0, "items": [], "facets": []}
    return Reply(200, {"albums": none, "assets": assets | {"nextPage": str(page + 1) if more else None}})


def search_statistics(sim: Simulator, call: Call) -> Reply:
    wanted = checked(call.body, FILTERS, modern=sim.modern)
    return Reply(200, {"total": len(listing(sim, call.who, wanted))})


def listing(sim: Simulator, auth: Auth, wanted: dict[str, Any]) -> list[str]:
    """The ids of all assets that the filters let through, in order. Raises Refusal 401 for ``locked``."""
    if wanted.get("visibility") == "locked":
        raise Refusal(401, "Elevated permission is required")
    user_id = auth.user.user_id
    key = (user_id, tuple(sorted((name, str(value)) for name, value in wanted.items())))
    cached = sim.listings.get(key)
    if cached is None:
        owners = {user_id} | {owner for owner, partner in sim.partners if partner == user_id}
        candidates = _candidates(sim, frozenset(owners), wanted)
        tests = _tests(sim, wanted)
        assets = sim.assets
        cached = [asset_id for asset_id in candidates if all(test(assets[asset_id]) for test in tests)]
        if not (wanted.get("checksum") or wanted.get("id")):  # look-ups are quick, and would crowd the listings out
            if len(sim.listings) >= LISTINGS_KEPT:
                sim.listings.clear()
            sim.listings[key] = cached
    return cached


def _candidates(sim: Simulator, owners: frozenset[str], wanted: dict[str, Any]) -> Iterable[str]:
    """Ids in listing order among which the answer lies: from an index where the filters allow it."""
    ascending = wanted.get("order") == "asc"
    if wanted.get("checksum"):
        checksum = canonical_checksum(wanted["checksum"])
        some = [asset_id for owner in owners for asset_id in sim.by_checksum.get((owner, checksum or ""), ())]
        return _sorted(sim, some, ascending)
    if wanted.get("id"):
        known = sim.assets.get(wanted["id"])
        return [known.asset_id] if known is not None and known.owner_id in owners else []
    if wanted.get("tagIds"):
        tagged = {asset_id for tag_id in _below(sim, wanted["tagIds"][0]) for asset_id in sim.members.get(tag_id, ())}
        return _sorted(sim, [one for one in tagged if sim.assets[one].owner_id in owners], ascending)
    order = sim.orders.get((owners, ascending))
    if order is None:
        order = _sorted(sim, [a.asset_id for a in sim.assets.values() if a.owner_id in owners], ascending)
        sim.orders[(owners, ascending)] = order
    return order


def _sorted(sim: Simulator, ids: list[str], ascending: bool) -> list[str]:
    """By capture time; ties by id where the version does so, else by insertion."""
    assets = sim.assets
    if sim.unstable_ties:
        by_time = sorted(ids, key=lambda asset_id: assets[asset_id].number)
        return sorted(by_time, key=lambda asset_id: assets[asset_id].captured_at, reverse=not ascending)
    return sorted(ids, key=lambda asset_id: (assets[asset_id].captured_at, asset_id), reverse=not ascending)


def _tests(sim: Simulator, wanted: dict[str, Any]) -> list[Test]:
    tests: list[Test] = []
    visibility = wanted.get("visibility", None if sim.modern else "timeline")
    if visibility is None:
        tests.append(lambda a: a.visibility != "locked")
    else:
        tests.append(lambda a: a.visibility == visibility)
    if not (wanted.get("withDeleted") or wanted.get("isOffline") or _trash_dates(wanted)):
        tests.append(lambda a: a.deleted_at is None)
    if name := wanted.get("originalFileName"):
        part = name.lower()
        tests.append(lambda a: part in a.file_name.lower())
    if "libraryId" in wanted:
        tests.append(lambda a: a.library_id == wanted["libraryId"])
    tests += [_has_tag(_below(sim, tag_id)) for tag_id in wanted.get("tagIds") or ()]
    if "type" in wanted:
        tests.append(lambda a: a.type == wanted["type"])
    if "isFavorite" in wanted:
        tests.append(lambda a: a.is_favorite == wanted["isFavorite"])
    if "isOffline" in wanted:
        tests.append(lambda a: a.is_offline == wanted["isOffline"])
    if wanted.get("isMotion"):
        tests.append(lambda a: a.live_photo_video_id is not None)
    if wanted.get("deviceAssetId") or wanted.get("deviceId"):
        tests.append(lambda a: _matches_device(a, wanted))
    return tests + _date_tests(wanted)


def _trash_dates(wanted: dict[str, Any]) -> bool:
    return "trashedAfter" in wanted or "trashedBefore" in wanted


def _date_tests(wanted: dict[str, Any]) -> list[Test]:
    columns = {"created": "created_at", "updated": "updated_at", "taken": "captured_at", "trashed": "deleted_at"}
    bounds = {what: (wanted.get(f"{what}After"), wanted.get(f"{what}Before")) for what in columns}
    return [_dated(columns[what], *pair) for what, pair in bounds.items() if pair != (None, None)]


def _has_tag(tag_ids: frozenset[str]) -> Test:
    return lambda asset: not tag_ids.isdisjoint(asset.tags)


def _dated(column: str, after: datetime | None, before: datetime | None) -> Test:
    def holds(asset: Asset) -> bool:
        moment: datetime | None = getattr(asset, column)
        return moment is not None and (after is None or moment >= after) and (before is None or moment <= before)

    return holds


def _matches_device(asset: Asset, wanted: dict[str, Any]) -> bool:
    """2.x keeps these identifiers; here every asset has the same device, and its own id as its device asset id."""
    from server.simulator.render import DEVICE_ID

    return wanted.get("deviceId", DEVICE_ID) == DEVICE_ID and wanted.get("deviceAssetId") in (None, asset.asset_id)


def _below(sim: Simulator, tag_id: str) -> frozenset[str]:
    """The tag and the tags under it, as far as the server's jobs know them."""
    tag = sim.tags_by_id.get(tag_id)
    if tag is None or not tag.searchable:
        return frozenset()
    prefix = tag.value + "/"
    return frozenset(
        other.tag_id
        for other in sim.tags_by_id.values()
        if other.user_id == tag.user_id and other.searchable and (other is tag or other.value.startswith(prefix))
    )


def canonical_checksum(text: str) -> str | None:
    """Base64 of a checksum given as base64 (28 characters) or hex; None where it is neither."""
    try:
        digest = base64.b64decode(text, validate=True) if len(text) == 28 else bytes.fromhex(text)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(digest).decode() if digest else None


def _page(sim: Simulator, ids: list[str], page: int, size: int) -> list[str]:
    """The ids of one page. With unstable ties, a run of equal times that the page cuts is turned by its number."""
    start, end = (page - 1) * size, min(page * size, len(ids))
    found = ids[start:end]
    if not sim.unstable_ties or not found or len(ids) <= size:
        return found
    for edge in {start, end - 1}:
        first, last = _tie(sim, ids, edge)
        if first >= start and last < end:
            continue
        run = last - first + 1
        turn = (page * (run // 3 + 1)) % run
        for place in range(max(first, start), min(last + 1, end)):
            found[place - start] = ids[first + (place - first + turn) % run]
    return found


def _tie(sim: Simulator, ids: list[str], place: int) -> tuple[int, int]:
    """The first and last place of the run of equal capture times around a place."""
    moment = sim.assets[ids[place]].captured_at
    first = last = place
    while first > 0 and sim.assets[ids[first - 1]].captured_at == moment:
        first -= 1
    while last + 1 < len(ids) and sim.assets[ids[last + 1]].captured_at == moment:
        last += 1
    return first, last


ENDPOINTS = (
    Endpoint("POST", "/api/search/metadata", search_metadata, "asset.read"),
    Endpoint("POST", "/api/search/statistics", search_statistics, "asset.statistics"),
)
