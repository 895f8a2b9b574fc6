"""`watch` with real files, a real process and the simulated server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cli import watch
from flows.watching import Waiting
from library.identity import MARKER_NAME
from state import journal
from state.db import reading
from state.lock import partition_lock
from state.runs import runs
from tasks.opening import find_partition
from tests.cli.program import ok, photos, ready_to_trash, run
from tests.cli.watching import watching
from tests.world import World


def runs_so_far() -> int:
    with reading(find_partition()[1]) as con:
        return len(runs(con, "true"))


def test_it_runs_at_the_start_and_again_when_a_photo_goes(world: World) -> None:
    photos(world)
    with watching() as it:
        assert "dry run: Nothing is to be trashed.  10 local, 10 matched" in it.until("dry run:")
        world.remove("2024/IMG_1.JPG")
        line = it.until("dry run:")
        assert "1 photo (1 asset) would be moved to the server's trash.  9 local" in line
        assert "deletion-sync trash" in line
        it.end()
    assert world.trashed() == set()
    assert runs_so_far() == 2


def test_a_folder_that_is_moved_away_is_noticed(world: World, tmp_path: Path) -> None:
    photos(world)
    world.backed_up("2023/IMG_A.JPG")
    with watching() as it:
        it.until("11 local")
        (world.folder / "2023").rename(tmp_path / "elsewhere")
        it.until("10 local")
        (tmp_path / "elsewhere").rename(world.folder / "2023 again")
        it.until("11 local")


def test_what_is_no_photo_starts_no_run_and_neither_does_the_run_itself(world: World) -> None:
    """Lesson 55."""
    photos(world)
    with watching() as it:
        it.until("dry run:")
        (world.folder / "2024" / "notes.txt").write_text("x")
        (world.folder / "2024" / ".hidden.jpg").write_bytes(b"x")
        (world.folder / "@eaDir").mkdir()
        marker = world.folder / MARKER_NAME.decode()
        marker.write_bytes(marker.read_bytes())
        (world.folder / "2024" / "notes.txt").unlink()
        assert it.quiet_for(1.5) == []
    assert runs_so_far() == 1


def test_with_apply_but_not_the_setting_it_ends_with_a_plan(world: World) -> None:
    ready_to_trash(world)
    with watching("--apply") as it:
        it.until("applyScheduledRuns is off")
        assert "would be moved" in it.until("real run:")
        it.end()
    assert world.trashed() == set()


def test_with_apply_and_the_setting_nothing_goes_before_a_person_confirmed_once(world: World) -> None:
    ready_to_trash(world)
    world.change_settings(applyScheduledRuns=True)
    with watching("--apply") as it:
        it.until("You have not confirmed a first deletion yet")
        assert "would be moved" in it.until("real run:")
        it.end()
    assert world.trashed() == set()
    ok("trash", "--yes")
    assert world.trashed() == {"2024/IMG_1.JPG"}
    with watching("--apply") as it:
        it.until("real run: Nothing is to be trashed.")
        world.remove("2024/IMG_2.JPG")
        line = it.until("real run:")
        assert "1 photo moved to the server's trash." in line and "restore --run-id" in line
        it.end()
    assert world.trashed() == {"2024/IMG_1.JPG", "2024/IMG_2.JPG"}


def test_a_first_run_that_is_asked_to_be_real_is_a_dry_run(world: World) -> None:
    photos(world)
    with watching("--apply") as it:
        assert "dry run" in it.until(" run:")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_soon(world: World, number: int, code: int) -> None:
    photos(world)
    with watching() as it:
        it.until("dry run:")
        ended, seconds = it.end(number)
        assert ended == code and seconds < 30  # where it is not heeded, it never ends


def test_a_server_that_is_down_is_told_once_and_survived(world: World) -> None:
    photos(world)
    with watching("--at-most", "0.02") as it:  # what failed is tried again after 1.2 s
        it.until("dry run:")
        world.simulator.faults.add("*", "/", drop_connection=True, times=None)
        world.remove("2024/IMG_1.JPG")
        it.until("No run:")
        assert it.quiet_for(4) == []
        world.simulator.faults.clear()
        assert "9 local" in it.until("dry run:")
    assert runs_so_far() == 2


def test_a_disk_that_goes_away_is_told_once_and_its_return_starts_a_run(world: World, tmp_path: Path) -> None:
    photos(world)
    with watching() as it:
        it.until("dry run:")
        world.folder.rename(tmp_path / "unmounted")
        it.until("“photos” is away")
        assert it.quiet_for(1.5) == []
        world.folder.mkdir()  # the empty mount point
        assert it.quiet_for(1.5) == []
        world.folder.rmdir()
        (tmp_path / "unmounted").rename(world.folder)
        it.until("“photos” is back")
        assert "10 local" in it.until("dry run:")
        world.remove("2024/IMG_1.JPG")
        assert "9 local" in it.until("dry run:")
    assert runs_so_far() == 3


def test_a_busy_partition_waits_for_the_next_change(world: World) -> None:
    photos(world)
    partition = find_partition()[1]
    with partition_lock(partition, "a test"), watching() as it:
        it.until("The next change is waited for")
        assert it.quiet_for(1) == []
    with watching() as it:
        it.until("dry run:")


def test_a_library_that_is_added_meanwhile_is_watched_too(world: World, tmp_path: Path) -> None:
    photos(world)
    second = tmp_path / "second"
    second.mkdir()
    with watching() as it:
        it.until("10 local")
        (second / "new.jpg").write_bytes(b"new")
        ok("library", "add", second)
        it.until("11 local")
        (second / "newer.jpg").write_bytes(b"newer")
        it.until("12 local")


def test_a_library_that_is_added_as_soon_as_a_run_has_ended_is_watched_too(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    watcher = watch._Watcher(find_partition()[1], Waiting(0.1, 60, 0), 0.1, False, "direct")
    begun: list[int] = []

    def run_of(it: watch._Watcher) -> None:
        begun.append(len(begun))
        it.waiting.began()
        if len(begun) == 1:
            ok("library", "add", second)
        else:
            it.stopping.event.set()
        it.waiting.ended(time.monotonic(), time.monotonic())

    monkeypatch.setattr(watch, "_run", run_of)
    guard = threading.Timer(90, watcher.stopping.event.set)
    guard.start()
    watch._follow(watcher)
    guard.cancel()
    assert begun == [0, 1]


def test_a_signal_in_a_batch_of_deletions_lets_the_batch_come_to_its_end(world: World) -> None:
    ready_to_trash(world)
    ok("trash", "--yes")
    world.change_settings(applyScheduledRuns=True)
    world.remove("2024/IMG_2.JPG")
    with watching("--apply") as it:

        def asked_to_end(method: str, path: str) -> None:
            if method == "DELETE":
                it.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)  # the signal is there before the answer

        world.simulator.faults.arrived = asked_to_end
        it.until("ends after this batch")
        it.until("Ended.")
        assert it.process.wait(60) == 0
    world.simulator.faults.arrived = None
    assert world.trashed() == {"2024/IMG_1.JPG", "2024/IMG_2.JPG"}
    statuses = {line.status for line in journal.read(find_partition()[1]).records if line.status != "planned"}
    assert statuses == {"tagged", "trashed", None} or statuses == {"tagged", "trashed"}


def test_where_the_system_watches_no_more_files_all_are_looked_at_instead(world: World) -> None:
    photos(world)
    limited = ("unshare", "-Ur", "sh", "-c", 'echo 1 > /proc/sys/user/max_inotify_watches && exec "$@"', "sh")
    if not shutil.which("unshare") or subprocess.run([*limited, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a user namespace of its own")
    with watching(before=limited) as it:
        assert "max_user_watches" in it.until("all files are looked at")
        it.until("dry run:")


def test_polling_sees_the_same(world: World) -> None:
    photos(world)
    with watching(env={"WATCHFILES_FORCE_POLLING": "1", "WATCHFILES_POLL_DELAY_MS": "100"}) as it:
        it.until("10 local")
        world.remove("2024/IMG_1.JPG")
        it.until("9 local")
        assert it.quiet_for(1) == []


def test_without_any_library_it_says_how_to_add_one(world: World) -> None:
    ok("library", "remove", "photos", "--yes")
    found = run("watch")
    assert found.code == 2
    assert "library add" in found.err


def test_it_refuses_an_at_most_that_is_shorter_than_the_settling(world: World) -> None:
    assert run("watch", "--settle", "60", "--at-most", "0.5").code == 2
