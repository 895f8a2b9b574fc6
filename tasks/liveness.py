"""The last look before anything is trashed: is each photo still gone, still unprotected, still what was planned?

Used by the tag step of every batch. A plan may be hours old when a person approves it (spec, item 8; invariants 3, 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine import decide, plan
from engine.errors import RailTripped
from engine.plan import Unit
from tasks.context import Context
from tasks.enumerate import list_all
from tasks.files import reference, relations
from tasks.hash import with_checksums
from tasks.merge_observed import history_lost

if TYPE_CHECKING:
    import pyarrow as pa

    from server.client import PhotoServer
    from server.shapes import AssetState

GONE = "the server does not have it any more"
TRASHED = "it is in the server's trash already"
BACK = "it, or a photo of its name and time, is in a local library again"
PROTECTED = "you protected it"


@dataclass(frozen=True, slots=True)
class Looked:
    """``units`` may go now; ``dropped`` maps the asset id of each other unit to why it stays."""

    units: tuple[Unit, ...]
    dropped: dict[str, str]


def look_again(context: Context, server: PhotoServer, units: Sequence[Unit], excluded: frozenset[str]) -> Looked:
    """Compare each unit with the exclusions, the local libraries and the server as they are now.

    Raises RailTripped when the libraries cannot be read whole: then nothing is known to be gone.
    """
    local = read_libraries(context)
    alive = frozenset(local.column("checksum").to_pylist())
    deletable = still_deletable(context, local)
    states = server.assets_by_id(sorted({asset_id for unit in units for asset_id in unit.ids}))
    going: list[Unit] = []
    staying: list[Unit] = []
    dropped: dict[str, str] = {}
    for planned in units:
        unit, reason = _by_server(planned, states, context.user_id, alive | excluded)
        if planned.asset_id not in deletable:
            reason = BACK
        if reason is None and excluded.intersection(unit.checksums):
            reason = PROTECTED
        if reason is None:
            going.append(unit)
        else:
            dropped[unit.asset_id] = reason
            if reason not in (GONE, TRASHED):
                staying.append(planned)
    return Looked(tuple(keep_shared_motions(going, staying)), dropped)


def keep_shared_motions(going: Iterable[Unit], staying: Iterable[Unit]) -> list[Unit]:
    """``going`` without the motion videos that a still of ``staying`` links to as well (invariant 6)."""
    kept = {unit.motion_id for unit in staying if unit.motion_id is not None}
    return [replace(unit, motion_id=None, motion_checksum=None) if unit.motion_id in kept else unit for unit in going]


def read_libraries(context: Context) -> pa.Table:
    """The local rows as they are now (engine.relations.LOCAL). Raises RailTripped when they cannot be known."""
    listed, facts = list_all(context)
    local, hashed = with_checksums(context, listed)
    if facts.access_problems or facts.gaps or hashed.problems:
        first = [*facts.access_problems, *facts.gaps, *hashed.problems][0]
        raise RailTripped(
            "permission" if facts.access_problems else "incomplete",
            f"A library could not be read whole just before the deletion: {first}.",
            "Nothing more was trashed. Repair it, then run again.",
        )
    if local.num_rows == 0:
        raise RailTripped(
            "empty_local", "No local photo was found just before the deletion.", "Nothing more was trashed. Run again."
        )
    return local


def still_deletable(context: Context, local: pa.Table) -> frozenset[str]:
    """Asset ids that the run's own rules would still delete with the local rows of this moment.

    The same queries over the same snapshots: only ``local`` is new, so no second set of rules can drift from the first.
    """
    policy = context.policy(history_lost=history_lost(context))
    snapshots = {name: reference(context.folder / f"{name}.parquet") for name in ("server", "memory")}
    with relations(context.folder, **snapshots) as con:
        con.register("local", local)
        con.register("candidates", decide.diff(con, policy).to_arrow_table())
        con.register("scoped", decide.scope_filter(con, policy).to_arrow_table())
        return frozenset(
            unit.asset_id for unit in plan.units(decide.classify(con, policy).to_arrow_table().to_pylist())
        )


def _by_server(
    unit: Unit, states: Mapping[str, AssetState | None], user_id: str, protected: frozenset[str]
) -> tuple[Unit, str | None]:
    """The unit without a motion video that is gone or trashed already, and why the server's word stops it, if so."""
    state = states.get(unit.asset_id)
    if state is None:
        return unit, GONE
    if state.is_trashed:
        return unit, TRASHED
    if (state.checksum, state.owner_id) != (unit.checksum, user_id) or state.visibility == "locked":
        return unit, "it changed on the server"
    if unit.motion_id is None:
        return unit, None
    motion = states.get(unit.motion_id)
    if motion is None or motion.is_trashed:
        return replace(unit, motion_id=None, motion_checksum=None), None
    if (
        state.live_photo_video_id != unit.motion_id
        or motion.owner_id != user_id
        or motion.visibility == "locked"
        or motion.checksum != (unit.motion_checksum or motion.checksum)
    ):
        return unit, "its motion video changed on the server"
    if motion.checksum in protected:
        return unit, "its motion video is in a local library, or you protected it"
    return replace(unit, motion_checksum=motion.checksum), None
