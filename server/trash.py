"""To the trash and back, and nothing further: requests that are read back, never believed and never sent blindly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engine.errors import UsageError
from server import errors
from server.account import server_time
from server.assets import assets_by_id
from server.http import MAX_RETRY_AFTER, Transport
from server.listing import trashed_since
from server.shapes import uuids_out

BATCH = 500  # ids in one request (design, delete batches)
RESENDS = 2  # after a request whose fate is unknown, each after reading back
_PAUSE_SECONDS = 1.0
_BY_ID_UP_TO = 20  # so few are read back one by one; more by one search, and the left-overs by id
_CLOCK_MARGIN = 60.0

Unit = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrashOutcome:
    """What became of each id, by the server's own word afterwards. Every id is in exactly one of the four.

    ``failed``: not in the trash, with the reason. ``unknown``: a request was sent and could not be read back, or may
    still be at work; look again before anything else is concluded.
    """

    trashed: frozenset[str]
    already_trashed: frozenset[str]
    failed: dict[str, str]
    unknown: dict[str, str]


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """What became of each id, by the server's own word afterwards; ``restored`` are in the trash no more."""

    restored: frozenset[str]
    failed: dict[str, str]
    unknown: dict[str, str]


@dataclass(slots=True)
class _Job:
    """One call on its way: what it wants, how it asks, and what is settled."""

    transport: Transport
    trashed: bool  # the state that is wanted
    send: Callable[[list[str]], None]
    before_send: Callable[[Unit], None] | None
    size: int
    done: set[str] = field(default_factory=set)
    already: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)  # these may have reached the server: read back
    in_doubt: set[str] = field(default_factory=set)  # a request with these may still be at work
    reasons: dict[str, str] = field(default_factory=dict)
    again: list[Unit] = field(default_factory=list)
    trouble: str = ""  # why ``again`` is not empty
    halted: str = ""  # why nothing more is sent


def trash_units(
    transport: Transport, units: Iterable[Sequence[str]], before_send: Callable[[Unit], None] | None, size: int
) -> TrashOutcome:
    """Move the assets of each unit to the trash, at most 500 a request, a unit never split (spec, Live Photos).

    Units that share an id go together. Each batch is looked up first: what is in the trash already is not sent again,
    since that would restart its retention, and a unit with an id that the server does not have fails unsent.
    ``before_send`` gets the ids of each request just before it leaves; if it raises, that request is not sent.
    A refused request is halved until the bad unit fails alone. After a cut, a time-out or a 5xx the server is asked
    what happened, and only what is not in the trash is sent again. Raises UsageError, and ServerError only as long as
    nothing was sent.
    """

    def send(ids: list[str]) -> None:
        transport.write("DELETE", "/api/assets", {"ids": ids, "force": False})

    job = _Job(transport, True, send, before_send, size)
    _run(job, units)
    return TrashOutcome(frozenset(job.done), frozenset(job.already), job.failed, job.unknown)


def restore_assets(transport: Transport, ids: Iterable[str], size: int) -> RestoreOutcome:
    """Take assets out of the trash. The server's count only repeats the length of the list, so each is read back.

    An id that the server no longer has is in ``failed``. Raises as ``trash_units`` does.
    """

    def send(batch: list[str]) -> None:
        transport.write("POST", "/api/trash/restore/assets", {"ids": batch})

    job = _Job(transport, False, send, None, size)
    _run(job, [(asset_id,) for asset_id in uuids_out(ids)])
    return RestoreOutcome(frozenset(job.done | job.already), job.failed, job.unknown)


def _run(job: _Job, units: Iterable[Sequence[str]]) -> None:
    for batch in _batches(_joined(units)):
        if not job.halted:
            try:
                states = assets_by_id(job.transport, _ids(batch))
            except errors.ServerError as error:
                if not job.sent:
                    raise
                job.halted = str(error)
        if job.halted:
            job.failed.update(dict.fromkeys(_ids(batch), f"Not sent. {job.halted}"))
            continue
        ready = []
        for unit in batch:
            gone = next((asset_id for asset_id in unit if states[asset_id] is None), None)
            if gone is not None:
                reason = f"The server has no asset {gone}, or the key has no access to it."
                job.failed.update(dict.fromkeys(unit, reason))
                continue
            rest = tuple(i for i in unit if (state := states[i]) is not None and state.is_trashed is not job.trashed)
            job.already.update(set(unit) - set(rest))
            if rest:
                ready.append(rest)
        if ready:
            _settle(job, ready)


def _settle(job: _Job, units: list[Unit]) -> None:
    """Send one batch, read back, and send again what a fault kept from arriving."""
    try:
        since = server_time(job.transport) if job.trashed and len(_ids(units)) > _BY_ID_UP_TO else None
    except errors.ServerError:
        since = None
    for attempt in range(1 + RESENDS):
        job.again, job.trouble = [], ""
        _deliver(job, units)
        try:
            as_wanted = _read_back(job, [i for i in _ids(units) if i in job.sent], since)
        except errors.ServerError as error:
            _cannot_tell(job, units, str(error))
            return
        job.done.update(as_wanted)
        units = [rest for unit in job.again if (rest := tuple(i for i in unit if i not in as_wanted))]
        resent = set(_ids(units))
        for asset_id in set(job.reasons) - resent:
            reason = job.reasons.pop(asset_id)
            if asset_id not in as_wanted:
                job.failed[asset_id] = reason
        if not units or job.halted:
            break
        if attempt < RESENDS:
            job.transport.pause(_PAUSE_SECONDS * 2**attempt)
    for asset_id in _ids(units):
        job.reasons.pop(asset_id, None)
        (job.unknown if asset_id in job.in_doubt else job.failed)[asset_id] = job.trouble or job.halted
    if units:
        job.halted = job.halted or job.trouble


def _deliver(job: _Job, units: list[Unit]) -> None:
    """One request for all units, or halves of it where the server refuses; fills ``reasons`` and ``again``."""
    ids = _ids(units)
    if job.trouble or job.halted:
        job.again.extend(units)
        return
    if job.before_send is not None:
        job.before_send(tuple(ids))
    try:
        job.send(ids)
        job.sent.update(ids)
        state = "in the trash" if job.trashed else "out of the trash"
        job.reasons.update(dict.fromkeys(ids, f"The server said done, but the asset is not {state}."))
    except errors.BadRequest as error:
        if len(units) == 1:
            job.sent.update(ids)
            job.reasons.update(dict.fromkeys(ids, str(error)))
            return
        half = len(units) // 2
        _deliver(job, units[:half])
        _deliver(job, units[half:])
    except (
        errors.ServerUnreachable,
        errors.ServerFault,
        errors.RateLimited,
        errors.NotAPhotoServer,
        errors.AnswerMalformed,
    ) as error:
        job.trouble = str(error)
        job.again.extend(units)
        if isinstance(error, errors.RateLimited):
            job.transport.pause(min(error.retry_after or 0.0, MAX_RETRY_AFTER))
        elif not isinstance(error, errors.ServerUnreachable) or error.maybe_done:
            job.sent.update(ids)
            # The server's own 500 is its last word; a proxy speaks for a server that may be at it yet.
            job.in_doubt.update(ids if error.status != 500 else ())
    except errors.ServerError as error:  # the key, a permission, a redirect: no later request fares better
        job.halted = str(error)
        job.again.extend(units)


def _read_back(job: _Job, ids: list[str], since: float | None) -> set[str]:
    """Those that are in the wanted state now, by the server's own word. Raises ServerError when it has none."""
    found: set[str] = set()
    if since is not None:
        try:
            moment = datetime.fromtimestamp(since - _CLOCK_MARGIN, UTC)
            found = set(ids) & trashed_since(job.transport, moment, job.size)
        except (errors.BadRequest, errors.AnswerMalformed):
            found = set()  # this server does not search so; each is asked by id
    for asset_id, state in assets_by_id(job.transport, [i for i in ids if i not in found]).items():
        if state is None:
            job.reasons[asset_id] = "The asset is no longer on the server."
        elif state.is_trashed is job.trashed:
            found.add(asset_id)
    return found


def _cannot_tell(job: _Job, units: list[Unit], reason: str) -> None:
    """The read-back failed: what was sent is unknown, what was not is not done, and nothing more is sent."""
    job.halted = reason
    for asset_id in _ids(units):
        refusal = job.reasons.pop(asset_id, reason)
        if asset_id in job.sent:
            job.unknown[asset_id] = f"Sent, and could not be read back. {reason}"
        else:
            job.failed[asset_id] = f"Not sent. {refusal}"


def _joined(units: Iterable[Sequence[str]]) -> list[Unit]:
    """Units as lower-case ids, those that share an id as one: a motion video may belong to two stills."""
    group_of: dict[str, list[str]] = {}
    for unit in units:
        members: dict[str, None] = {}
        for asset_id in uuids_out(unit):
            members.update(dict.fromkeys(group_of.get(asset_id, [asset_id])))
        group = list(members)
        group_of.update(dict.fromkeys(group, group))
    return [tuple(group) for asset_id, group in group_of.items() if group[0] == asset_id]


def _batches(units: list[Unit]) -> list[list[Unit]]:
    batches: list[list[Unit]] = []
    room = 0
    for unit in units:
        if len(unit) > BATCH:
            raise UsageError(
                f"{len(unit)} assets belong together, and a request takes {BATCH}.", "Exclude one of them."
            )
        if len(unit) > room:
            batches.append([])
            room = BATCH
        batches[-1].append(unit)
        room -= len(unit)
    return batches


def _ids(units: Iterable[Unit]) -> list[str]:
    return [asset_id for unit in units for asset_id in unit]
