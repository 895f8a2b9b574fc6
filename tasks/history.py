"""The runs as the server's tags tell them, for a computer that has no journal of them (spec, Trash run tag, item 4).

Reads only. What the journal knows of a run lives in state/journal.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from engine.errors import UsageError
from engine.runs import parse_run_id, run_of_tag
from server.client import AssetState, PhotoServer, Tag
from server.errors import MissingScope


@dataclass(frozen=True, slots=True)
class TaggedRun:
    """A run that left its tag. ``started_at`` is UTC, from the run id; None where that is no date.

    The counts are None unless they were asked for. The server does not tell an asset that was restored from one that
    was tagged and never trashed: both are ``not_in_trash``.
    """

    run_id: str
    started_at: datetime | None
    device_id: str
    members: int | None = None
    in_trash: int | None = None
    not_in_trash: int | None = None


@dataclass(frozen=True, slots=True)
class TaggedAsset:
    """An asset that carries a run's tag, as it is now. ``motion_of``: the tagged still whose motion video it is."""

    asset_id: str
    file_name: str
    checksum: str
    is_trashed: bool
    motion_of: str | None = None


def list_runs(server: PhotoServer, *, detailed: bool = False) -> tuple[TaggedRun, ...]:
    """The runs that the server has a tag of, newest first (spec, history list).

    ``detailed`` looks at every member of every tag. Raises MissingScope without tag.read, and the other ServerErrors.
    """
    found = sorted(_tags(server).items(), reverse=True)
    if not detailed:
        return tuple(_run(run_id) for run_id, _ in found)
    members = {run_id: server.tag_members(tag.id) for run_id, tag in found}
    states = server.assets_by_id(sorted(frozenset[str]().union(*members.values())))
    return tuple(_run(run_id, [states[asset_id] for asset_id in members[run_id]]) for run_id, _ in found)


def show_run(server: PhotoServer, run_id: str) -> tuple[TaggedAsset, ...]:
    """The assets that carry the tag of a run, by file name, each motion video after its still (spec, history show).

    Raises UsageError for what is no run id or has no tag, MissingScope without tag.read, and the other ServerErrors.
    """
    tag = _tags(server).get(parse_run_id(run_id))
    if tag is None:
        raise UsageError(f"The server has no tag of the run {run_id}.", "`deletion-sync history list` shows the runs.")
    states = [state for state in server.assets_by_id(sorted(server.tag_members(tag.id))).values() if state is not None]
    by_id = {state.asset_id: state for state in states}
    still_of: dict[str, str] = {}
    for state in states:
        video = state.live_photo_video_id
        if video in by_id and video != state.asset_id:
            still_of[video] = min(still_of.get(video, state.asset_id), state.asset_id)

    def place(state: AssetState) -> tuple[str, str, bool, str]:
        leader = by_id[still_of.get(state.asset_id, state.asset_id)]
        return leader.file_name.lower(), leader.asset_id, leader is not state, state.asset_id

    return tuple(
        TaggedAsset(s.asset_id, s.file_name, s.checksum, s.is_trashed, still_of.get(s.asset_id))
        for s in sorted(states, key=place)
    )


def _tags(server: PhotoServer) -> dict[str, Tag]:
    """Run id to its tag. Tags of anything else are passed over."""
    try:
        tags = server.list_tags()
    except MissingScope as error:
        raise MissingScope(
            error.scope,
            f"The history is read from the server's tags, and the API key lacks the permission {error.scope}.",
            error.status,
        ) from None
    return {run_id: tag for tag in tags if (run_id := run_of_tag(tag.value)) is not None}


def _run(run_id: str, states: list[AssetState | None] | None = None) -> TaggedRun:
    when, _, device_id = run_id.rpartition("-")
    try:
        started = datetime.strptime(when, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        started = None
    if states is None:
        return TaggedRun(run_id, started, device_id)
    trashed = [state.is_trashed for state in states if state is not None]
    return TaggedRun(run_id, started, device_id, len(states), sum(trashed), len(trashed) - sum(trashed))
