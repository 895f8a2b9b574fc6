"""Runs that could not read every file: nothing is deleted, everything is on record, and the next run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

from state import deferred, hash_cache
from state.home import Home
from tasks import clock
from tasks.hash import Limits, hash_listing
from tasks.hash_now import hash_now
from tests.crash.stage import partition_of, tables
from tests.kept import kept_fixture
from tests.library.worlds import REPOSITORY, library_of
from tests.world import World

COUNT = 6


def prepare(world: World) -> None:
    """A library with a first dry run behind it; then a photo was deleted, and would be trashed at once."""
    world.all_backed_up("IMG_{}.JPG", COUNT)
    world.change_settings(quarantineDays=0)
    assert world.reconcile().outcome == "nothing to do"
    world.remove("IMG_0.JPG")


made = kept_fixture(prepare)


def waiting(world: World) -> dict[str, dict[str, Any]]:
    rows = deferred.deferred(Home(world.home), ["photos"]).to_pylist()
    return {row["local_id"]: row for row in rows}


def nothing_was_concluded(world: World, summary: Any) -> None:
    assert (summary.outcome, summary.rail) == ("aborted", "incomplete")
    assert any("deletion-sync library hash-now" in line for line in summary.notes)
    assert world.trashed() == set()
    assert not tables(partition_of(world))["confirmed_deleted"]


def work_off(world: World) -> Any:
    return hash_now(Home(world.home), {"photos": library_of(world.folder, "photos")})


def test_lesson_29_a_file_over_the_size_limit_waits_and_hash_now_reads_it(world: World) -> None:
    world.change_settings(hashSizeLimitMB=1)
    world.write("large.MOV", os.urandom(1_000_001))
    world.write("small.MOV", os.urandom(1_000_000))
    summary = world.reconcile()
    nothing_was_concluded(world, summary)
    assert "1 file has no checksum yet (1 larger than hashSizeLimitMB)" in summary.notes[-1]
    assert {name: row["reason"] for name, row in waiting(world).items()} == {"large.MOV": "too_large"}
    done = work_off(world)
    assert (done.hashed, done.left, done.problems) == (1, 0, [])
    assert not waiting(world)
    assert world.reconcile().outcome == "planned"


def test_lesson_29_a_run_whose_time_is_up_deletes_nothing_and_the_next_goes_on(world: World) -> None:
    for number in range(20):
        world.write(f"new/{number}.JPG")
    begun = world.now
    ticks = iter(range(10**9))
    with clock.clock_of(lambda: begun + timedelta(seconds=next(ticks) * 10)):
        summary = world.reconcile(time_budget_seconds=1)
    nothing_was_concluded(world, summary)
    assert {row["reason"] for row in waiting(world).values()} == {"time_budget"}
    world.now = begun + timedelta(hours=1)
    assert world.reconcile().outcome == "planned"
    assert not waiting(world)


def test_a_setting_is_the_budget_of_a_run_that_names_none(world: World) -> None:
    world.change_settings(hashTimeBudgetSeconds=5)
    world.write("new.JPG")
    begun, ticks = world.now, iter(range(10**9))
    with clock.clock_of(lambda: begun + timedelta(seconds=next(ticks) * 10)):
        nothing_was_concluded(world, world.reconcile())


def test_lesson_28_a_file_that_fails_in_three_runs_is_left_alone_until_it_changes(world: World) -> None:
    world.write("gone.JPG")
    table = library_of(world.folder, "photos").enumerate().table
    home, libraries = Home(world.home), {"photos": library_of(world.folder, "photos")}
    (world.folder / "gone.JPG").unlink()
    for attempt in range(1, 4):
        _, facts = hash_listing(home, libraries, table, Limits(retries=3))
        assert (facts.hashed, facts.deferred) == (1, {"changed": 1})
        assert waiting(world)["gone.JPG"]["attempts"] == attempt
    local, facts = hash_listing(home, libraries, table, Limits(retries=3))
    assert (facts.hashed, facts.deferred) == (0, {"changed": 1})
    assert facts.problems
    assert local.num_rows == table.num_rows  # it is alive all the same
    assert hash_listing(home, libraries, table, Limits())[1].hashed == 1  # asked for, it is tried
    world.write("gone.JPG", b"other bytes")
    now = libraries["photos"].enumerate().table
    assert hash_listing(home, libraries, now, Limits(retries=3))[1].problems == []
    assert not waiting(world)


def test_what_is_listed_no_longer_waits_no_longer(world: World) -> None:
    world.change_settings(hashSizeLimitMB=1)
    world.write("large.MOV", os.urandom(1_000_001))
    world.reconcile()
    world.remove("large.MOV")
    assert world.reconcile().outcome == "planned"
    assert not waiting(world)


def test_a_run_killed_between_two_groups_keeps_what_it_had_recorded(world: World) -> None:
    for number in range(40):
        world.write(f"new/{number}.JPG")
    code = """
import os, signal, sys
from pathlib import Path
from state.home import Home
from tasks import hash
from tests.library.worlds import library_of
hash.REMEMBERED_TOGETHER = 1
home, library = Home(Path(sys.argv[1])), library_of(Path(sys.argv[2]), "photos")
listed = library.enumerate().table
for name in sys.argv[3:]:
    (Path(sys.argv[2]) / name).unlink()
groups = []
def dies(phase, done, total):
    groups.append(done)
    if len(groups) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
hash.progress.report = dies
sys.modules["library.hashing"]._BATCH_FILES = 5
hash.hash_listing(home, {"photos": library}, listed, hash.Limits())
"""
    killed = subprocess.run(
        [sys.executable, "-c", code, str(world.home), str(world.folder), *(f"new/{n}.JPG" for n in range(0, 40, 2))],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=False,
    )  # fmt: skip
    assert killed.returncode == -9
    kept = hash_cache.cached_checksums(Home(world.home)).num_rows - COUNT
    assert 0 < kept < 20
    assert 0 < len(waiting(world)) < 20
    assert {row["reason"] for row in waiting(world).values()} == {"changed"}
    assert world.reconcile().outcome == "planned"  # the next run goes on, and what is gone waits no longer
    assert not waiting(world)
