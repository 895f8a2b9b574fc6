"""The last look before anything is trashed: is each photo still gone, still unprotected, still what was planned?

Used by the tag step of every batch. A plan may be hours old when a person approves it (spec, item 8; invariants 3, 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine import decide, plan
from engine.errors import RailTripped
from engine.memory import memory
from engine.plan import Unit
from engine.policy import LocalFacts, Policy
from state import settings_file
from state.db import reading
from tasks import clock
from tasks.context import Context
from tasks.enumerate import list_all
from tasks.fetch_server_assets import SERVER
from tasks.files import quoted, reference, relations
from tasks.hash import with_checksums
from tasks.merge_observed import NAMES, history_lost

if TYPE_CHECKING:
    import duckdb
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
    remembered = memory_now(context, local)
    deletable = still_deletable(context, local, remembered)
    anchored = frozenset(remembered.filter(remembered["anchored"])["checksum"].to_pylist())
    states = server.assets_by_id(sorted({asset_id for unit in units for asset_id in unit.ids}))
    going: list[Unit] = []
    staying: list[Unit] = []
    dropped: dict[str, str] = {}
    for planned in units:
        unit, reason = _by_server(planned, states, context.user_id, alive | excluded | anchored)
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
    """The local rows as they are now (engine.relations.LOCAL). Raises RailTripped when they cannot be known.

    A run from a checksums file reads the registered libraries too: what is alive in any of them stays.
    """
    import pyarrow.compute as pc

    listed, facts = list_all(context, with_registered=True)
    local, hashed = with_checksums(context, listed)
    if facts.access_problems or facts.gaps or hashed.problems:
        first = [*facts.access_problems, *facts.gaps, *hashed.problems][0]
        raise RailTripped(
            "permission" if facts.access_problems else "incomplete",
            f"A library could not be read whole just before the deletion: {first}.",
            "Nothing more was trashed. Repair it, then run again.",
        )
    if not pc.any(pc.invert(local["in_trash"])).as_py():  # nothing outside the trash, or nothing at all
        raise RailTripped(
            "empty_local", "No local photo was found just before the deletion.", "Nothing more was trashed. Run again."
        )
    return local


def still_deletable(context: Context, local: pa.Table, remembered: pa.Table) -> frozenset[str]:
    """Asset ids that the rules would delete now: with the local rows, the remembered sets and the settings of now.

    The run's own queries over its own server snapshot, so no second set of rules can drift from the first. What the
    settings of then or of now hold back stays: both must let it go.
    """
    then = context.policy(history_lost=history_lost(context))
    current = settings_file.load(context.partition)
    now = replace(
        then,
        now=clock.naive_now(),
        strictness=current.deletionStrictness,
        quarantine_days=current.quarantineDays,
        selected_albums=current.selected_albums,
        include_external=current.includeExternalLibraries,
    )
    with relations(context.folder, server=reference(context.folder / SERVER)) as con:
        con.register("local", local)
        con.register("memory", remembered)
        return _deleted(con, then) & _deleted(con, now)


def memory_now(context: Context, local: pa.Table) -> pa.Table:
    """What the partition remembers now (engine.relations.MEMORY). Indexed ids that were not seen count as living."""
    facts = LocalFacts(
        run_id=context.run.run_id,
        now=clock.naive_now(),
        complete=False,
        change_log=context.checksums_file is None,
        history_lost=False,
        strictness=context.settings.deletionStrictness,
    )
    with reading(context.partition) as con:
        con.register("local", local)
        con.execute(
            "CREATE OR REPLACE TEMP VIEW names AS SELECT checksum, unnest(names) AS file_name "
            f"FROM read_parquet({quoted(context.folder / NAMES)})"
        )
        return memory(con, facts).to_arrow_table()


def _deleted(con: duckdb.DuckDBPyConnection, policy: Policy) -> frozenset[str]:
    con.register("candidates", decide.diff(con, policy).to_arrow_table())
    con.register("scoped", decide.scope_filter(con, policy).to_arrow_table())
    rows = decide.classify(con, policy).to_arrow_table().to_pylist()
    return frozenset(unit.asset_id for unit in plan.units(rows))


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
