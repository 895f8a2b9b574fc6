"""Each fact is told once per channel, and again only after it was over: real runs, and a desktop that keeps notes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from engine.errors import DeletionSyncError, RailTripped
from flows import direct, noteworthy, notices
from flows.pipeline import ReconcileRequest
from flows.watching import reconciled
from server.errors import KeyRefused, ServerUnreachable
from server.session import Session
from state.db import reading
from tasks import incremental
from tasks.opening import find_partition
from tasks.overview import MASS_OFFLOAD
from tests.flows.noticing import Desktop, desktop, nobody
from tests.world import World, small_world

RAIL, PLAN, DOWN, MANY, TRASH, FAILED, SIGNED_OUT = (
    "A safety rail stopped a run", "A plan waits for your approval", "The photo server does not answer",
    "Many photos were deleted at once", "The server's trash is not safe to use", "A run failed",
    "The photo server ended the session",
)  # fmt: skip


@dataclass
class Scene:
    world: World
    shown: Desktop
    seen: int = 0

    def run(self, **request: Any) -> str:
        """One run as `watch` does it; its outcome, or the name of its error."""
        try:
            return reconciled(direct.call, ReconcileRequest(**request)).outcome
        except DeletionSyncError as error:
            return type(error).__name__

    def silent(self) -> list[str]:
        """The end of a run that the server did not answer; what it told of."""
        notices.tell("default", ServerUnreachable("No answer."), dry_run=True)
        return self.new()

    def new(self) -> list[str]:
        """The titles that came since the last look."""
        calls, self.seen = self.shown.calls[self.seen :], len(self.shown.calls)
        return [title for _, _, title, _, _ in calls]

    @property
    def bodies(self) -> list[str]:
        return [body for _, _, _, body, _ in self.shown.calls]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Twenty photos on both sides, and a desktop."""
    nobody(monkeypatch)
    shown = desktop(tmp_path, monkeypatch)
    with small_world(tmp_path, monkeypatch) as world:
        world.all_backed_up("IMG_{}.JPG", 20)
        world.change_settings(quarantineDays=0)
        yield Scene(world, shown)


def gone(world: World) -> list[Path]:
    """Move every photo away; where they are now."""
    away = world.folder.with_name("away")
    away.mkdir(exist_ok=True)
    return [path.rename(away / path.name) for path in sorted(world.folder.iterdir()) if path.suffix == ".JPG"]


def back(world: World) -> None:
    for path in world.folder.with_name("away").iterdir():
        path.rename(world.folder / path.name)


def test_a_rail_is_told_once_and_again_after_a_run_got_through(scene: Scene) -> None:
    assert scene.run() == "nothing to do" and scene.new() == []
    gone(scene.world)
    assert scene.run() == "aborted" and scene.new() == [RAIL]
    scene.world.pass_days(1)
    assert scene.run() == "aborted" and scene.new() == []
    back(scene.world)
    scene.world.pass_days(1)
    assert scene.run() == "nothing to do" and scene.new() == []
    gone(scene.world)
    assert scene.run() == "aborted" and scene.new() == [RAIL]


def test_a_rail_is_told_again_also_when_a_run_by_hand_got_through_in_between(scene: Scene) -> None:
    scene.run()
    gone(scene.world)
    assert scene.run() == "aborted" and scene.new() == [RAIL]
    back(scene.world)
    scene.world.pass_days(1)
    assert scene.world.reconcile().outcome == "nothing to do"
    gone(scene.world)
    scene.world.pass_days(1)
    assert scene.run() == "aborted" and scene.new() == [RAIL]


def test_another_rail_is_another_fact(scene: Scene) -> None:
    scene.run()
    photos = sorted(scene.world.folder.iterdir())
    gone(scene.world)
    assert scene.run() == "aborted" and scene.new() == [RAIL]
    back(scene.world)
    scene.world.remove(*(path.name for path in photos if path.name < "IMG_16"))
    assert scene.run() == "aborted" and scene.new() == [RAIL]


def test_a_waiting_plan_is_told_once_by_its_digest(scene: Scene) -> None:
    scene.run()
    scene.world.remove("IMG_1.JPG")
    assert scene.run() == "planned" and scene.new() == [PLAN]
    assert scene.run(dry_run=False) == "planned" and scene.new() == []
    scene.world.remove("IMG_2.JPG")
    assert scene.run() == "planned"
    assert [body.split(" wait")[0] for body in scene.bodies] == ["1 deleted photo", "2 deleted photos"]


def test_a_plan_that_a_scheduled_run_carries_out_by_itself_is_not_told(scene: Scene) -> None:
    scene.run()
    scene.world.remove("IMG_1.JPG")
    planned = scene.world.reconcile()
    scene.world.apply(planned)
    scene.world.change_settings(applyScheduledRuns=True)
    scene.world.remove("IMG_2.JPG")
    assert scene.run() == "planned" and scene.new() == []
    assert scene.run(dry_run=False) == "trashed" and scene.new() == []


def test_a_mass_offload_is_told_once(scene: Scene) -> None:
    for number in range(200):
        scene.world.backed_up(f"OLD_{number}.JPG")
    scene.world.change_settings(quarantineDays=30)
    scene.run()
    scene.world.remove(*(f"OLD_{number}.JPG" for number in range(MASS_OFFLOAD)))
    assert scene.run() == "nothing to do" and scene.new() == [MANY]
    scene.world.pass_days(1)
    assert scene.run() == "nothing to do" and scene.new() == []


def test_a_silent_server_is_told_after_a_day_and_an_answer_ends_it(scene: Scene) -> None:
    scene.run()
    for _ in range(2):
        scene.world.pass_days(1)
        assert scene.silent() == []
        scene.world.now += timedelta(hours=23)
        assert scene.silent() == []
        scene.world.now += timedelta(hours=1)
        assert scene.silent() == [DOWN]
        scene.world.pass_days(1)
        assert scene.silent() == []
        assert scene.run() == "nothing to do" and scene.new() == []


def test_a_real_run_against_a_silent_server_tells_the_same(scene: Scene) -> None:
    scene.run()
    scene.silent()
    scene.world.pass_days(2)
    scene.world.simulator.faults.add("*", "/", drop_connection=True, times=None)
    assert scene.run() == "ServerUnreachable" and scene.new() == [DOWN]
    assert "2026-03-01 12:00 UTC" in scene.bodies[0]


def test_a_refusal_is_an_answer(scene: Scene) -> None:
    scene.run()
    scene.silent()
    scene.world.pass_days(1)
    notices.tell("default", KeyRefused("No."), dry_run=True)
    assert scene.new() == [FAILED]
    scene.world.pass_days(1)
    assert scene.silent() == []


def test_a_run_by_hand_that_found_the_server_well_begins_the_day_anew(scene: Scene) -> None:
    scene.run()
    scene.silent()
    scene.world.pass_days(1)
    scene.world.reconcile()
    scene.world.pass_days(1)
    assert scene.silent() == []


def test_a_trash_that_keeps_too_little_is_told_by_dry_and_real_runs_together_once(scene: Scene) -> None:
    scene.world.simulator.trash_days = 3
    assert scene.run() == "nothing to do" and scene.new() == [TRASH]
    assert scene.run(dry_run=False) == "aborted" and scene.new() == []
    scene.world.simulator.trash_days = 2
    assert scene.run() == "nothing to do" and scene.new() == [TRASH]
    scene.world.simulator.trash_days = 30
    assert scene.run() == "nothing to do" and scene.new() == []
    scene.world.simulator.trash_enabled = False
    assert scene.run(dry_run=False) == "aborted" and scene.new() == [TRASH]


def test_lesson_35_an_ended_session_is_told_once_until_somebody_signs_in(scene: Scene) -> None:
    world = scene.world

    def signed_in() -> None:
        token = SecretStr(world.simulator.add_session(world.user_id))
        incremental.sign_in(find_partition()[1], Session(token, world.user_id, "alice@example.com", "Alice"))
        assert scene.run() == "nothing to do" and scene.new() == []

    scene.run()
    for _ in range(2):
        signed_in()
        world.simulator.revoke_sessions(world.user_id)
        assert scene.run() == "nothing to do" and scene.new() == [SIGNED_OUT]
        assert scene.run() == "nothing to do" and scene.new() == []


def test_a_failed_run_is_told_once_and_a_dry_run_that_went_well_does_not_end_it(scene: Scene) -> None:
    scene.run()
    key = next(iter(scene.world.simulator.keys))
    known = scene.world.simulator.keys[key]
    scene.world.simulator.keys[key] = replace(known, permissions=("asset.read", "user.read"))
    assert scene.run(dry_run=False) == "UsageError" and scene.new() == [FAILED]
    assert scene.run() == "nothing to do" and scene.new() == []
    assert scene.run(dry_run=False) == "UsageError" and scene.new() == []
    scene.world.simulator.keys[key] = known
    assert scene.run(dry_run=False) == "nothing to do" and scene.new() == []
    scene.world.simulator.revoke_key(key)
    assert scene.run(dry_run=False) == "KeyRefused" and scene.new() == [FAILED]


def test_a_busy_partition_is_not_told(scene: Scene) -> None:
    from state.lock import partition_lock

    scene.run()
    with partition_lock(find_partition()[1], "test"):
        assert scene.run() == "PartitionBusy"
    assert scene.new() == []


def test_two_runs_that_end_at_once_tell_once(scene: Scene) -> None:
    scene.run()
    gone(scene.world)
    summary = scene.world.reconcile()
    both = threading.Barrier(2)

    def end() -> None:
        both.wait()
        notices.tell("default", summary, dry_run=True)

    threads = [threading.Thread(target=end) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scene.new() == [RAIL]


def test_what_is_told_holds_no_file_no_folder_no_address_and_no_account(scene: Scene) -> None:
    world = scene.world
    scene.run()
    world.remove("IMG_1.JPG")
    scene.run()
    hidden = world.folder.with_name("hidden")
    world.folder.rename(hidden)
    assert scene.run() == "aborted"  # permission, which names the folder
    hidden.rename(world.folder)
    scene.silent()
    world.pass_days(2)
    scene.silent()
    assert len(scene.shown.calls) == 3
    said = str(scene.shown.calls)
    for private in ("IMG_", ".JPG", str(world.folder), "photos”", world.url, world.user_id, "alice@example.com"):
        assert private not in said, private


def test_a_notice_that_cannot_be_sent_or_written_down_fails_no_run(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    _, partition = find_partition()
    (partition.path / notices.LOCK).mkdir()
    scene.run()
    gone(scene.world)
    assert scene.run() == "aborted" and scene.new() == []
    assert "could not be notified" in caplog.text


def test_an_account_that_the_server_never_named_is_not_told_of_and_no_database_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody(monkeypatch)
    shown = desktop(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELETION_SYNC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SERVER_API_KEY", "x")
    monkeypatch.setenv("SERVER_URL", "http://127.0.0.1:1")
    notices.tell("default", KeyRefused("No."), dry_run=True)
    assert shown.calls == [] and list(tmp_path.rglob("*.duckdb")) == []


def test_the_names_of_what_is_remembered_are_frozen(scene: Scene) -> None:
    scene.run()
    gone(scene.world)
    scene.run()
    scene.silent()
    with reading(find_partition()[1]) as con:
        facts = dict(con.execute("SELECT key, value FROM meta").fetchall())
    assert facts["noticed:desktop"].startswith('["rail ') and "no_answer_since" in facts
    assert noteworthy.KEYS == (
        "rail", "plan", "mass_offload", "server_down", "session_expired", "retention", "failed",
    )  # fmt: skip


def test_the_privacy_page_lists_every_event() -> None:
    page = (Path(__file__).parents[2] / "docs/privacy.md").read_text()
    assert tuple(re.findall(r"^\| `deletion-sync\.(\w+)` \|", page, re.MULTILINE)) == noteworthy.KEYS


def test_every_rail_is_told_in_words_without_what_was_found(scene: Scene) -> None:
    from engine.policy import Loss
    from engine.rails import QUIET, RAILS

    scene.run()
    tripped = replace(
        QUIET, access_problems=("/secret/place",), inventory_problems=("/secret/place",), local_count=0,
        losses=(Loss("/secret/place", 100, 99, 0),), clock_skew_seconds=1e6, server_count=0, last_server_count=9,
        trash_enabled=False, to_trash=9, matched=9, threshold_percent=1,
    )  # fmt: skip
    for rail in RAILS:
        verdict = rail(tripped)
        assert verdict is not None
        notice = noteworthy.of_end(*find_partition(), _tripped(verdict), dry_run=False).notices[0]
        assert "/secret" not in notice.title + notice.body + notice.mark, rail
        assert notice.body.count(".") >= 2, "what happened, and what to do"


def _tripped(verdict: Any) -> Exception:
    return RailTripped(verdict.rail, verdict.what, verdict.next_step)
