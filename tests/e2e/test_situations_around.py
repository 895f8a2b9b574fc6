"""Situations around the photos: names that only differ in case, clocks, albums, lost state, the server as a whole, and
a phone that frees up space. docs/situations.md names them."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from cli.main import run as command
from state.danger import reset_index
from state.db import reading
from state.home import Home
from tasks import clock
from tasks.files import read_json
from tests.crash.stage import client_of, partition_of
from tests.e2e.bad_days import confirmed
from tests.e2e.test_bad_days import OWN_MOUNTS, works
from tests.world import World

FIRST = "2021/IMG_1.JPG"


def hashed(world: World, run_id: str) -> int:
    """How many files a run had to read."""
    return int(read_json(partition_of(world).runs / run_id / "hash.json")["hashed"])


def buckets(world: World) -> tuple[int, int, int]:
    counts = world.reconcile().counts
    return counts["delete"], counts["held"], counts["review"]


# Names and times of files


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_on_a_file_system_that_ignores_case_a_photo_renamed_in_case_stays(
    world: World, tmp_path: Path, kind: str
) -> None:
    if os.geteuid() or not works(*OWN_MOUNTS):
        pytest.skip("mounting needs root, and a mount namespace of its own")
    disk, image = world.folder / "disk", tmp_path / "image"
    disk.mkdir()
    made = {
        "tmpfs": f"mount -t tmpfs -o casefold tmpfs '{disk}'",
        "ext4": f"truncate -s 16M '{image}' && mkfs.ext4 -q -O casefold '{image}' && mount -o loop '{image}' '{disk}'",
    }[kind]
    with client_of(world, *OWN_MOUNTS) as client:

        def shell(line: str) -> bool:
            return bool(client.run("shell", command=f"exec >/dev/null 2>&1; {line}")["status"] == 0)

        if not shell(f"{made} && mkdir '{disk}/a' && chattr +F '{disk}/a'"):
            pytest.skip(f"this kernel has no {kind} that ignores case")
        inside = Path(f"/proc/{client.process.pid}/root{disk}/a")
        world.backed_up("disk/a/IMG_1.JPG")
        shutil.move(world.folder / "disk/a/IMG_1.JPG", inside / "IMG_1.JPG")
        client.run("renew")
        assert client.run("reconcile")["rail"] is None
        assert (inside / "img_1.jpg").exists()
        (inside / "IMG_1.JPG").rename(inside / "img_1.jpg")
        inside.rename(inside.with_name("A"))
        for _ in range(2):
            world.pass_days(20)
            counts = client.run("reconcile")["counts"]
            assert (counts["held"], counts["delete"], counts["review"]) == (0, 0, 0)


def test_lesson_26_touched_photos_are_read_once_more_and_nothing_is_confirmed_or_retired(world: World) -> None:
    world.remove(FIRST)
    world.reconcile()
    dates = confirmed(world)
    photos = [path for path in world.folder.rglob("*.*") if path.suffix in (".JPG", ".HEIC", ".MOV")]
    for path in photos:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    world.pass_days(1)
    assert hashed(world, world.reconcile().run_id) == len(photos) == 9
    assert hashed(world, world.reconcile().run_id) == 0
    with reading(partition_of(world)) as con:
        assert con.execute("FROM retired").fetchall() == []
    assert confirmed(world) == dates


def test_a_library_that_was_copied_to_a_new_disk_is_read_again_and_stays(world: World) -> None:
    old = world.folder.rename(world.folder.with_name("old disk"))
    shutil.copytree(old, world.folder)
    again = world.reconcile()
    assert (again.rail, hashed(world, again.run_id)) == (None, 10)
    world.pass_days(1)
    assert buckets(world) == (0, 0, 0)


# Clocks


def test_a_clock_within_a_day_of_the_servers_moves_the_end_of_a_quarantine_by_no_more(world: World) -> None:
    world.change_settings(quarantineDays=14)
    world.remove(FIRST)
    world.reconcile()
    world.pass_days(13)
    with clock.clock_of(lambda: world.now + timedelta(hours=23)):
        assert buckets(world) == (0, 1, 0)
    with clock.clock_of(lambda: world.now - timedelta(hours=23)):
        assert buckets(world) == (0, 1, 0)
    world.pass_days(0.9)
    with clock.clock_of(lambda: world.now + timedelta(hours=23)):
        assert buckets(world) == (1, 0, 0)


# Many at once


def test_lesson_89_a_phone_that_freed_up_space_is_told_and_one_command_keeps_all(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [f"2019/{number}.JPG" for number in range(100)]
    for name in old:
        world.backed_up(name)
    world.all_backed_up("2026/{}.JPG", 120)
    world.change_settings(quarantineDays=14)
    world.reconcile()
    world.remove(*old)
    assert world.reconcile().counts["held"] == 100
    assert command(["status"]) == 0 and "100 deletions were confirmed at once" in capsys.readouterr().out
    world.pass_days(15)
    stopped = world.reconcile(dry_run=False)
    assert (stopped.outcome, stopped.rail) == ("aborted", "threshold")
    assert command(["exclude", "add", "--mass-offload"]) == 0
    assert world.reconcile(dry_run=False).outcome == "nothing to do" and not world.trashed()


# Albums


def test_a_photo_out_of_the_selected_albums_is_out_of_reach_also_when_it_is_deleted_then(world: World) -> None:
    world.change_settings(indexingScope={"selectedAlbums": ["photos/2021"]})
    world.reconcile()
    (world.folder / FIRST).rename(world.folder / "2020/moved.JPG")
    assert buckets(world) == (0, 0, 0)
    world.remove("2020/moved.JPG")
    world.reconcile()
    world.pass_days(1)
    assert buckets(world) == (0, 0, 0)


def test_a_selected_album_that_was_deleted_with_its_photos_still_counts(world: World) -> None:
    world.change_settings(indexingScope={"selectedAlbums": ["photos/2021"]}, quarantineDays=14)
    world.reconcile()
    shutil.rmtree(world.folder / "2021")
    assert buckets(world) == (0, 4, 0)


def test_lesson_78_an_empty_scope_lets_nothing_go(world: World) -> None:
    world.change_settings(indexingScope={"selectedAlbums": []})
    world.remove(FIRST)
    world.reconcile()
    world.pass_days(1)
    assert buckets(world) == (0, 0, 0)


# What is remembered


def test_a_lost_hash_cache_costs_a_reading_and_no_photo(world: World) -> None:
    world.change_settings(quarantineDays=14)
    world.remove(FIRST)
    world.reconcile()
    dates = confirmed(world)
    Home.locate(os.environ).hash_cache.unlink()
    world.pass_days(1)
    again = world.reconcile()
    assert (hashed(world, again.run_id), again.counts["held"], again.counts["delete"]) == (9, 1, 0)
    assert confirmed(world) == dates


def test_after_a_reset_what_was_deleted_before_is_not_known_and_stays(world: World) -> None:
    world.remove(FIRST)
    world.reconcile()
    reset_index(Home.locate(os.environ), partition_of(world), clock.naive_now())
    for _ in range(3):
        world.pass_days(20)
        assert buckets(world) == (0, 0, 0)


# The server


def test_a_server_that_shows_nothing_any_more_stops_the_run(due: World) -> None:
    for asset_id in list(due.simulator.assets):
        due.simulator.purge(asset_id)
    stopped = due.reconcile(dry_run=False)
    assert (stopped.outcome, stopped.rail) == ("aborted", "empty_server"), stopped
