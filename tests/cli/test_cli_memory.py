"""status, settings, exclude, library, journal, state and the danger zone: what is remembered, shown and changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from state import hash_cache
from state.db import reading, writing
from state.exclusions import list_exclusions
from state.runs import FIRST_DRY_RUN, get_fact
from tasks.opening import find_partition
from tests.cli.program import ok, photos, ready_to_trash, run
from tests.world import World, checksum

STILL, MOTION = checksum(b"still 2024/IMG_90"), checksum(b"motion 2024/IMG_90")


def test_status_tells_what_is_remembered_without_asking_the_server(world: World) -> None:
    ready_to_trash(world)
    world.change_settings(quarantineDays=30)
    ok("dry-run")
    asked = len(world.simulator.requests)
    found = ok("status", "--json").json
    assert len(world.simulator.requests) == asked
    known = found["remembered"]
    assert (known["observed"], known["confirmed"], known["held"], known["exclusions"]) == (10, 1, 1, 0)
    assert known["next_due"] and known["first_dry_run_at"] and known["first_delete_confirmed_at"] is None
    assert known["libraries"][0]["name"] == "photos" and known["libraries"][0]["enumerated_at"]
    assert known["last_run"]["outcome"] == "nothing to do" and known["last_plan"]["plan_digest"]
    shown = ok("status").out
    assert "1 of them in quarantine, the next one until" in shown and known["last_plan"]["plan_digest"] in shown


def test_lesson_72_indexed_counts_cached_checksums_that_were_observed_here(world: World) -> None:
    photos(world, 3)
    ok("dry-run")
    home, partition = find_partition()
    assert ok("status", "--json").json["indexed"] == hash_cache.cached_checksums(home).num_rows == 5
    with writing(partition) as con:
        con.execute("DELETE FROM observed WHERE checksum = ?", [STILL])
    assert ok("status", "--json").json["indexed"] == 4
    partition.database.write_bytes(b"damaged")
    fallen_back = run("status", "--json")
    assert fallen_back.code == 1 and fallen_back.json["indexed"] == 5 and "damaged" in fallen_back.err


def test_many_deletions_at_once_are_told_and_kept_by_one_command(world: World) -> None:
    photos(world, 120)
    world.change_settings(quarantineDays=30)
    world.reconcile()
    world.remove(*[f"2024/IMG_{n}.JPG" for n in range(49)])
    ok("dry-run")
    assert ok("status", "--json").json["remembered"]["offloads"] == []
    assert run("exclude", "add", "--mass-offload").code == 2
    for n in range(49):
        world.write(f"2024/IMG_{n}.JPG")
    ok("dry-run")
    world.remove(*[f"2024/IMG_{n}.JPG" for n in range(50)])
    ok("dry-run")
    assert "50 deletions were confirmed at once" in ok("status").out
    assert ok("exclude", "add", "--mass-offload", "--json").json["new"] == 50
    assert "Mass offload" not in ok("status").out
    assert ok("dry-run", "--json").json["counts"]["pending"] == 0


def test_settings_are_shown_with_their_ranges_and_set_within_them(world: World) -> None:
    ok("settings", "set", "quarantineDays", "30")
    rows = {row["key"]: row for row in ok("settings", "show", "--json").json["settings"]}
    assert (rows["quarantineDays"]["value"], rows["quarantineDays"]["default"]) == (30, 14)
    assert rows["quarantineDays"]["range"] == "0 to 90, whole" and rows["thresholdPercent"]["range"] == "over 0 to 100"
    assert (
        rows["deletionStrictness"]["range"] == "trusting or strict" and "quarantineDays" in ok("settings", "show").out
    )
    for key, value in (("quarantineDays", "91"), ("quarantineDays", "-1"), ("thresholdPercent", "0"), ("nothing", "1")):
        refused = run("settings", "set", key, value)
        assert refused.code == 2 and key in refused.err


def test_a_corrupt_settings_file_is_named_and_no_run_goes_by_defaults(world: World) -> None:
    photos(world, 2)
    _, partition = find_partition()
    partition.settings_file.write_text('{"quarantineDays": 14,\n oops}')
    for command in (("settings", "show"), ("dry-run",), ("trash", "--yes"), ("status",)):
        found = run(*command)
        assert found.code == 2 and "tool-settings.json" in found.err and "line 2" in found.err, found


def test_lesson_75_every_setting_on_offer_is_read_by_the_program(world: World) -> None:
    root = Path(__file__).resolve().parents[2]
    folders = ("engine", "state", "server", "library", "tasks", "flows", "cli")
    text = "".join(p.read_text() for f in folders for p in (root / f).rglob("*.py") if p.name != "settings.py")
    offered = {row["key"] for row in ok("settings", "show", "--json").json["settings"]}
    # The scope is read through the property that gives its albums.
    read = {key: f".{'selected_albums' if key == 'indexingScope' else key}" in text for key in offered}
    assert not {key for key, found in read.items() if not found}


def test_a_photo_is_protected_by_any_name_and_its_motion_video_with_it(world: World) -> None:
    photos(world)
    ok("dry-run")
    for name in ("img_90.heic", STILL, MOTION, world.ids["2024/IMG_90.HEIC"], world.ids["2024/IMG_90.MOV"].upper()):
        assert {x["checksum"] for x in ok("exclude", "add", name, "--json").json["protected"]} == {STILL, MOTION}
        _, partition = find_partition()
        assert {x.checksum for x in list_exclusions(partition)} == {STILL, MOTION}
        ok("exclude", "remove", name)
        assert list_exclusions(partition) == []
    ok("exclude", "add", "IMG_1.JPG", "--reason", "mine")
    listed = ok("exclude", "list", "--json").json["exclusions"]
    assert [(x["file_name"], x["reason"]) for x in listed] == [("IMG_1.JPG", "mine")]
    assert "mine" in ok("exclude", "list").out
    world.remove("2024/IMG_1.JPG")
    assert ok("trash", "--yes", "--json").json["counts"]["delete"] == 0


def test_a_name_that_stands_for_two_photos_or_for_none_protects_nothing(world: World) -> None:
    photos(world, 2)
    world.backed_up("2025/IMG_0.JPG")
    ok("dry-run")
    found = run("exclude", "add", "IMG_1.JPG", "IMG_0.JPG")
    assert found.code == 2 and "2 different files" in found.err
    assert checksum(b"photo 2024/IMG_0.JPG") in found.err and checksum(b"photo 2025/IMG_0.JPG") in found.err
    for name in ("nowhere.jpg", "99999999-9999-4999-8999-999999999999"):
        assert run("exclude", "add", name).code == 2
    assert run("exclude", "add").code == run("exclude", "remove", "IMG_1.JPG").code == 2
    _, partition = find_partition()
    assert list_exclusions(partition) == []
    assert ok("exclude", "add", "2025/IMG_0.JPG", "--json").json["new"] == 1


def test_libraries_are_added_once_listed_and_removed_into_review(world: World, tmp_path: Path) -> None:
    photos(world, 2)
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.jpg").write_bytes(b"photo elsewhere")
    world.simulator.add_asset(world.user_id, checksum=checksum(b"photo elsewhere"), file_name="x.jpg")
    added = ok("library", "add", other, "--name", "Elsewhere")
    assert ".deletion-sync-library" in added.err and (other / ".deletion-sync-library").exists()
    rows = {row["name"]: row for row in ok("library", "list", "--json").json["libraries"]}
    assert rows["Elsewhere"]["library_id"].startswith("folder-") and rows["Elsewhere"]["access"] == "full"
    assert "Elsewhere" in ok("library", "list").out
    (other / "inner").mkdir()
    for again in (other, other / "inner", tmp_path):
        assert run("library", "add", again, "--name", "again").code == 2
    assert (
        run("library", "add", tmp_path / "none").code
        == run("library", "add", world.home, "--name", "Elsewhere").code
        == 2
    )
    ok("dry-run")
    assert run("library", "remove", "Elsewhere").code == 4
    assert run("library", "remove", "unknown", "--yes").code == 2
    assert "1 checksum" in ok("library", "remove", "Elsewhere", "--yes").out
    (other / "x.jpg").unlink()
    found = ok("trash", "--yes", "--json").json
    assert [(x["file_name"], x["reason"]) for x in found["plan"]["review"]] == [("x.jpg", "not_vouched_for")]
    assert not world.simulator.trashed(world.user_id)


def test_the_journal_lists_runs_and_shows_one(world: World) -> None:
    ready_to_trash(world)
    assert run("journal", "show", "--last").code == 2 and ok("journal", "list", "--json").json["runs"] == []
    run_id = ok("trash", "--yes", "--json").json["run_id"]
    listed = ok("journal", "list", "--json").json
    assert [(x["run_id"], x["counts"]) for x in listed["runs"]] == [(run_id, {"trashed": 1})]
    assert run_id in ok("journal", "list").out
    for choice in (("--last",), ("--run-id", run_id)):
        records = ok("journal", "show", *choice, "--json").json["records"]
        assert [r["status"] for r in records if "status" in r] == ["planned", "tagged", "trashed"]
    assert "IMG_1.JPG" in ok("journal", "show", "--last").out
    for wrong in ((), ("--last", "--run-id", run_id), ("--run-id", "../x"), ("--run-id", run_id[:-8] + "00000000")):
        assert run("journal", "show", *wrong).code == 2
    _, partition = find_partition()
    with partition.journal.open("ab") as file:
        file.write(b"\xff torn\n")
    assert "cannot be read" in ok("journal", "list").err


def test_state_goes_out_and_comes_in_again_without_overwriting(world: World, tmp_path: Path) -> None:
    photos(world, 2)
    ok("dry-run")
    ok("exclude", "add", "IMG_1.JPG")
    files = ok("state", "export", tmp_path / "out", "--json").json["files"]
    assert any(name.endswith("ever-seen.json") for name in files)
    assert run("state", "export", tmp_path / "out").code == 2
    ok("exclude", "remove", "IMG_1.JPG")
    found = ok("state", "import", tmp_path / "out", "--json")
    assert found.json["excluded"] == 1 and "were kept" in found.err
    assert run("state", "import", tmp_path / "none").code == 2


@pytest.mark.parametrize("command", ["reset-index", "clear-journal", "sign-out"])
def test_the_danger_zone_asks_first_and_says_what_goes(world: World, command: str) -> None:
    ready_to_trash(world)
    ok("trash", "--yes")
    ok("exclude", "add", "IMG_2.JPG")
    home, partition = find_partition()
    before = partition.journal.read_bytes()
    assert run(command).code == 4 and partition.journal.read_bytes() == before
    ok(command, "--yes")
    with reading(partition) as con:
        observed = con.execute("SELECT count(*) FROM observed").fetchall()[0][0]
        first = get_fact(con, FIRST_DRY_RUN)
    reset = command == "reset-index"
    assert (observed == 0, first is None, hash_cache.cached_checksums(home).num_rows == 0) == (reset, reset, reset)
    assert partition.journal.exists() is (command != "clear-journal")
    assert len(list_exclusions(partition)) == 1
    assert ("SERVER_API_KEY" in ok("sign-out", "--yes").err) is True
    assert ok("status", "--json").json["user_id"] == world.user_id


def test_a_folder_that_lost_its_marker_is_accepted_again_by_renew_and_its_candidates_go_to_review(world: World) -> None:
    photos(world, 3)
    ok("dry-run")
    next(world.folder.glob(".deletion-sync*")).unlink()
    first = next(path for path in sorted(world.folder.rglob("*.JPG")))
    first.unlink()
    assert run("dry-run").code == 3
    assert run("library", "renew", "photos").code == 4, "it asks, and nobody answers"
    assert run("library", "renew", "photos", "--yes").code == 0
    found = run("dry-run", "--json")
    assert found.code == 0 and found.json["counts"]["review"] == 1 and found.json["counts"]["delete"] == 0


def test_what_cannot_be_a_library_is_refused_with_the_next_step(world: World, tmp_path: Path) -> None:
    nothing = run("library", "add")
    assert nothing.code == 2 and "--phone" in nothing.err
    empty = tmp_path / "Mine.photoslibrary"
    empty.mkdir()
    assert run("library", "add", str(empty)).code == 2
    assert run("library", "add", "--phone", "only").code == 2
    assert len(run("library", "list", "--json").json["libraries"]) == 1
