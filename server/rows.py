"""Asset objects of the server as rows of engine.relations.SERVER, checked and built in bulk. No request is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.relations import SERVER, TIME
from server.answers import malformed

VISIBILITIES = ("timeline", "hidden", "archive")  # listed by name; 'locked' is out of a key's reach

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_CHECKSUM = "^[A-Za-z0-9+/]{27}=$"
_FAR_YEAR = re.compile(r"[+-]\d{6}-")  # how the server writes a year that no calendar column holds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(items: Sequence[Any], *, what: str, asked: str | None = None) -> pa.Table:
    """SERVER rows of asset objects as a search lists them; ``asked`` is the visibility that was asked for.

    Raises AnswerMalformed when an item lacks its id, owner, checksum, file name, type or trashed state, or has a date
    that is none. Unknown fields are ignored. ``type`` is in lower case, as the specification has it; an external
    library's checksum is that of the path, so its form is not checked. A year beyond 9999 gives a null date.
    """
    for item in items:
        if not isinstance(item, dict):
            raise malformed(what, "lists something that is no asset")
    text = pa.string()
    columns = {
        "asset_id": pc.utf8_lower(_column(items, "id", text, what, needed=True)),
        "owner_id": pc.utf8_lower(_column(items, "ownerId", text, what, needed=True)),
        "checksum": _column(items, "checksum", text, what, needed=True),
        "file_name": _column(items, "originalFileName", text, what, needed=True),
        "live_photo_video_id": pc.utf8_lower(_column(items, "livePhotoVideoId", text, what)),
        "visibility": _column(items, "visibility", text, what, default=asked, needed=True),
        "is_trashed": _column(items, "isTrashed", pa.bool_(), what, needed=True),
        "type": pc.utf8_lower(_column(items, "type", text, what, needed=True)),
        "library_id": _column(items, "libraryId", text, what),
        "captured_at": _times(items, "fileCreatedAt", what),
        "local_captured_at": _times(items, "localDateTime", what),
        "is_favorite": _column(items, "isFavorite", pa.bool_(), what, default=False),
    }
    for name in ("asset_id", "owner_id", "live_photo_video_id"):
        _require(pc.match_substring_regex(columns[name], _UUID), what, f"has a value that is no UUID as {name}")
    uploaded = pc.is_null(columns["library_id"])
    _require(
        pc.or_(pc.match_substring_regex(columns["checksum"], _CHECKSUM), pc.invert(uploaded)),
        what,
        "has a checksum that is no base64 SHA-1",
    )
    _require(
        pc.is_in(columns["visibility"], pa.array([*VISIBILITIES, "locked"])), what, "has a visibility that is unknown"
    )
    return pa.table([columns[field.name] for field in SERVER], schema=SERVER)


def own(table: pa.Table, user_id: str) -> pa.Table:
    """The rows that are this user's and not locked: a listing shows a partner's assets too."""
    mine = pc.and_(pc.equal(table["owner_id"], user_id.lower()), pc.not_equal(table["visibility"], "locked"))
    return table.filter(mine)


def one_row_per_asset(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows of ``tables`` with each asset id once: the last row of it, but a trashed one before an untrashed.

    Pages overlap when assets share a capture time or change while they are listed. Where two rows of an asset disagree,
    the one under which nothing more would be done to it stands.
    """
    table = pa.concat_tables([SERVER.empty_table(), *tables])
    count = len(table)
    if count == 0:
        return table
    position = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)
    rank = pc.add(pa.chunked_array([position]), pc.multiply(pc.cast(table["is_trashed"], pa.int64()), count))
    best = pa.table({"asset_id": table["asset_id"], "rank": rank}).group_by("asset_id").aggregate([("rank", "max")])
    if len(best) == count:
        return table
    ranks = best["rank_max"]
    kept = pc.subtract(ranks, pc.multiply(pc.divide(ranks, count), count))
    return table.take(kept.combine_chunks().sort())


def _column(
    items: Sequence[dict[str, Any]],
    key: str,
    kind: pa.DataType,
    what: str,
    *,
    default: Any = None,
    needed: bool = False,
) -> pa.Array:
    values = [default if (value := item.get(key)) is None else value for item in items]
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise malformed(what, f"has a {key} of the wrong kind") from None
    if needed and array.null_count:
        raise malformed(what, f"lists an asset without {key}")
    return array


def _require(holds: pa.Array, what: str, problem: str) -> None:
    if pc.all(holds, min_count=0).as_py() is False:
        raise malformed(what, problem)


def _times(items: Sequence[dict[str, Any]], key: str, what: str) -> pa.Array:
    """ISO 8601 with or without fractional seconds, as naive UTC; in bulk where all have a zone, else one by one."""
    texts = _column(items, key, pa.string(), what)
    try:
        return texts.cast(pa.timestamp("us", tz="UTC")).cast(TIME)
    except pa.ArrowInvalid:
        return pa.array([_micros(text, key, what) for text in texts.to_pylist()], pa.int64()).cast(TIME)


def _micros(text: str | None, key: str, what: str) -> int | None:
    if text is None or _FAR_YEAR.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise malformed(what, f"has a {key} that is no date") from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
