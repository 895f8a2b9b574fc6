"""The demo's story, step by step, each with what is expected and a check of what is seen.

It acts through the same functions as the command line. How it speaks is in demo.telling, where it plays in demo.stage.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo import phone, pictures
from demo.pictures import Picture
from demo.stage import TOOL, Stage
from demo.telling import command, expect, heading, seen
from engine.runs import tag_name
from flows import direct, pipeline
from flows.pipeline import ReconcileRequest, RestoreRequest
from library.identity import register_folder
from state import journal
from state.db import writing
from state.libraries import Registered, add
from state.partition import Partition
from tasks import clock
from tasks.classify import DECISION
from tasks.context import server_of
from tasks.opening import find_partition
from tasks.rails import read_plan
from tasks.summary import ABORTED, NOTHING, PLANNED, RESTORED, TRASHED, Summary

PLAIN = ("2024/Lofoten/IMG_0003.JPG", "2025/Lisbon/IMG_0008.JPG")
LIVE_STILL, LIVE_MOTION = "2025/Lisbon/IMG_0011.JPG", "2025/Lisbon/IMG_0011.MOV"
COPIED = f"2024/Lofoten/IMG_{pictures.COPIED:04d}.JPG"
COPY = f"{pictures.COPIES}/IMG_{pictures.COPIED:04d}.JPG"
MOVED, MOVED_TO = "2025/Lisbon/IMG_0014.JPG", "2025/Favourites/IMG_0014.JPG"
EDITED, EDITED_NUMBER = "2025/Garden/IMG_0007.JPG", 7

GONE = (*PLAIN, LIVE_STILL)  # what the user meant to delete: three photos, one of them a Live Photo
GONE_FILES = (*GONE, LIVE_MOTION)
QUARANTINE_DAYS = 14  # the default setting


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    expected: str
    act: Callable[[Stage], None]


def tell(stage: Stage) -> None:
    """Play every step. Raises NotAsExpected at the first expectation that does not hold, DeletionSyncError."""
    for number, step in enumerate(STEPS, start=1):
        heading(number, step.title, step.expected)
        step.act(stage)


def back_up_a_library(stage: Stage) -> None:
    written = pictures.write_library(stage.photos)
    uploaded = phone.back_up(stage.url, stage.phone_key, written)
    stage.ids = {path.relative_to(stage.photos).as_posix(): asset_id for path, asset_id in uploaded.items()}
    seen(f"{len(stage.ids)} files in {len({path.parent for path in uploaded})} folders, uploaded by a phone app")
    command("deletion-sync library add photos")
    _, partition = find_partition()
    config = json.dumps(register_folder(stage.photos))
    with writing(partition) as con:
        add(con, Registered("photos", "folder", "photos", config, clock.naive_now()))
    assets = _on_server()
    linked = [asset for asset in assets if asset["live_photo_video_id"]]
    expect(len(assets) == len(set(stage.ids.values())) == 28, f"the server has {len(assets)} assets, one per content")
    expect(
        len(linked) == sum(asset["visibility"] == "hidden" for asset in assets) == 4,
        f"{len(linked)} of them are Live Photos, each linked to a hidden motion video",
    )


def run_for_the_first_time(stage: Stage) -> None:
    command("deletion-sync trash")
    first = _reconcile(dry_run=False)
    for note in first.notes:
        seen(note)
    expect(first.dry_run and first.outcome == NOTHING, "a real run was asked for; it was made a dry run")
    expect(stage.changes_sent() == 0, "nothing was changed on the server")


def change_the_library(stage: Stage) -> None:
    for name in (*GONE_FILES, COPIED):
        (stage.photos / name).unlink()
    seen(f"deleted: {', '.join(map(_short, GONE_FILES))} (the last two are a Live Photo)")
    seen(f"deleted: {_short(COPIED)}, of which {COPY} is a copy")
    (stage.photos / MOVED).rename(stage.photos / MOVED_TO)
    seen(f"moved:   {MOVED} to {MOVED_TO}")
    taken, path = pictures.captured_at(EDITED_NUMBER), stage.photos / EDITED
    path.write_bytes(pictures.still(EDITED_NUMBER, taken, edited=True))
    uploaded = phone.back_up(stage.url, stage.phone_key, [Picture(path, taken)])
    seen(f"edited:  {_short(EDITED)}, which the phone app uploads as another asset")
    expect(uploaded[path] != stage.ids[EDITED], "the server has the edited photo beside its original")
    expect(len(_on_server()) == 29, "the server still has everything")


def hold_what_was_deleted(stage: Stage) -> None:
    held = _look(QUARANTINE_DAYS)
    names = _names(held)
    expect(names == _short_names(GONE), f"{len(names)} photos are held: exactly those that were deleted")
    others = {_short(COPIED), _short(MOVED), _short(EDITED)}
    expect(not names & others, "the moved, the copied and the edited photo are not among them")
    stage.clock.pass_days(QUARANTINE_DAYS - 4)
    seen(f"{QUARANTINE_DAYS - 4} days pass")
    _look(4)
    expect(stage.changes_sent() == 0, "nothing was changed on the server")


def plan_after_the_quarantine(stage: Stage) -> None:
    stage.clock.pass_days(4)
    seen("4 more days pass")
    command("deletion-sync trash")
    planned = stage.planned = _reconcile(dry_run=False)
    _, partition = find_partition()
    content, units = read_plan(partition.runs / planned.run_id)
    for unit in units:
        along = " and its motion video" if unit.motion_id else ""
        seen(f"{unit.file_name}{along}: {unit.reason}")
    seen(f"digest of the list: {str(planned.digest)[:16]}…")
    expect(planned.outcome == PLANNED and planned.rail is None, "the list waits for a person; every rail passed")
    expect({unit.asset_id for unit in units} == _ids(stage, GONE), "the list has the 3 deleted photos")
    expect(
        {asset_id for unit in units for asset_id in unit.ids} == _ids(stage, GONE_FILES),
        f"{content['counts']['to_trash']} assets would go: the Live Photo with its motion video",
    )
    expect(stage.changes_sent() == 0, "nothing was changed on the server")


def approve_and_apply(stage: Stage) -> None:
    planned = _planned(stage)
    command(f"deletion-sync apply --digest {planned.digest}")
    done = pipeline.apply(direct.call, direct.WAY, str(planned.digest))
    seen(f"run {done.run_id}: {done.outcome}")
    for note in done.notes:
        seen(note)
    expect(done.outcome == TRASHED and done.counts["trashed"] == 3, "3 photos were moved to the server's trash")
    expect(not done.notes, "nothing was left out, and nothing had to be done again")
    deletes = [one.json for one in stage.simulator.mutations() if one.key == TOOL and one.method == "DELETE"]
    expect([body["force"] for body in deletes] == [False], "one DELETE was sent, and it said force: false")


def look_at_the_server(stage: Stage) -> None:
    run_id = _planned(stage).run_id
    command(f"deletion-sync history show --run-id {run_id}")
    trashed = _trashed()
    for asset in trashed:
        seen(f"in the trash: {asset['file_name']} ({asset['visibility']})")
    expect(
        {asset["asset_id"] for asset in trashed} == _ids(stage, GONE_FILES), "the trash has these 4 assets, no other"
    )
    _, partition = find_partition()
    with server_of(partition) as server:
        tag = next((tag for tag in server.list_tags() if tag.value == tag_name(run_id)), None)
        members = frozenset() if tag is None else server.tag_members(tag.id)
    seen(f"tag {tag_name(run_id)}: {len(members)} assets")
    expect(members == _ids(stage, GONE_FILES), "all 4 carry the run's one tag")


def read_the_journal(stage: Stage) -> None:
    command("deletion-sync journal show --last")
    contents = journal.read(_partition())
    statuses: dict[str, list[str]] = {}
    for line in contents.records:
        if line.run_id == _planned(stage).run_id and line.status is not None:
            statuses.setdefault(str(line.file_name), []).append(line.status)
    for name, story in statuses.items():
        seen(f"{name}: {', '.join(story)}")
    expect(
        statuses == {name: ["planned", "tagged", "trashed"] for name in _short_names(GONE)},
        "each photo was planned, then tagged, then trashed",
    )
    expect(not contents.broken and not contents.chain_breaks, "every line is whole, and its chain is unbroken")


def restore_one_by_name(stage: Stage) -> None:
    run_id = _planned(stage).run_id
    command(f"deletion-sync restore --run-id {run_id} --file-name-matches '^IMG_0011'")
    back = _restore(RestoreRequest(run_id, file_name_matches="^IMG_0011"))
    expect(back.outcome == RESTORED and back.counts["restored"] == 1, "one photo came back")
    left = {asset["asset_id"] for asset in _trashed()}
    expect(left == _ids(stage, PLAIN), "it came back with its motion video; the other 2 are still in the trash")


def restore_the_rest(stage: Stage) -> None:
    run_id = _planned(stage).run_id
    command(f"deletion-sync restore --run-id {run_id}")
    back = _restore(RestoreRequest(run_id))
    expect(back.outcome == RESTORED and back.counts["restored"] == 2, "the other 2 came back")
    assets = _on_server()
    expect(len(assets) == 29 and not _trashed(), "the trash is empty, and the server has everything again")


def leave_the_restored_alone(stage: Stage) -> None:
    sent = stage.changes_sent()
    for days in (0, 60):
        stage.clock.pass_days(days)
        if days:
            seen(f"{days} days pass")
        command("deletion-sync trash")
        run = _reconcile(dry_run=False)
        expect(
            run.outcome == NOTHING and run.counts["delete"] == run.counts["pending"] == 0,
            "there is nothing to do: what was restored is protected",
        )
    expect(stage.changes_sent() == sent and not _trashed(), "nothing was changed on the server")


def unmount_the_library(stage: Stage) -> None:
    sent = stage.changes_sent()
    away = stage.photos.with_name("unmounted")
    stage.photos.rename(away)
    _abort("the folder is not there")
    stage.photos.mkdir()
    _abort("an empty folder is in its place, as under a disk that is not mounted")
    stage.photos.rmdir()
    away.rename(stage.photos)
    seen("the folder is back")
    command("deletion-sync trash")
    run = _reconcile(dry_run=False)
    expect(run.outcome == NOTHING and run.counts["held"] == 0, "nothing counts as deleted, and no quarantine began")
    expect(stage.changes_sent() == sent and not _trashed(), "nothing was changed on the server")


STEPS = (
    Step(
        "A library and its backup",
        "24 photos, 4 of them Live Photos, and one copy; each content is one asset on the server.",
        back_up_a_library,
    ),
    Step("The first run", "It is a dry run, whatever was asked for.", run_for_the_first_time),
    Step("Photos are deleted, moved and edited", "So far, nothing happens on the server.", change_the_library),
    Step(
        "What was deleted is held",
        f"The deleted photos wait for {QUARANTINE_DAYS} days. A move, a second copy and an edit are no deletions.",
        hold_what_was_deleted,
    ),
    Step(
        "After the quarantine there is a list",
        "The list has the deleted photos. It waits for a person.",
        plan_after_the_quarantine,
    ),
    Step("The list is approved", "Exactly this list, by its digest, goes to the trash.", approve_and_apply),
    Step("What the server shows", "The photos are in its trash, with the run's tag.", look_at_the_server),
    Step("What the journal says", "It has each step of each photo.", read_the_journal),
    Step("One photo is restored by its name", "A Live Photo comes back whole.", restore_one_by_name),
    Step("The rest of the run is restored", "Everything is as it was before.", restore_the_rest),
    Step(
        "What was restored is left alone",
        "The files are still gone, but neither the next run nor one 60 days later touches the photos.",
        leave_the_restored_alone,
    ),
    Step(
        "The library is not mounted",
        "A missing or empty library looks like a mass deletion. The run aborts.",
        unmount_the_library,
    ),
)


def _look(days: int) -> list[dict[str, Any]]:
    """A dry run in which everything is held for ``days`` more days; returns what is held, and says it."""
    command("deletion-sync dry-run")
    run = _reconcile(dry_run=True)
    held = _decided(run)
    for row in held:
        seen(f"{row['file_name']}: {row['bucket']}, {row['days_left']} days left")
    expect(
        bool(held) and all((row["bucket"], row["days_left"]) == ("held", days) for row in held),
        f"nothing would be deleted yet; each has {days} days left",
    )
    return held


def _abort(how: str) -> None:
    """A run that must not go on."""
    seen(how)
    command("deletion-sync trash")
    run = _reconcile(dry_run=False)
    for note in run.notes:
        seen(note)
    expect(run.outcome == ABORTED and run.rail == "permission", "the rail “permission” aborted the run")


def _reconcile(*, dry_run: bool) -> Summary:
    return pipeline.reconcile(direct.call, direct.WAY, ReconcileRequest(dry_run=dry_run))


def _restore(request: RestoreRequest) -> Summary:
    return pipeline.restore_run(direct.call, direct.WAY, request)


def _planned(stage: Stage) -> Summary:
    assert stage.planned is not None  # an earlier step made it
    return stage.planned


def _partition() -> Partition:
    return find_partition()[1]


def _decided(run: Summary) -> list[dict[str, Any]]:
    """The rows of a run's decision (engine.relations.DECISION), by file name."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(_partition().runs / run.run_id / DECISION).to_pylist()
    return sorted(rows, key=lambda row: str(row["file_name"]))


def _on_server() -> list[dict[str, Any]]:
    """Every asset as the server lists it now (engine.relations.SERVER), by file name."""
    partition = _partition()
    assert partition.user_id is not None  # learned when the library was added
    with server_of(partition) as server:
        rows: list[dict[str, Any]] = server.fetch_assets(partition.user_id).to_pylist()
    return sorted(rows, key=lambda row: str(row["file_name"]))


def _trashed() -> list[dict[str, Any]]:
    return [asset for asset in _on_server() if asset["is_trashed"]]


def _ids(stage: Stage, names: tuple[str, ...]) -> set[str]:
    return {stage.ids[name] for name in names}


def _names(rows: list[dict[str, Any]]) -> set[str]:
    return {str(row["file_name"]) for row in rows}


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _short_names(names: tuple[str, ...]) -> set[str]:
    return set(map(_short, names))
