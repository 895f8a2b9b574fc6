"""What a newcomer meets in the command line: wrong places, empty answers, and messages that say what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import typer

from cli.commands import app
from state.db import writing
from state.lock import partition_lock
from state.runs import FIRST_DRY_RUN, clear_fact
from tasks.opening import find_partition
from tests.cli.program import Ended, ended, ok, photos, ready_to_trash, run, start
from tests.world import World, checksum


def commands(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = getattr(command, "commands", {})
    return [path, *(found for name in inner for found in commands(inner[name], (*path, name)))] if inner else []


@pytest.mark.parametrize("group", commands(typer.main.get_command(app)))
def test_no_summary_in_a_help_page_is_cut(group: tuple[str, ...]) -> None:
    found = ended(start(*group, "--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}))
    assert found.code == 0 and "..." not in found.out.split("Commands:")[1]


def test_an_empty_folder_name_registers_nothing(world: World) -> None:
    for name in ("", " "):
        found = run("library", "add", name)
        assert found.code == 2 and "empty" in found.err
    assert len(ok("library", "list", "--json").json["libraries"]) == 1


def test_adding_a_library_says_how_much_was_found_and_where(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "more"
    for name in ("a/1.jpg", "a/2.jpg", "b/3.jpg", "b/film.mp4", "b/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    assert "Found 3 photos and 1 video in 2 folders." in ok("library", "add", folder).out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "No photo or video" in ok("library", "add", empty).err


def test_adding_a_home_folder_is_remarked_on(world: World, tmp_path: Path) -> None:
    home = tmp_path / "me"
    home.mkdir()
    (home / "a.jpg").write_bytes(b"a")
    found = run("library", "add", home, env={"HOME": str(home)})
    assert found.code == 0 and "home folder" in found.err
    assert "Found 1 photo and 0 videos" in found.out


def test_adding_the_same_folder_again_names_the_library_that_it_is(world: World) -> None:
    Path("link").symlink_to(world.folder)
    for again in (world.folder, "link"):
        found = run("library", "add", again, "--name", "again")
        assert found.code == 2 and "registered already, as “photos”" in found.err


def test_removing_a_library_says_that_its_marker_stays(world: World) -> None:
    found = ok("library", "remove", "photos", "--yes")
    assert str(world.folder / ".deletion-sync-library") in found.err
    assert (world.folder / ".deletion-sync-library").exists()


def test_a_file_that_lists_the_whole_server_is_remarked_on(world: World) -> None:
    photos(world, 3)
    ok("dump-server-checksums", "--output", "all.txt")
    assert "the server's own list" in ok("dry-run", "--local-checksums-file", "all.txt").err
    Path("local.txt").write_text(f"{checksum(b'photo 2024/IMG_0.JPG')}\n")
    assert "the server's own list" not in ok("dry-run", "--local-checksums-file", "local.txt").err
    assert "the server's own list" not in ok("dry-run").err


def test_a_first_trash_with_nothing_to_trash_is_a_success_that_says_so_once(world: World) -> None:
    photos(world)
    found = ok("trash", "--yes")
    assert "Nothing is to be trashed." in found.out
    assert found.err.count("first run") == 1
    assert not world.simulator.mutations()


def test_a_first_trash_with_something_to_trash_is_refused_once_and_says_what_to_do(world: World) -> None:
    ready_to_trash(world)
    with writing(find_partition()[1]) as con:
        clear_fact(con, FIRST_DRY_RUN)
    refused = run("trash", "--yes")
    assert refused.code == 4 and "IMG_1.JPG" in refused.out and not world.simulator.mutations()
    assert refused.err.count("first run") == refused.err.count("deletion-sync trash") == 1


def test_an_empty_plan_says_that_nothing_goes(world: World) -> None:
    photos(world)
    ok("dry-run")
    assert "Nothing is to be trashed." in ok("plan").out


def test_an_aborted_run_lists_what_would_have_gone(world: World) -> None:
    gone = [f"2024/IMG_{n}.JPG" for n in range(6)]
    photos(world, 20)
    ready = [name for name in gone if (world.folder / name).exists()]
    world.reconcile()
    world.remove(*ready)
    found = run("dry-run")
    assert found.code == 3
    assert "Would have gone: 6 photos" in found.out and "To be moved" not in found.out


def test_status_says_what_is_counted(world: World) -> None:
    photos(world, 2)
    ok("dry-run")
    shown = ok("status").out
    assert "Indexed       4 checksums of files that this computer read for this account" in shown
    assert "Observed      4 checksums ever seen in your libraries" in shown


def test_a_dump_makes_no_folders(world: World, tmp_path: Path) -> None:
    asked = len(world.simulator.requests)
    for target in (tmp_path / "no" / "x.txt", tmp_path):
        found = run("dump-server-checksums", "--output", target)
        assert found.code == 2 and "folder" in found.err
    assert not (tmp_path / "no").exists()
    assert len(world.simulator.requests) == asked


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("quarantineDays", "91", "quarantineDays is 91, and may be 0 to 90, whole"),
        ("quarantineDays", "1.5", "quarantineDays is 1.5, and may be 0 to 90, whole"),
        ("thresholdPercent", "0", "thresholdPercent is 0, and may be over 0 to 100"),
        ("deletionStrictness", "loose", 'deletionStrictness is "loose", and may be trusting or strict'),
        ("applyScheduledRuns", "maybe", 'applyScheduledRuns is "maybe", and may be true or false'),
        ("indexingScope", "some", 'indexingScope is "some", and may be "fullLibrary" or {"selectedAlbums"'),
        ("indexingScope", '{"albums": []}', 'indexingScope is {"albums": []}, and may be "fullLibrary" or'),
    ],
)
def test_a_refused_setting_says_key_value_and_what_is_allowed(world: World, key: str, given: str, said: str) -> None:
    found = run("settings", "set", key, given)
    assert found.code == 2 and said in found.err
    assert not re.search(r"Input should|Value error|pydantic", found.err)


def test_verify_counts_user_read_as_lacking_where_nothing_makes_up_for_it(world: World) -> None:
    key = world.simulator.add_key(
        world.user_id,
        ("asset.read", "asset.view", "asset.download", "asset.delete", "tag.create", "tag.asset", "tag.read"),
    )
    found = run("verify", "--json", env={"SERVER_API_KEY": key})
    assert found.code == 1 and found.json["scopes"]["missing"] == ["user.read"]
    assert "user.read" not in found.json["scopes"]["missing_optional"]
    assert "lacks user.read" in run("verify", env={"SERVER_API_KEY": key}).out


def test_a_busy_account_says_since_when_and_how_to_look(world: World) -> None:
    with partition_lock(find_partition()[1], "a test"):
        found = run("dry-run")
    assert found.code == 11
    assert re.search(r"holds this account's state since \d\d:\d\d UTC", found.err)
    assert f"ps -p {os.getpid()}" in found.err


def test_a_dotenv_that_is_a_folder_is_said_to_be_one(world: World) -> None:
    Path(".env").mkdir()
    found = run("status", env={"SERVER_URL": None, "SERVER_API_KEY": None})
    assert found.code == 2 and "is a folder" in found.err


def test_results_go_to_standard_output(world: World) -> None:
    photos(world, 2)
    ok("dry-run")

    def out(*arguments: str) -> str:
        found: Ended = ok(*arguments)
        return found.out

    assert "quarantineDays is 30 now" in out("settings", "set", "quarantineDays", "30")
    assert "protected" in out("exclude", "add", "IMG_1.JPG")
    assert "not protected any more" in out("exclude", "remove", "IMG_1.JPG")
    assert "deleted" in out("clear-journal", "--yes")
    assert "reset" in out("reset-index", "--yes")
    assert f"Signed out of {world.url}" in out("sign-out", "--yes")


def test_a_library_that_is_away_reads_cannot_be_read(world: World) -> None:
    assert "can be read" in ok("library", "list").out
    world.folder.rename(world.folder.with_name("away"))
    assert "cannot be read" in ok("library", "list").out
    assert "cannot be read" in run("verify").out


def test_explain_tells_the_verdict_before_the_rules(world: World) -> None:
    ready_to_trash(world)
    ok("dry-run")
    lines = ok("explain", "IMG_1.JPG").out.splitlines()
    verdict = next(n for n, line in enumerate(lines) if line.startswith("  => "))
    assert lines[verdict - 1].startswith("IMG_1.JPG") and lines[verdict + 1].strip()
