"""Lessons and invariants of the whole pipeline, by number: what others lost photos by, and what must never happen."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.errors import DeletionSyncError, RailTripped, UsageError
from engine.runs import tag_name
from server.client import PhotoServer
from state import exclusions, journal, libraries
from state.credentials import load_credentials
from state.db import reading, writing
from tasks.history import list_runs
from tasks.summary import read_summary
from tests.crash.stage import partition_of, statuses, tables
from tests.e2e.bad_days import aborts, all_is_well, confirmed, delete_some, furnish, nothing_changes, plan
from tests.world import World, checksum, small_world

NAMES = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}
LIVE = {"2020/IMG_90.HEIC", "2020/IMG_90.MOV"}


def decisions(world: World, run_id: str) -> dict[str, tuple[str, str]]:
    """Per file name: bucket and reason of a run."""
    import pyarrow.parquet as pq

    rows = pq.read_table(partition_of(world).runs / run_id / "decision.parquet").to_pylist()
    return {row["file_name"]: (row["bucket"], row["reason"]) for row in rows}


# What came back, or was protected


@pytest.mark.parametrize("exclude", [True, False])
def test_lesson_5_and_17_what_was_restored_is_unconfirmed_and_protected_video_included(
    due: World, exclude: bool
) -> None:
    done = due.apply(plan(due))
    assert due.restore(done.run_id, exclude=exclude).outcome == "restored"
    assert not due.trashed() and not confirmed(due)
    protected = {entry.checksum for entry in exclusions.list_exclusions(partition_of(due))}
    expected = {checksum(b"photo 2021/IMG_1.JPG"), checksum(b"still 2020/IMG_90"), checksum(b"motion 2020/IMG_90")}
    assert protected == (expected if exclude else set())
    due.change_settings(quarantineDays=14)
    due.pass_days(60)
    after = due.reconcile()
    assert (after.counts["delete"], after.counts["held"]) == (0, 0 if exclude else 2), after


def test_lesson_6_a_failed_deletion_is_not_tried_again_on_a_photo_that_came_back(due: World) -> None:
    planned = plan(due)
    due.simulator.faults.add("DELETE", "/api/assets", status=204, times=None)
    assert due.apply(planned).outcome == "failed"
    due.simulator.faults.clear()
    due.write("2021/IMG_1.JPG")
    assert due.apply(plan(due)).outcome == "trashed" and due.trashed() == LIVE


def test_lesson_18_a_photo_that_came_back_between_plan_and_apply_stays(due: World) -> None:
    planned = plan(due)
    due.write("elsewhere/renamed.JPG", b"photo 2021/IMG_1.JPG")
    done = due.apply(planned)
    assert due.trashed() == LIVE and done.counts["left_out"] == 1
    assert any("local library again" in note for note in done.notes)


def test_lesson_14_what_was_protected_and_deleted_again_is_shown_and_not_trashed(world: World) -> None:
    digest = checksum(b"photo 2021/IMG_1.JPG")
    exclusions.add(partition_of(world), [digest], "kept", world.now.replace(tzinfo=None))
    world.pass_days(1)
    world.remove("2021/IMG_1.JPG")
    summary = world.reconcile()
    assert decisions(world, summary.run_id) == {"IMG_1.JPG": ("review", "deleted_again")}
    assert summary.counts["delete"] == 0


# Quarantine


def test_lesson_7_a_checksum_that_nobody_stamped_serves_its_quarantine(world: World) -> None:
    world.change_settings(quarantineDays=14)
    limbo = checksum(b"limbo")
    world.ids["limbo"] = world.simulator.add_asset(world.user_id, checksum=limbo, file_name="limbo.JPG")
    with writing(partition_of(world)) as con:
        con.execute("INSERT INTO observed VALUES (?, [], ?)", [limbo, world.now.replace(tzinfo=None)])
    assert world.reconcile().counts["held"] == 1
    world.pass_days(13.9)
    assert world.reconcile().counts["delete"] == 0
    world.pass_days(0.2)
    world.apply(plan(world))
    assert world.trashed() == {"limbo"}


def test_invariant_5_a_later_run_neither_restarts_nor_shortens_a_quarantine(world: World) -> None:
    world.change_settings(quarantineDays=14)
    delete_some(world)
    world.reconcile()
    dates = confirmed(world)
    for _ in range(3):
        world.pass_days(4)
        world.reconcile()
        assert confirmed(world) == dates
    world.write("2021/IMG_1.JPG")
    world.reconcile()
    world.remove("2021/IMG_1.JPG")
    world.pass_days(4)
    again = world.reconcile()
    assert (again.counts["delete"], again.counts["held"]) == (1, 1)
    assert dates.items() >= {(c, d) for c, d in confirmed(world).items() if c != checksum(b"photo 2021/IMG_1.JPG")}


def test_lesson_16_an_aborted_run_starts_no_clock(due: World) -> None:
    due.change_settings(quarantineDays=14)
    due.remove(*(str(path.relative_to(due.folder)) for path in due.folder.rglob("*.JPG")))
    aborts(due, "empty_local", dry_run=False)
    assert not confirmed(due)


def test_lesson_11_without_history_every_candidate_is_shown_and_none_is_trashed(due: World) -> None:
    with writing(partition_of(due)) as con:
        con.execute("UPDATE libraries SET token = 'another'")
    summary = due.reconcile()
    assert (summary.counts["delete"], summary.counts["held"]) == (0, 0)
    assert set(decisions(due, summary.run_id).values()) == {("review", "history_lost")}


def test_lesson_92_when_the_state_is_lost_the_next_run_is_a_first_run(due: World) -> None:
    partition = partition_of(due)
    exclusions.add(partition, [checksum(b"photo 2021/IMG_1.JPG")], "kept", due.now.replace(tzinfo=None))
    due.apply(plan(due))
    (run,) = statuses(partition)
    due.change_settings(applyScheduledRuns=True)
    partition.database.unlink()
    due.register()
    due.remove("2020/IMG_2.JPG")
    with nothing_changes(due, also_remembered=False):
        summary = due.reconcile(dry_run=False)
    assert summary.dry_run and summary.counts["delete"] == 0, summary
    assert [e.checksum for e in exclusions.list_exclusions(partition)] == [checksum(b"photo 2021/IMG_1.JPG")]
    assert due.restore(run).outcome == "restored" and not due.trashed()


# Scope and rails


def test_lesson_19_a_restricted_scope_is_never_silently_off(due: World) -> None:
    due.change_settings(indexingScope={"selectedAlbums": ["photos/2021"]})
    due.apply(plan(due))
    assert due.trashed() == {"2021/IMG_1.JPG"}
    due.change_settings(indexingScope={"selectedAlbums": []})
    assert due.reconcile().outcome == "nothing to do"


def test_lesson_20_and_84_a_mass_deletion_aborts_and_every_destructive_path_asks_the_same_rail(world: World) -> None:
    world.all_backed_up("many/{}.JPG", 20)
    world.reconcile()
    names = {f"many/{number}.JPG" for number in range(10)}
    world.remove(*names)
    sent = len(world.simulator.mutations())
    for dry_run in (True, False):
        summary = world.reconcile(dry_run=dry_run)
        assert (summary.outcome, summary.rail, summary.digest) == ("aborted", "threshold", None)
        assert "10 of 30" in summary.notes[0]
        content = json.loads((partition_of(world).runs / summary.run_id / "plan.json").read_text())
        with pytest.raises(UsageError):
            world.apply(type(summary)(**{**read_summary(partition_of(world), summary.run_id), **digest_of(content)}))
    assert len(world.simulator.mutations()) == sent
    world.change_settings(thresholdPercent=50)
    planned = plan(world)
    world.change_settings(thresholdPercent=1)
    with nothing_changes(world), pytest.raises(RailTripped, match="10 of 30"):
        world.apply(planned)
    world.change_settings(thresholdPercent=50)
    assert world.apply(planned).outcome == "trashed" and world.trashed() == names


def digest_of(content: dict[str, Any]) -> dict[str, Any]:
    return {"digest": content["digest"]}


def test_lesson_58_a_run_that_failed_or_aborted_is_recorded_as_that(due: World) -> None:
    planned = plan(due)
    due.simulator.faults.add("PUT", "/api/tags", status=500)
    with pytest.raises(DeletionSyncError):
        due.apply(planned)
    assert read_summary(partition_of(due), planned.run_id)["outcome"] == "failed"
    due.simulator.trash_enabled = False
    aborted = due.reconcile(dry_run=False)
    assert read_summary(partition_of(due), aborted.run_id)["outcome"] == "aborted"
    with reading(partition_of(due)) as con:
        outcomes = dict(con.execute("SELECT run_id, outcome FROM runs").fetchall())
    assert (outcomes[planned.run_id], outcomes[aborted.run_id]) == ("failed", "aborted")


def test_lesson_39_history_tells_what_is_in_the_trash_from_what_only_carries_the_tag(due: World) -> None:
    done = due.apply(plan(due))
    due.simulator.change_asset(due.ids["2021/IMG_1.JPG"], deleted_at=None)
    credentials = load_credentials({"SERVER_URL": due.url, "SERVER_API_KEY": next(iter(due.simulator.keys))}, due.home)
    with PhotoServer(credentials.server_url, credentials.api_key) as server:
        (run,) = list_runs(server, detailed=True)
    assert (run.run_id, run.members, run.in_trash, run.not_in_trash) == (done.run_id, 3, 2, 1)


def test_lesson_45_pages_that_lose_and_repeat_assets_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch, version="2.7.5") as world:
        for number in range(40):
            world.backed_up(f"IMG_{number}.JPG", captured_at=world.now)
        world.change_settings(quarantineDays=0, pageSize=5)
        world.reconcile()
        names = {f"IMG_{number}.JPG" for number in (3, 17, 38)}
        world.remove(*names)
        assert world.apply(plan(world)).outcome == "trashed"
        assert world.trashed() == names


# Accounts and libraries


def test_lesson_47_two_accounts_at_one_address_see_nothing_of_each_other(
    due: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = due.apply(plan(due))
    mine = partition_of(due)
    before, journaled = tables(mine), statuses(mine)
    other = due.simulator.add_user("Bob", "bob@example.com")
    monkeypatch.setenv("SERVER_API_KEY", due.simulator.add_key(other, ("all",)))
    theirs = partition_of(due)
    assert theirs.path != mine.path and not journal.read(theirs).records
    due.register()
    due.simulator.add_asset(other, checksum=checksum(b"photo 2021/IMG_1.JPG"), file_name="IMG_1.JPG")
    summary = due.reconcile(dry_run=False)
    assert summary.dry_run and summary.counts["delete"] == summary.counts["held"] == 0
    with pytest.raises(DeletionSyncError):
        due.restore(done.run_id)
    with pytest.raises(UsageError):
        due.apply(done)
    assert (tables(mine), statuses(mine)) == (before, journaled)
    assert due.simulator.trashed(due.user_id) == {due.ids[name] for name in NAMES}


def test_lesson_93_a_copy_in_any_library_keeps_the_asset_and_an_absent_library_keeps_all(
    world: World, tmp_path: Path
) -> None:
    tablet = tmp_path / "tablet"
    tablet.mkdir()
    (tablet / "copy.JPG").write_bytes(b"photo 2021/IMG_1.JPG")
    world.register(tablet, "tablet")
    world.reconcile()
    delete_some(world)
    away = tablet.rename(tmp_path / "away")
    aborts(world, "permission", dry_run=False)
    away.rename(tablet)
    planned = plan(world)
    assert planned.counts["to_trash"] == 2
    world.apply(planned)
    assert world.trashed() == LIVE
    (tablet / "copy.JPG").unlink()
    (tablet / "another.JPG").write_bytes(b"another")
    world.apply(plan(world))
    assert world.trashed() == NAMES


def test_what_a_removed_library_alone_held_is_shown_and_never_trashed(world: World, tmp_path: Path) -> None:
    tablet = tmp_path / "tablet"
    tablet.mkdir()
    for name, content in (("only.JPG", b"only here"), ("both.JPG", b"photo 2021/IMG_1.JPG")):
        (tablet / name).write_bytes(content)
    world.ids["only"] = world.simulator.add_asset(world.user_id, checksum=checksum(b"only here"), file_name="only.JPG")
    world.register(tablet, "tablet")
    world.reconcile()
    with writing(partition_of(world)) as con:
        assert libraries.remove(con, "tablet", world.now.replace(tzinfo=None)) == 1
    for _ in range(2):
        world.pass_days(60)
        summary = world.reconcile(dry_run=False)
        assert decisions(world, summary.run_id) == {"only.JPG": ("review", "not_vouched_for")}
    assert not world.simulator.mutations()


# Invariants


def test_invariant_1_what_was_never_observed_is_never_trashed(due: World) -> None:
    strangers = {
        due.simulator.add_asset(due.user_id, checksum=checksum(f"stranger {n}".encode()), file_name="IMG_1.JPG")
        for n in range(3)
    }
    due.apply(plan(due))
    assert due.trashed() == NAMES and not strangers & due.simulator.trashed()


def test_invariant_2_no_request_forces(due: World) -> None:
    done = due.apply(plan(due))
    due.restore(done.run_id)
    bodies = [r.json for r in due.simulator.requests if isinstance(r.json, dict)]
    assert [body["force"] for body in bodies if "force" in body] == [False]
    assert not any(r.path in ("/api/trash/empty", "/api/trash/restore") for r in due.simulator.requests)


def test_invariant_3_the_original_of_an_edited_photo_stays_and_only_the_edit_between_goes(world: World) -> None:
    for edit in ("first edit", "second edit"):
        world.ids[edit] = world.simulator.add_asset(
            world.user_id, checksum=checksum(edit.encode()), file_name="IMG_1.JPG", captured_at=world.now
        )
        world.pass_days(1)
        world.write("2021/IMG_1.JPG", edit.encode())
        world.reconcile()
    world.pass_days(1)
    world.reconcile()
    world.apply(plan(world))
    assert world.trashed() == {"first edit"}


def test_invariant_6_both_halves_go_together_carry_one_tag_and_come_back_together(due: World) -> None:
    done = due.apply(plan(due))
    (delete,) = [r for r in due.simulator.mutations() if r.method == "DELETE"]
    assert {due.ids[name] for name in LIVE} <= set(delete.json["ids"])
    assert due.simulator.tag_members(tag_name(done.run_id)) == {due.ids[name] for name in NAMES}
    due.restore(done.run_id, asset_ids=(due.ids["2020/IMG_90.MOV"],))
    assert due.trashed() == {"2021/IMG_1.JPG"}


def test_invariant_8_a_dry_run_changes_nothing_on_the_server_and_no_clock_that_a_real_one_would_not(
    due: World, tmp_path: Path
) -> None:
    due.change_settings(quarantineDays=14)
    due.reconcile(dry_run=True)
    dates = confirmed(due)
    due.pass_days(1)
    due.reconcile(dry_run=False)
    assert confirmed(due) == dates and not due.simulator.mutations()


@pytest.mark.parametrize("version", ["2.7.5", "3.1.0"])
def test_invariant_10_trash_then_restore_is_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    with small_world(tmp_path, monkeypatch, version=version) as world:
        furnish(world)
        delete_some(world)

        def seen() -> dict[str, tuple[Any, ...]]:
            return {
                a.asset_id: (a.checksum, a.visibility, a.live_photo_video_id, a.deleted_at, a.is_favorite)
                for a in world.simulator.assets.values()
            }

        before = seen()
        done = world.apply(plan(world))
        assert seen() != before
        world.restore(done.run_id)
        assert seen() == before
        world.pass_days(90)
        assert world.reconcile(dry_run=False).outcome == "nothing to do" and seen() == before


def test_a_run_after_a_bad_one_does_what_the_bad_one_would_have(due: World) -> None:
    due.simulator.clock = lambda: due.now + timedelta(days=3)
    aborts(due, "clock", dry_run=False)
    due.simulator.clock = lambda: due.now
    all_is_well(due, NAMES)
