"""Lines of the change stream as batches of events (spec, Stream handling rules). Nothing is requested here.

A long block is read in bulk (stream_bulk.py); a short one, or one with anything odd in it, line by line.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.relations import TIME
from server import stream_bulk
from server.rows import VISIBILITIES
from server.stream_errors import StreamBroken, StreamDataError, SyncError
from server.stream_types import ACK, ASSETS, COMPLETE, DELETE, RESET

log = logging.getLogger("deletion_sync.server")

BULK_BYTES = 64 * 2**10  # of a shorter block the lines are read before a database would have begun

# What a batch says of assets; ``position`` orders upserts and deletes among each other.
UPSERTS = pa.schema(
    [
        ("position", pa.int64()),
        ("asset_id", pa.string()),
        ("checksum", pa.string()),
        ("owner_id", pa.string()),
        ("file_name", pa.string()),
        ("live_photo_video_id", pa.string()),
        ("deleted_at", TIME),
        ("visibility", pa.string()),
        ("is_favorite", pa.bool_()),
        ("type", pa.string()),
        ("file_created_at", TIME),
        ("local_date_time", TIME),
        ("file_modified_at", TIME),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("library_id", pa.string()),
    ]
)
DELETES = pa.schema([("position", pa.int64()), ("asset_id", pa.string())])

_TEXT = pa.string()
_DATA = pa.struct(
    [
        ("id", _TEXT),
        ("checksum", _TEXT),
        ("ownerId", _TEXT),
        ("originalFileName", _TEXT),
        ("livePhotoVideoId", _TEXT),
        ("deletedAt", _TEXT),
        ("visibility", _TEXT),
        ("isFavorite", pa.bool_()),
        ("type", _TEXT),
        ("fileCreatedAt", _TEXT),
        ("localDateTime", _TEXT),
        ("fileModifiedAt", _TEXT),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("libraryId", _TEXT),
        ("assetId", _TEXT),
    ]
)
_ENVELOPE = pa.schema([("type", _TEXT), ("data", _DATA), ("ack", _TEXT)])
_ASSET_FIELDS = {f.name: f.type for f in _DATA if f.name != "assetId"}
_INT32 = range(-(2**31), 2**31)

_FAR_YEAR = re.compile(r"[+-]\d{6}-")  # how the server writes a year that no calendar column holds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEE = "Nothing after it was applied."


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events. ``upserts`` has UPSERTS and ``deletes`` DELETES, with positions from 0 to ``events`` - 1.

    ``acks`` is the last acknowledgement per entity type. ``complete``: SyncCompleteV1 was its last event.
    ``reset``: it is SyncResetV1 alone.
    """

    upserts: pa.Table = field(default_factory=UPSERTS.empty_table)
    deletes: pa.Table = field(default_factory=DELETES.empty_table)
    acks: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    reset: bool = False
    events: int = 0


@dataclass(frozen=True, slots=True)
class Parsed:
    """The batches of a block, what is wrong with the line after them if anything is, and how many lines it had."""

    batches: tuple[Batch, ...]
    error: SyncError | None
    lines: int


def parse(block: bytes, lines_before: int = 0, bulk_bytes: int = BULK_BYTES) -> Parsed:
    """Batches of a block of lines, each ending in a line break. ``lines_before`` makes errors name the line.

    What follows SyncCompleteV1 or SyncResetV1 is not looked at. Raises nothing: what is wrong is ``error``, and the
    events before it are in the batches. A block of ``bulk_bytes`` or more is read in bulk if it can be.
    """
    lines = block.count(b"\n")
    if len(block) >= bulk_bytes and (found := stream_bulk.read(block, lines)) is not None:
        end = _end(found)
        if end is not None:
            found = found.slice(0, end[0] + 1)
        return Parsed(tuple(_batches(found, *_read(found), end)), None, lines)

    events, numbers, error = _by_line(block, lines_before)
    end = _end(events)
    if end is not None:
        events, error = events.slice(0, end[0] + 1), None
    upserts, deletes, bad = _checked(events)
    if bad is not None:
        row, problem = bad
        error = StreamDataError(f"Line {lines_before + numbers[row] + 1} of the change stream {problem}.", _SEE)
        events, end = events.slice(0, row), None
        upserts, deletes, _ = _checked(events)
    return Parsed(tuple(_batches(events, upserts, deletes, end)), error, lines)


def _read(found: pa.Table) -> tuple[pa.Table, pa.Table]:
    """UPSERTS and DELETES of a block that was read in bulk, where nothing is left to check."""
    found = found.append_column("position", pa.array(range(len(found)), pa.int64()))
    names = ["asset_type" if name == "type" else name for name in UPSERTS.names]
    shown = found if pc.all(found["shows"], min_count=0).as_py() else found.filter(found["shows"])
    upserts = shown.select(names).rename_columns(UPSERTS.names).cast(UPSERTS)
    ended = found.select(["position", "ended_id"]).filter(found["ends"])
    return upserts, ended.rename_columns(DELETES.names).cast(DELETES)


def _batches(events: pa.Table, upserts: pa.Table, deletes: pa.Table, end: tuple[int, str] | None) -> list[Batch]:
    """One batch; a reset comes as a batch of its own."""
    kind = None if end is None else end[1]
    before = events.slice(0, len(events) - 1) if kind == RESET else events
    found = []
    if len(before):
        found.append(
            Batch(upserts, deletes, _last_acks(before), complete=kind == COMPLETE, reset=False, events=len(before))
        )
    if kind == RESET:
        found.append(Batch(acks=_last_acks(events.slice(len(before))), reset=True, events=1))
    return found


def _by_line(block: bytes, lines_before: int) -> tuple[pa.Table, list[int], SyncError | None]:
    """_ENVELOPE rows with the place of each line in the block, up to the first line that is wrong."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    error: SyncError | None = None
    for number, line in enumerate(block.split(b"\n")):
        if not line.strip():
            continue
        try:
            rows.append(_envelope(line))
        except json.JSONDecodeError:  # orjson's is this one
            error = StreamBroken(f"Line {lines_before + number + 1} of the change stream is no JSON.", _SEE)
            break
        except ValueError as wrong:
            error = StreamDataError(f"Line {lines_before + number + 1} of the change stream {wrong}.", _SEE)
            break
        numbers.append(number)
    return pa.Table.from_pylist(rows, _ENVELOPE), numbers, error


def _envelope(line: bytes) -> dict[str, Any]:
    """One event with the data that its type needs. Raises ValueError saying what is wrong, JSONDecodeError."""
    event = orjson.loads(line)
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise ValueError("is no event: it has no type")
    ack = event.get("ack")
    if not isinstance(ack, str | None):
        raise ValueError("has an ack that is no text")
    kind = event["type"]
    if ack is None or kind not in (*ASSETS, DELETE):
        return {"type": kind, "ack": ack, "data": None}
    data = event.get("data")
    if not isinstance(data, dict):
        raise ValueError(f"is {kind} without data")
    fields = {"assetId": _TEXT} if kind == DELETE else _ASSET_FIELDS
    return {
        "type": kind,
        "ack": ack,
        "data": {name: _value(data.get(name), name, kind) for name, kind in fields.items()},
    }


def _value(value: Any, name: str, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kind == pa.int32():
        fits = isinstance(value, int) and not isinstance(value, bool) and value in _INT32
    else:
        fits = isinstance(value, bool if kind == pa.bool_() else str)
    if not fits:
        raise ValueError(f"has a {name} of the wrong kind")
    return value


def _end(events: pa.Table) -> tuple[int, str] | None:
    """The row and type of the first SyncCompleteV1 or SyncResetV1 that has an ack."""
    ends = pc.and_(pc.is_in(events["type"], pa.array([COMPLETE, RESET])), pc.is_valid(events["ack"]))
    row = pc.index(ends, True).as_py()
    return None if row < 0 else (row, events["type"][row].as_py())


def _last_acks(events: pa.Table) -> dict[str, str]:
    """The last ack per type. SyncAckV1 is ignored with its ack, and said in the log (rule 3)."""
    ignored = pc.equal(events["type"], ACK)
    if pc.any(ignored, min_count=0).as_py():
        log.info("the change stream had %s events, which are ignored", ACK)
    kept = events.select(["type", "ack"]).filter(pc.and_(pc.is_valid(events["ack"]), pc.invert(ignored)))
    last = kept.group_by("type", use_threads=False).aggregate([("ack", "last")])
    return dict(zip(last["type"].to_pylist(), last["ack_last"].to_pylist(), strict=True))


def _checked(events: pa.Table) -> tuple[pa.Table, pa.Table, tuple[int, str] | None]:
    """UPSERTS and DELETES of the events; and the first row whose data is wrong, with what is wrong."""
    position = pa.array(range(len(events)), pa.int64())
    told = pc.is_valid(events["ack"])  # an event without ack is ignored (rule 3)
    upserts, wrong = _upserts(events, position, pc.and_(told, pc.is_in(events["type"], pa.array(ASSETS))))
    deletes, wrong_too = _deletes(events, position, pc.and_(told, pc.equal(events["type"], DELETE)))
    found = [one for one in (wrong, wrong_too) if one is not None]
    return upserts, deletes, min(found) if found else None


def _upserts(events: pa.Table, position: pa.Array, which: pa.Array) -> tuple[pa.Table, tuple[int, str] | None]:
    position, data = _of(events, position, which)
    if len(position) == 0:
        return UPSERTS.empty_table(), None
    columns = dict(zip((f.name for f in _DATA), data.flatten(), strict=True))
    ids = {name: pc.utf8_lower(columns[name]) for name in ("id", "ownerId", "livePhotoVideoId")}
    checks = [
        (pc.fill_null(pc.match_substring_regex(ids["id"], stream_bulk.UUID), False), "has no UUID as id"),
        (pc.fill_null(pc.match_substring_regex(ids["ownerId"], stream_bulk.UUID), False), "has no UUID as ownerId"),
        (
            pc.fill_null(pc.match_substring_regex(ids["livePhotoVideoId"], stream_bulk.UUID), True),
            "has a livePhotoVideoId that is no UUID",
        ),
        (
            # An external library's checksum is that of the path, so its form is not checked.
            pc.or_(
                pc.fill_null(pc.match_substring_regex(columns["checksum"], stream_bulk.CHECKSUM), False),
                pc.and_(pc.is_valid(columns["checksum"]), pc.is_valid(columns["libraryId"])),
            ),
            "has no base64 SHA-1 as checksum",
        ),
        (pc.is_valid(columns["originalFileName"]), "has no originalFileName"),
        (pc.is_in(columns["visibility"], pa.array([*VISIBILITIES, "locked"])), "has an unknown visibility"),
        (pc.is_valid(columns["type"]), "has no type of asset"),
    ]
    moments = {}
    for name in ("deletedAt", "fileCreatedAt", "localDateTime", "fileModifiedAt"):
        moments[name], dated = _times(columns[name])
        if dated is not None:
            checks.append((dated, f"has a {name} that is no date"))
    made = {
        "position": position,
        "asset_id": ids["id"],
        "checksum": columns["checksum"],
        "owner_id": ids["ownerId"],
        "file_name": columns["originalFileName"],
        "live_photo_video_id": ids["livePhotoVideoId"],
        "deleted_at": moments["deletedAt"],
        "visibility": columns["visibility"],
        "is_favorite": pc.fill_null(columns["isFavorite"], False),
        "type": pc.utf8_lower(columns["type"]),
        "file_created_at": moments["fileCreatedAt"],
        "local_date_time": moments["localDateTime"],
        "file_modified_at": moments["fileModifiedAt"],
        "width": columns["width"],
        "height": columns["height"],
        "library_id": columns["libraryId"],
    }
    return pa.table([made[column.name] for column in UPSERTS], schema=UPSERTS), _first_wrong(checks, position)


def _deletes(events: pa.Table, position: pa.Array, which: pa.Array) -> tuple[pa.Table, tuple[int, str] | None]:
    position, data = _of(events, position, which)
    if len(position) == 0:
        return DELETES.empty_table(), None
    ids = pc.utf8_lower(pc.struct_field(data, "assetId"))
    checks = [(pc.fill_null(pc.match_substring_regex(ids, stream_bulk.UUID), False), "has no UUID as assetId")]
    return pa.table([position, ids], schema=DELETES), _first_wrong(checks, position)


def _of(events: pa.Table, position: pa.Array, which: pa.ChunkedArray) -> tuple[pa.Array, pa.StructArray]:
    """The positions and the data of the rows that ``which`` names, as one piece each."""
    data = events["data"].filter(which).combine_chunks()
    return position.filter(which.combine_chunks()), data


def _first_wrong(checks: list[tuple[pa.Array, str]], position: pa.Array) -> tuple[int, str] | None:
    found = [
        (position[row].as_py(), problem) for holds, problem in checks if (row := pc.index(holds, False).as_py()) >= 0
    ]
    return min(found) if found else None


def _times(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """ISO 8601, with or without fractional seconds, as naive UTC; and, where one is no date, which are.

    In bulk where all have a zone, else one by one. A year beyond 9999 gives null, as it does in a listing.
    """
    try:
        return texts.cast(pa.timestamp("us", tz="UTC")).cast(TIME), None
    except pa.ArrowInvalid:
        pass
    micros: list[int | None] = []
    dated: list[bool] = []
    for text in texts.to_pylist():
        moment, good = _micros(text)
        micros.append(moment)
        dated.append(good)
    return pa.array(micros, pa.int64()).cast(TIME), pa.array(dated)


def _micros(text: str | None) -> tuple[int | None, bool]:
    if text is None or _FAR_YEAR.match(text):
        return None, True
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None, False
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1), True
