"""Bad days of folders, disks and clocks: one clear word, no deletion, nothing forgotten, and the next run is fine."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engine.errors import ConfirmationNeeded, DeletionSyncError, RailTripped, SettingsError
from state import journal
from state.errors import StateCorrupt, StateUnwritable
from tasks import clock, progress
from tests.crash.stage import client_of, partition_of, tables
from tests.e2e.bad_days import aborts, all_is_well, confirmed, delete_some, furnish, nothing_changes, plan
from tests.kept import Made, kept_fixture
from tests.world import World, small_world

WITHOUT_OVERRIDE = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
OWN_MOUNTS = ("unshare", "-m")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        yield found


furnished = kept_fixture(furnish)


@pytest.fixture
def due(furnished: Made) -> World:
    """A world in which a photo and a Live Photo were deleted, and no run has seen it yet."""
    found = furnished()
    delete_some(found)
    return found


NAMES = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}


def works(*prefix: str) -> bool:
    """Whether a process may be started like this here."""
    if shutil.which(prefix[0]) is None:
        return False
    return subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0


# Folders


def test_a_folder_that_cannot_be_read_aborts_and_names_it(due: World) -> None:
    prefix = () if os.geteuid() else WITHOUT_OVERRIDE
    if prefix and not works(*prefix):
        pytest.skip("root reads everything, and no process may give that up here")
    locked = due.folder / "2020"
    locked.chmod(0)
    try:
        with client_of(due, *prefix) as client, nothing_changes(due):
            summary = client.run("reconcile")
    finally:
        locked.chmod(0o755)
    assert (summary["outcome"], summary["rail"]) == ("aborted", "permission"), summary
    assert str(locked) in summary["notes"][0]
    all_is_well(due, NAMES)


def test_lesson_85_a_folder_that_was_renamed_away_is_not_a_deletion(due: World) -> None:
    away = due.folder.with_name("elsewhere")
    due.folder.rename(away)
    assert str(due.folder) in aborts(due, "permission").notes[0]
    away.rename(due.folder)
    all_is_well(due, NAMES)


def test_lesson_85_an_empty_folder_in_place_of_the_library_is_not_a_deletion(due: World) -> None:
    away = due.folder.with_name("elsewhere")
    due.folder.rename(away)
    due.folder.mkdir()
    assert "marker" in aborts(due, "permission").notes[0]
    due.folder.rmdir()
    away.rename(due.folder)
    all_is_well(due, NAMES)


def test_lesson_85_a_disk_inside_the_library_that_is_not_mounted_is_not_a_deletion(world: World) -> None:
    if os.geteuid() or not works(*OWN_MOUNTS):
        pytest.skip("mounting needs root, and a mount namespace of its own")
    disk = world.folder / "disk"
    disk.mkdir()
    with client_of(world, *OWN_MOUNTS) as client:
        if client.run("shell", command=f"mount -t tmpfs tmpfs '{disk}'")["status"]:
            pytest.skip("mounting is not allowed here")
        for number in range(6):
            world.backed_up(f"IMG_{number}.JPG")
            world.backed_up(f"disk/IMG_{number}.JPG", f"on the disk {number}".encode())
        inside = Path(f"/proc/{client.process.pid}/root{disk}")
        for path in sorted(disk.iterdir()):
            shutil.copy2(path, inside / path.name)
            path.unlink()
        world.change_settings(quarantineDays=0)
        assert client.run("renew")["renewed"] == 1
        first = client.run("reconcile")
        assert (first["outcome"], first["counts"]["local"]) == ("nothing to do", 12), first
        assert client.run("shell", command=f"umount '{disk}'")["status"] == 0
        with nothing_changes(world):
            summary = client.run("reconcile")
    assert (summary["outcome"], summary["rail"]) == ("aborted", "permission"), summary
    assert str(disk) in summary["notes"][0]


@pytest.mark.parametrize("change", ["vanishes", "changes"])
def test_a_file_that_moves_while_it_is_hashed_makes_the_inventory_incomplete(due: World, change: str) -> None:
    due.write("2020/NEW.JPG", b"new")
    path = due.folder / "2020/NEW.JPG"

    def meddle(phase: str, done: int, total: int | None) -> None:
        if phase == "enumerate" and done == total and path.exists():
            path.unlink()
            if change == "changes":
                path.write_bytes(b"other bytes")

    before = confirmed(due)
    with progress.shown_by(meddle):
        summary = due.reconcile()
    assert (summary.outcome, summary.rail) == ("aborted", "incomplete"), summary
    assert "NEW.JPG" in summary.notes[0] and confirmed(due) == before and not due.simulator.mutations()
    all_is_well(due, NAMES)


def test_a_name_that_is_not_utf8_goes_the_whole_way_and_back(world: World) -> None:
    furnish(world)
    name = os.fsdecode(b"2020/\xff\xfe.JPG")
    world.backed_up(name, b"a name of old", file_name="old.JPG")
    assert world.reconcile().counts["local"] == 11
    world.remove(name)
    done = world.apply(plan(world))
    assert world.trashed() == {name}
    assert world.restore(done.run_id).outcome == "restored" and not world.trashed()


# Disks and files of ours


def test_a_disk_that_is_full_is_said_and_the_run_after_it_is_fine(due: World) -> None:
    partition = partition_of(due)
    before, limits = tables(partition), resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        with pytest.raises(StateUnwritable, match="cannot be written"):
            due.reconcile()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert tables(partition) == before and not due.simulator.mutations()
    all_is_well(due, NAMES)


def test_a_full_disk_in_the_middle_of_an_apply_trashes_nothing_unrecorded(due: World) -> None:
    planned = plan(due)
    partition = partition_of(due)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(phase: str, done: int, total: int | None) -> None:
        if phase == "tag":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))

    try:
        with progress.shown_by(fill), pytest.raises(DeletionSyncError):
            due.apply(planned)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    lines = journal.read(partition)
    assert not lines.broken and not lines.chain_breaks
    recorded = {line.asset_id for line in lines.records if line.status == "tagged"}
    assert due.simulator.trashed() <= recorded | {due.ids["2020/IMG_90.MOV"]}
    assert due.apply(planned).outcome == "trashed" and due.trashed() == NAMES


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [garbage, cut])
def test_a_damaged_database_is_said_and_never_replaced_by_itself(due: World, damage: Callable[[Path], None]) -> None:
    partition = partition_of(due)
    whole = partition.database.read_bytes()
    damage(partition.database)
    bad = partition.database.read_bytes()
    with pytest.raises(StateCorrupt, match="is damaged"):
        due.reconcile(dry_run=False)
    assert not due.simulator.mutations() and partition.database.read_bytes() == bad
    partition.database.write_bytes(whole)
    all_is_well(due, NAMES)


@pytest.mark.parametrize("text", ["{", '{"quarantineDays": -1}', "[]"])
def test_damaged_settings_stop_a_run_and_say_where(due: World, text: str) -> None:
    settings = partition_of(due).settings_file
    good = settings.read_text()
    settings.write_text(text)
    with nothing_changes(due), pytest.raises(SettingsError, match=r"tool-settings\.json|quarantineDays"):
        due.reconcile(dry_run=False)
    settings.write_text(good)
    all_is_well(due, NAMES)


@pytest.mark.parametrize("settings", [{"thresholdPercent": 0}, {"quarantineDays": "zero"}, {"pageSize": 0}])
def test_settings_damaged_between_plan_and_apply_stop_the_apply(due: World, settings: dict[str, object]) -> None:
    planned = plan(due)
    due.change_settings(**settings)
    with nothing_changes(due), pytest.raises(SettingsError):
        due.apply(planned)


def in_the_middle(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], b'{"at": "20\n', *lines[3:]]


def torn(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-1], lines[-1][:20]]


def not_utf8(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], b"\xff\xfe" + lines[2], *lines[3:]]


@pytest.mark.parametrize("damage", [in_the_middle, torn, not_utf8])
def test_lesson_57_a_damaged_line_of_the_journal_costs_no_other_and_no_undo(
    due: World, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    done = due.apply(plan(due))
    path = partition_of(due).journal
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    due.write("2020/NEW.JPG", b"new")
    assert due.reconcile().outcome == "nothing to do"
    assert due.restore(done.run_id).outcome == "restored"
    assert not due.trashed()
    contents = journal.read(partition_of(due))
    assert len(contents.broken) == 1 and contents.records[-1].status == "restored"


# Clocks


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_server_clock_two_days_off_aborts(due: World, hours: int) -> None:
    due.simulator.clock = lambda: due.now + timedelta(hours=hours)
    assert "48 hours" in aborts(due, "clock").notes[0]
    due.simulator.clock = lambda: due.now
    all_is_well(due, NAMES)


def test_a_local_clock_that_jumps_to_2099_and_to_1970_ends_no_quarantine(world: World) -> None:
    furnish(world)
    world.change_settings(quarantineDays=14)
    delete_some(world)
    assert world.reconcile().counts["held"] == 2
    dates = confirmed(world)
    for year in (2099, 1970):
        with clock.clock_of(lambda year=year: world.now.replace(year=year)):  # type: ignore[misc]
            aborts(world, "clock", dry_run=False)
    assert confirmed(world) == dates
    world.pass_days(13.9)
    held = world.reconcile()
    assert (held.counts["held"], held.counts["delete"]) == (2, 0)
    world.pass_days(0.2)
    planned = plan(world)
    with (
        nothing_changes(world),
        clock.clock_of(lambda: world.now.replace(year=2099)),
        pytest.raises((ConfirmationNeeded, RailTripped)),
    ):
        world.apply(planned)
    assert world.apply(planned).outcome == "trashed" and world.trashed() == NAMES
