"""Situations in which a library cannot be read whole, and a checksums file that lost lines: docs/situations.md."""

from __future__ import annotations

import itertools
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.main import run as command
from library.errors import ChecksumsFileError
from library.identity import register_folder
from tasks import clock
from tests.crash.stage import client_of
from tests.e2e.bad_days import STAYING, aborts, all_is_well, confirmed, nothing_changes
from tests.e2e.test_bad_days import OWN_MOUNTS, WITHOUT_OVERRIDE, works
from tests.world import World, checksum

NAMES = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}


def photos(world: World) -> list[str]:
    return sorted(str(path.relative_to(world.folder)) for path in world.folder.rglob("*.JPG"))


# Disks and folders


def test_lesson_85_the_disk_of_another_library_in_its_place_is_not_a_deletion(due: World) -> None:
    away = due.folder.rename(due.folder.with_name("away"))
    due.folder.mkdir()
    register_folder(due.folder)
    (due.folder / "another.JPG").write_bytes(b"a photo of the other disk")
    assert "another library" in aborts(due, "permission").notes[0]
    shutil.rmtree(due.folder)
    away.rename(due.folder)
    all_is_well(due, NAMES)


def test_lesson_85_a_lost_marker_stops_the_run_although_the_photos_are_there(due: World) -> None:
    marker = due.folder / ".deletion-sync-library"
    kept = marker.read_bytes()
    marker.unlink()
    assert "marker" in aborts(due, "permission").notes[0]
    marker.write_bytes(kept)
    all_is_well(due, NAMES)


def test_lesson_85_a_folder_replaced_by_a_link_to_another_disk_is_not_a_deletion(due: World, tmp_path: Path) -> None:
    moved = (due.folder / "2020").rename(tmp_path / "big disk")
    (due.folder / "2020").symlink_to(moved)
    assert "2020: a link" in aborts(due, "permission").notes[0]
    moved.rename(tmp_path / "unplugged")
    aborts(due, "permission")
    (tmp_path / "unplugged").rename(moved)
    due.register(moved, "big disk")
    assert command(["library", "renew", "photos", "--yes"]) == 0
    due.pass_days(1)
    found = due.reconcile()
    assert (found.rail, found.counts["delete"], found.counts["review"]) == (None, 0, 2)  # what was deleted before


@pytest.mark.parametrize("name", [".IMG_0.JPG.icloud", "IMG_0.JPG.nextcloud", "IMG_0.JPG.owncloud"])
def test_lesson_86_a_photo_that_became_a_placeholder_of_a_cloud_drive_is_not_a_deletion(due: World, name: str) -> None:
    photo, placeholder = due.folder / "2020/IMG_0.JPG", due.folder / "2020" / name
    photo.unlink()
    placeholder.write_bytes(b" ")  # another file, of one byte
    assert f"{name}: its photo is not on this computer" in aborts(due, "permission").notes[0]
    placeholder.unlink()
    due.write("2020/IMG_0.JPG")
    all_is_well(due, NAMES)


# Files


def test_a_new_file_that_cannot_be_read_stops_the_run_and_a_known_one_does_not(due: World) -> None:
    prefix = () if os.geteuid() else WITHOUT_OVERRIDE
    if prefix and not works(*prefix):
        pytest.skip("root reads everything, and no process may give that up here")
    (due.folder / "2020/IMG_0.JPG").chmod(0)  # read before: its checksum is known
    with client_of(due, *prefix) as client:
        assert client.run("reconcile")["outcome"] == "planned"
        due.write("2020/NEW.JPG", b"new")
        (due.folder / "2020/NEW.JPG").chmod(0)
        with nothing_changes(due):
            summary = client.run("reconcile")
    assert (summary["outcome"], summary["rail"]) == ("aborted", "incomplete"), summary
    assert "2020/NEW.JPG: it cannot be read: Permission denied" in summary["notes"][0]
    (due.folder / "2020/NEW.JPG").chmod(0o644)
    due.pass_days(1)
    all_is_well(due, NAMES)


def test_an_input_output_error_stops_the_run_and_names_the_file(due: World) -> None:
    """The error is the kernel's own: it gives it to whoever reads a process's memory at an address where none is."""
    if os.geteuid() or not works(*OWN_MOUNTS):
        pytest.skip("a file that gives input/output errors needs root, and a mount namespace of its own")
    due.write("2020/BAD.JPG", b"on a bad sector")
    with client_of(due, *OWN_MOUNTS) as client:
        bad = due.folder / "2020/BAD.JPG"
        if client.run("shell", command=f"mount --bind /proc/{os.getpid()}/mem '{bad}'")["status"]:
            pytest.skip("mounting is not allowed here")
        with nothing_changes(due):
            summary = client.run("reconcile")
    assert (summary["outcome"], summary["rail"]) == ("aborted", "incomplete"), summary
    assert "2020/BAD.JPG: it cannot be read: Input/output error" in summary["notes"][0]
    all_is_well(due, NAMES)


def test_lesson_84_a_damaged_disk_that_hides_photos_without_an_error_starts_a_quarantine_at_most(
    world: World, tmp_path: Path
) -> None:
    """A file system may pass over a folder's damaged block and show the rest: that looks just like deletions."""
    if os.geteuid() or not works(*OWN_MOUNTS) or shutil.which("mkfs.ext4") is None:
        pytest.skip("damaging a file system needs root, mkfs.ext4 and a mount namespace of its own")
    disk, image = world.folder / "disk", tmp_path / "image"
    disk.mkdir()
    world.change_settings(quarantineDays=14)
    with client_of(world, *OWN_MOUNTS) as client:

        def shell(line: str) -> bool:
            return bool(client.run("shell", command=f"exec >/dev/null 2>&1; {line}")["status"] == 0)

        mount = f"mount -o loop,errors=continue '{image}' '{disk}'"
        make = f"mkfs.ext4 -q -b 1024 -O metadata_csum,^has_journal,^dir_index '{image}'"
        if not shell(f"truncate -s 8M '{image}' && {make} && {mount}"):
            pytest.skip("a file system in a file cannot be mounted here")
        inside = Path(f"/proc/{client.process.pid}/root{disk}")
        for number in range(30):
            name = f"IMG_{number:03}_{'long' * 20}.JPG"
            world.backed_up(f"disk/{name}", f"on the disk {number}".encode())
            shutil.move(disk / name, inside / name)
        client.run("renew")
        assert client.run("reconcile")["counts"]["local"] == 40
        assert shell(f"umount '{disk}'")
        data = image.read_bytes()
        place = data.rindex(b"IMG_029")  # in the last block of the folder
        image.write_bytes(data[:place] + b"bad" + data[place + 3 :])
        assert shell(mount)
        summary = client.run("reconcile", dry_run=False)
        assert shell(f"umount '{disk}'")
    lost = 40 - summary["counts"]["local"]
    assert 0 < lost < 20 and (summary["counts"]["held"], summary["counts"]["delete"]) == (lost, 0), summary
    assert not world.trashed()


# Files that wait for their checksum


def test_lesson_29_a_file_that_is_too_large_is_deferred_and_nothing_is_deleted_meanwhile(
    due: World, capsys: pytest.CaptureFixture[str]
) -> None:
    due.write("2020/LARGE.MOV", bytes(1_000_001))
    due.change_settings(hashSizeLimitMB=1)
    before = confirmed(due)
    stopped = due.reconcile()
    assert (stopped.outcome, stopped.rail) == ("aborted", "incomplete"), stopped
    assert "larger than hashSizeLimitMB" in stopped.notes[0] and confirmed(due) == before
    assert command(["library", "deferred"]) == 0 and "LARGE.MOV" in capsys.readouterr().out
    assert command(["library", "hash-now"]) == 0
    all_is_well(due, NAMES)


def test_lesson_29_a_used_up_time_budget_defers_the_rest_and_deletes_nothing(due: World) -> None:
    for number in range(4):
        due.write(f"2020/NEW_{number}.JPG")
    before, ticks = confirmed(due), itertools.count()
    with clock.clock_of(lambda: due.now + timedelta(seconds=next(ticks))):
        stopped = due.reconcile(time_budget_seconds=1)
    assert (stopped.outcome, stopped.rail) == ("aborted", "incomplete"), stopped
    assert "the time for hashing was used up" in stopped.notes[0] and confirmed(due) == before
    all_is_well(due, NAMES)


# Half a library


def test_lesson_8_a_library_exported_anew_asks_a_person_and_then_shows_every_photo(world: World) -> None:
    world.change_settings(quarantineDays=14, thresholdPercent=100)
    names = photos(world)
    for name in names:
        taken = (world.folder / name).stat().st_mtime
        world.remove(name)
        world.write(f"export/{Path(name).name}", f"exported {name}".encode())
        os.utime(world.folder / f"export/{Path(name).name}", (taken, taken))
        moment = datetime.fromtimestamp(taken, UTC)
        world.simulator.change_asset(world.ids[name], captured_at=moment, local_captured_at=moment)
    stopped = world.reconcile()
    assert stopped.rail == "collapse" and "lacks 8 of the 9" in stopped.notes[0] and not confirmed(world)
    assert command(["library", "accept", "photos", "--yes"]) == 0
    assert world.reconcile().counts["held"] == STAYING
    world.pass_days(15)
    shown = world.reconcile(dry_run=False)
    assert (shown.counts["review"], shown.counts["delete"]) == (STAYING, 0), shown


# A checksums file


def listing(world: World, tmp_path: Path, names: list[str]) -> Path:
    path = tmp_path / "phone.txt"
    path.write_text("".join(f"{checksum(f'photo {name}'.encode())}\n" for name in names))
    return path


@pytest.fixture
def listed(world: World, tmp_path: Path) -> list[str]:
    """Photos that a phone's checksums file lists, and no folder here holds; a first run saw them."""
    names = [f"phone/{number}.JPG" for number in range(20)]
    for name in names:
        world.backed_up(name)
        world.remove(name)
    world.change_settings(quarantineDays=14)
    world.reconcile(checksums_file=listing(world, tmp_path, names))
    return names


def test_a_line_that_is_missing_is_unconfirmed_and_goes_or_waits_by_the_strictness(
    world: World, listed: list[str], tmp_path: Path
) -> None:
    path = listing(world, tmp_path, listed[1:])
    found = world.reconcile(checksums_file=path)
    assert (found.counts["delete"], found.counts["review"]) == (1, 0), found
    world.change_settings(deletionStrictness="strict")
    found = world.reconcile(checksums_file=path)
    assert (found.counts["delete"], found.counts["review"]) == (0, 1)


def test_lesson_16_an_empty_checksums_file_stops_the_run(world: World, listed: list[str], tmp_path: Path) -> None:
    aborts(world, "empty_local", checksums_file=listing(world, tmp_path, []))


def test_lesson_87_half_a_checksums_file_trips_the_threshold_and_a_line_cut_in_two_is_refused(
    world: World, listed: list[str], tmp_path: Path
) -> None:
    path = listing(world, tmp_path, listed[:10])
    stopped = world.reconcile(checksums_file=path, dry_run=False)
    assert (stopped.outcome, stopped.rail) == ("aborted", "threshold"), stopped
    path.write_text(path.read_text()[:-9])
    with nothing_changes(world), pytest.raises(ChecksumsFileError, match="Line 10"):
        world.reconcile(checksums_file=path)


def test_a_checksums_file_that_is_not_there_stops_the_run(world: World, listed: list[str], tmp_path: Path) -> None:
    aborts(world, "permission", checksums_file=tmp_path / "another.txt")
