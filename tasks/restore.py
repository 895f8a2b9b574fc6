"""The restore step: bring a run's assets back from the trash, protected first, read back, journaled.

Protection comes before the restore: killed in between, the next run still leaves them alone (invariant 10).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.errors import UsageError
from engine.plan import Unit
from engine.runs import parse_run_id, tag_name
from server.client import PhotoServer, RestoreOutcome
from server.shapes import uuid_out
from state import exclusions, journal
from state.db import writing
from state.journal import Record
from tasks import clock, progress
from tasks.batch import ids_of, record, unit_of
from tasks.context import Context, open_context
from tasks.files import read_json, write_json
from tasks.refs import RunRef
from tasks.step import Step

REQUEST, BECAME = "request.json", "restored.json"
LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class Selection:
    """Which units of which run come back. Empty ``asset_ids`` and no pattern: all of them."""

    run_id: str
    asset_ids: tuple[str, ...] = ()
    file_name_matches: str | None = None


def checked_selection(run_id: str, asset_ids: Sequence[str], file_name_matches: str | None) -> Selection:
    """A selection whose parts make sense. Raises UsageError for a bad run id, asset id or regular expression."""
    parse_run_id(run_id)
    ids = tuple(uuid_out(asset_id) for asset_id in asset_ids)
    if file_name_matches is not None:
        if not 0 < len(file_name_matches) <= LONGEST_PATTERN:
            raise UsageError(
                "--file-name-matches is empty or too long.",
                f"Give 1 to {LONGEST_PATTERN} characters; leave it out to restore the whole run.",
            )
        try:
            re.compile(file_name_matches)
        except re.error as error:
            raise UsageError(
                f"--file-name-matches is no regular expression: {error.msg} at position {error.pos}.",
                "Example: --file-name-matches '^IMG_00[12]'",
            ) from None
    return Selection(run_id, ids, file_name_matches)


def write_request(context: Context, selection: Selection, *, exclude: bool) -> None:
    """Leave the request in the run's folder: file name patterns never travel as task parameters (invariant 13)."""
    write_json(context.folder / REQUEST, {**asdict(selection), "exclude": exclude})


def restore(run: RunRef) -> dict[str, Any]:
    """Restore what request.json selects. Returns the counts of units restored, failed and excluded, and notes.

    Raises UsageError when the run is unknown or nothing of it matches; ServerError.
    """
    context = open_context(run)
    request = read_json(context.folder / REQUEST)
    exclude = bool(request.pop("exclude"))
    selection = Selection(request["run_id"], tuple(request["asset_ids"]), request["file_name_matches"])
    with context.server() as server:
        units, notes = _selected(context, server, selection)
        _protect(context, selection.run_id, units, exclude=exclude)
        progress.report("restore", 0, len(units))
        outcome = server.restore_assets(ids_of(units))
        lines = [line for unit in units for line in _lines(selection.run_id, unit, outcome)]
        journal.append(context.partition, lines)
    write_json(context.folder / BECAME, {"of_run": selection.run_id, "units": _told(units, lines)})
    progress.report("restore", len(units), len(units))
    restored = sum(line.status == "restored" for line in lines)
    return {
        "restored": restored,
        "failed": sum(line.status == "failed" for line in lines),
        "excluded": len({c for unit in units for c in unit.checksums}) if exclude else 0,
        "notes": notes,
    }


def _told(units: Sequence[Unit], lines: Sequence[Record]) -> list[dict[str, str]]:
    """What became of each unit, for a person: asset id, file name and a word."""
    restored = {line.asset_id for line in lines if line.status == "restored"}
    return [
        {"asset_id": unit.asset_id, "file_name": unit.file_name,
         "became": "restored" if unit.asset_id in restored else "not restored"}
        for unit in units
    ]  # fmt: skip


def _selected(context: Context, server: PhotoServer, selection: Selection) -> tuple[list[Unit], list[str]]:
    """The units to bring back, from the journal, or from the run's tag when the journal knows nothing of the run."""
    notes: list[str] = []
    lines = journal.state_of_run(journal.read(context.partition).records, selection.run_id)
    if lines:
        units = [unit_of(line) for line in lines.values() if line.status == "trashed"]
        if not units:
            return [], ["Nothing of that run is in the trash any more."]
    else:
        units = _by_tag(server, selection.run_id)
        notes.append("The local journal does not know this run; its assets were found by the run's tag on the server.")
    chosen = [unit for unit in units if _matches(unit, selection)]
    if not chosen:
        raise UsageError(
            "No trashed asset of that run matches.",
            f"`deletion-sync journal show --run-id {selection.run_id}` lists them.",
        )
    return chosen, notes


def _matches(unit: Unit, selection: Selection) -> bool:
    if selection.asset_ids and not set(unit.ids).intersection(selection.asset_ids):
        return False
    return selection.file_name_matches is None or re.search(selection.file_name_matches, unit.file_name) is not None


def _by_tag(server: PhotoServer, run_id: str) -> list[Unit]:
    """The trashed assets that carry the run's tag on the server. Raises UsageError when there is no such tag."""
    tag = next((tag for tag in server.list_tags() if tag.value == tag_name(run_id)), None)
    if tag is None:
        raise UsageError(
            f"Neither the journal nor the server knows the run {run_id}.",
            "`deletion-sync journal list` shows the runs.",
        )
    states = [state for state in server.assets_by_id(server.tag_members(tag.id)).values() if state and state.is_trashed]
    videos = {state.live_photo_video_id for state in states}
    checksums = {state.asset_id: state.checksum for state in states}
    return [
        Unit(
            state.asset_id, state.checksum, state.file_name, "found by its tag",
            state.live_photo_video_id, checksums.get(state.live_photo_video_id or ""),
        )
        for state in states if state.asset_id not in videos
    ]  # fmt: skip


def _protect(context: Context, run_id: str, units: Sequence[Unit], *, exclude: bool) -> None:
    """Un-confirm the units' checksums, motion videos included, and exclude them unless that was declined."""
    names = {checksum: unit.file_name for unit in units for checksum in unit.checksums}
    if not names:
        return
    now = clock.naive_now()
    if exclude:
        exclusions.add(context.partition, names, "restored", now, file_names=names, run_id=run_id)
    with writing(context.partition) as con:
        con.executemany("DELETE FROM confirmed_deleted WHERE checksum = ?", [[checksum] for checksum in names])


def _lines(run_id: str, unit: Unit, outcome: RestoreOutcome) -> list[Record]:
    problems = [
        outcome.failed.get(asset_id) or outcome.unknown.get(asset_id)
        for asset_id in unit.ids
        if asset_id not in outcome.restored
    ]
    if not problems:
        return [record(run_id, "restored", unit, "restored")]
    # `trashed` stays the last word on what is still in the trash, so that a later restore finds it.
    failed = record(run_id, "failed", unit, f"not restored: {problems[0]}")
    return [failed, replace(failed, status="trashed", reason="still in the trash")]


STEP = Step("restore", restore)
