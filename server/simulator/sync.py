"""The change stream and its acknowledgements, for signed-in sessions only.

How lines are written is in lines.py, how far each session is in changes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from server.simulator.changes import too_old
from server.simulator.entities import entity_types, request_types
from server.simulator.lines import asset_lines, deletion_lines, line, own_user_data, user_data
from server.simulator.model import Session
from server.simulator.validation import Field, checked
from server.simulator.wire import UNEXPECTED, Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

LINES_TYPE = "application/jsonlines+json"
MOST_ACKS = 1000
COMPLETE = "SyncCompleteV1"
RESET = "SyncResetV1"
DEPRECATED = "AssetsV1"  # in 3.x, though it still is a name that may be asked for
UPDATE_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def sync_lines(sim: Simulator, user_id: str) -> Iterator[bytes]:
    """What a full stream of the user's assets has, in blocks of whole lines, without a session or a socket."""
    with sim.lock:
        return _lines(sim, user_id, {"AssetsV2" if sim.modern else "AssetsV1"}, {})


def stream(sim: Simulator, call: Call) -> Reply:
    """The changes since the session's checkpoints, or all of them. SyncResetV1 comes alone.

    A checkpoint whose id is no UUID makes every stream a 500.
    """
    fields = {
        "types": Field("enums", required=True, options=request_types(modern=sim.modern)),
        "reset": Field("bool"),
    }
    try:
        wanted = checked(call.body, fields, modern=sim.modern)
    except Refusal as refusal:
        kind = {"content-type": f"{LINES_TYPE}; charset=utf-8"}
        raise Refusal(refusal.status, refusal.message, refusal.errors, kind) from None
    session = _session(call)
    if wanted.get("reset"):
        sim.changes.reset(session.session_id)
    checkpoints = sim.changes.checkpoints.get(session.session_id, {})
    complete = checkpoints.get(COMPLETE)
    positions = {entity: _position(ack) for entity, ack in checkpoints.items()}
    if session.session_id in sim.changes.pending_resets or (
        complete is not None and too_old(positions[COMPLETE], sim.now())
    ):
        return _streamed(iter([line(RESET, {}, "reset")]))
    types = set(wanted["types"])
    if sim.modern and DEPRECATED in types:
        begun = list(_user_lines(sim, session.user_id, types, positions))
        if begun:  # the answer has begun as a good one, and the server never ends it
            return _streamed(iter(begun), hangs=True)
        raise Refusal(400, f"SyncRequestType.{DEPRECATED} is deprecated, use SyncRequestType.AssetsV2 instead")
    return _streamed(_lines(sim, session.user_id, types, positions))


def get_acks(sim: Simulator, call: Call) -> Reply:
    mine = sim.changes.checkpoints.get(_session(call).session_id, {})
    return Reply(200, [{"type": entity, "ack": ack} for entity, ack in mine.items()])


def set_acks(sim: Simulator, call: Call) -> Reply:
    """The last ack of each entity type becomes its checkpoint, even an older or a malformed one."""
    fields = {"acks": Field("strings", required=True, high=MOST_ACKS)}
    acks = checked(call.body, fields, modern=sim.modern)["acks"]
    session_id = _session(call).session_id
    last: dict[str, str] = {}
    for ack in acks:
        entity = ack.split("|")[0]
        if entity == RESET:
            sim.changes.reset(session_id)
            return Reply(204)
        if entity not in entity_types(modern=sim.modern):
            raise Refusal(400, f"Invalid ack type: {entity}")
        last[entity] = ack
    if not last:
        raise Refusal(500, "Failed to send sync ack")
    sim.changes.acknowledge(session_id, last)
    return Reply(204)


def delete_acks(sim: Simulator, call: Call) -> Reply:
    """Forget the checkpoints of these entity types, or all of them."""
    fields = {"types": Field("enums", options=entity_types(modern=sim.modern))}
    types = checked(call.body, fields, modern=sim.modern).get("types")
    mine = sim.changes.checkpoints.get(_session(call).session_id, {})
    for entity in list(mine) if types is None else types:
        mine.pop(entity, None)
    return Reply(204)


def _session(call: Call) -> Session:
    if call.who.session is None:
        raise Refusal(403, "Sync endpoints cannot be used with API keys")
    return call.who.session


def _position(ack: str) -> int:
    _, _, update_id = ack.partition("|")
    if not UPDATE_ID.fullmatch(update_id):
        raise Refusal(500, UNEXPECTED)
    return int(update_id.replace("-", ""), 16)


def _streamed(lines: Iterator[bytes], *, hangs: bool = False) -> Reply:
    return Reply(200, headers={"content-type": LINES_TYPE}, lines=lines, hangs=hangs)


def _lines(sim: Simulator, user_id: str, types: set[str], positions: dict[str, int]) -> Iterator[bytes]:
    """Users, then deletions, then assets, then the complete. What changes later is in none of them."""
    parts: list[Iterator[bytes]] = [_user_lines(sim, user_id, types, positions)]
    if types & {"AssetsV1", "AssetsV2"}:
        sim.changes.forget_old_deletions(user_id, sim.now())
        parts.append(deletion_lines(sim, user_id, positions.get("AssetDeleteV1", 0)))
        parts.append(asset_lines(sim, user_id, positions.get("AssetV2" if sim.modern else "AssetV1", 0)))
    parts.append(iter([line(COMPLETE, {}, sim.changes.next_id(sim.now()))]))
    return chain.from_iterable(parts)


def _user_lines(sim: Simulator, user_id: str, types: set[str], positions: dict[str, int]) -> Iterator[bytes]:
    known = sim.changes.users
    lines: list[bytes] = []
    if "AuthUsersV1" in types and known[user_id] > positions.get("AuthUserV1", 0):
        data = own_user_data(sim.users[user_id], sim.used_bytes(user_id))
        lines.append(line("AuthUserV1", data, known[user_id]))
    if "UsersV1" in types:
        newer = sorted((one for one in known if known[one] > positions.get("UserV1", 0)), key=lambda one: known[one])
        lines += [line("UserV1", user_data(sim.users[one]), known[one]) for one in newer]
    return iter(lines)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("POST", "/api/sync/stream", stream, "sync.stream"),
    Endpoint("GET", "/api/sync/ack", get_acks, "syncCheckpoint.read"),
    Endpoint("POST", "/api/sync/ack", set_acks, "syncCheckpoint.update"),
    Endpoint("DELETE", "/api/sync/ack", delete_acks, "syncCheckpoint.delete"),
)
