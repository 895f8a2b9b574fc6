"""`explain`: what becomes of what goes, which files it reads, and what it says of what it does not know."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from engine.errors import UsageError
from state.db import writing
from tests.e2e.explained import (
    confirmed,
    deleted,
    line,
    matches,
    only,
    partition,
    prepare,
    quarantine,
    shown,
)
from tests.kept import kept_fixture
from tests.world import World, checksum

made = kept_fixture(prepare)


def test_a_motion_video_is_explained_by_the_still_that_it_goes_with(world: World) -> None:
    world.live_photo("live")
    deleted(world, "live.HEIC", "live.MOV", days=0)
    waiting = only("live.mov")
    assert line(waiting, "linked_motion") == (
        "stays",
        "The motion video of live.HEIC: it goes with its still, never by itself.",
    )
    assert waiting["bucket"] is None and "`deletion-sync explain` of live.HEIC" in waiting["conclusion"]
    world.pass_days(14)
    world.reconcile()
    going, still = only("live.mov"), only("live.heic")
    assert (going["bucket"], still["bucket"]) == ("delete", "delete")
    assert "live.HEIC" in line(going, "bucket")[1] and "it goes along" in line(still, "pair")[1]
    assert f"exclude add {still['checksum']}" in going["conclusion"]


def test_the_end_of_the_run_is_told_from_plan_to_restore(world: World) -> None:
    asset_id = world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    planned = world.reconcile()
    assert "when you approve the plan (`deletion-sync trash`)" in only("gone.jpg")["conclusion"]
    done = world.apply(planned)
    undo = f"`deletion-sync restore --run-id {done.run_id} --asset-id {asset_id}`"
    assert f"moved it to the trash: {undo}" in only("gone.jpg")["conclusion"]
    world.restore(done.run_id)
    again = json.loads(shown("gone.jpg", "--json"))
    assert again["run_id"] == done.run_id, "a restore decides nothing and is passed over"


def test_a_photo_that_came_back_at_the_last_look_is_told_so(world: World) -> None:
    world.backed_up("gone.jpg")
    world.backed_up("gone too.jpg")
    deleted(world, "gone.jpg", "gone too.jpg")
    planned = world.reconcile()
    world.write("back.jpg", b"photo gone.jpg")
    world.apply(planned)
    match = only("gone.jpg")
    assert line(match, "outcome")[0] == "stays" and "in a local library again" in match["conclusion"]
    assert "This run moved it to the trash" in only("gone too.jpg")["conclusion"]


def test_a_delete_that_failed_is_not_told_as_done(world: World) -> None:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    planned = world.reconcile()
    world.simulator.faults.add("DELETE", "/api/assets", status=400, body={"message": "no"}, times=None)
    assert world.apply(planned).outcome == "failed"
    conclusion = only("gone.jpg")["conclusion"]
    assert "did not end well" in conclusion and f"journal show --run-id {planned.run_id}" in conclusion


def test_a_rail_that_aborted_the_run_is_named(world: World) -> None:
    names = [f"gone{number}.jpg" for number in range(8)]
    for name in (*names, *(f"stays{number}.jpg" for number in range(8))):
        world.backed_up(name)
    deleted(world, *names)
    assert world.reconcile().rail == "threshold"
    match = only("gone3.jpg")
    assert match["bucket"] == "delete" and line(match, "rails")[0] == "stays"
    assert "The rail threshold aborted the run: The run would trash 8 of" in line(match, "rails")[1]
    assert match["conclusion"].startswith("It would go to the trash, but the rail threshold")


def test_a_run_that_ended_before_the_server_was_listed_is_explained_as_far_as_it_got(world: World) -> None:
    world.backed_up("gone.jpg")
    asset_id = world.ids["gone.jpg"]
    world.reconcile()
    world.remove("gone.jpg", "keep.jpg")
    aborted = world.reconcile()
    assert aborted.rail == "empty_local"
    assert not (partition().runs / aborted.run_id / "server.parquet").exists()
    match = only("gone.jpg")
    assert line(match, "server") == ("-", "Not known: the run ended before it had the server's listing.")
    assert (line(match, "observed")[0], line(match, "bucket")[0], line(match, "rails")[0]) == ("goes", "-", "stays")
    assert match["conclusion"].startswith("Nothing goes: the rail empty_local aborted the run.")
    with pytest.raises(UsageError, match="It ended before it had the server's listing"):
        shown(asset_id)


def test_a_file_that_a_killed_step_left_torn_counts_as_not_written(world: World) -> None:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    folder = partition().runs / world.reconcile().run_id
    for name in ("plan.json", "summary.json"):
        (folder / name).unlink()
    torn = folder / "decision.parquet"
    torn.write_bytes(torn.read_bytes()[:50])
    match = only("gone.jpg")
    assert line(match, "bucket") == ("-", "Not known: the run ended before it classified anything.")
    assert line(match, "candidate")[0] == "goes" and match["conclusion"].startswith("Nothing goes")


# What is asked, and by which run.


def test_nothing_but_the_runs_folder_is_read(world: World) -> None:
    quarantine(world)
    before = shown("gone.jpg")
    requests = len(world.simulator.requests)
    for path in (partition().database, partition().journal, partition().settings_file):
        path.unlink(missing_ok=True)
    shutil.rmtree(world.folder)
    files = sorted(path for path in world.home.rglob("*") if path.is_file())
    assert shown("gone.jpg") == before
    assert len(world.simulator.requests) == requests
    assert sorted(path for path in world.home.rglob("*") if path.is_file()) == files


def test_an_earlier_run_is_explained_by_its_own_files(world: World) -> None:
    world.backed_up("gone.jpg")
    first = world.reconcile()
    world.remove("gone.jpg")
    world.reconcile()
    assert line(only("gone.jpg", "--run-id", first.run_id), "alive") == ("stays", "Alive in photos: gone.jpg.")
    assert only("gone.jpg")["bucket"] == "held"


def test_checksum_in_both_forms_asset_id_and_file_name_lead_to_the_same_asset(world: World) -> None:
    asset_id = world.backed_up("Some Album/Photo.JPG")
    world.reconcile()
    digest = checksum((world.folder / "Some Album/Photo.JPG").read_bytes())
    hexadecimal = base64.b64decode(digest).hex()
    asked = [digest, hexadecimal, hexadecimal.upper(), asset_id, asset_id.upper(), "photo.jpg", "some album/PHOTO.jpg"]
    assert {only(what)["asset_id"] for what in asked} == {asset_id}


def test_a_file_name_of_several_assets_lists_them_all(world: World) -> None:
    for folder in ("a", "b"):
        world.backed_up(f"{folder}/IMG_1.JPG")
    world.write("c/img_1.jpg")
    world.reconcile()
    found = matches("img_1.JPG")
    assert {match["asset_id"] for match in found} == {world.ids["a/IMG_1.JPG"], world.ids["b/IMG_1.JPG"], None}
    assert "3 matches" in shown("img_1.JPG")


def test_what_no_run_knows_is_a_usage_error_with_the_next_step(world: World) -> None:
    with pytest.raises(UsageError, match=r"no run to explain by yet.*dry-run"):
        shown("keep.jpg")
    run_id = world.reconcile().run_id
    for what in ("no such file.jpg", "A" * 27 + "=", "00000000-0000-4000-8000-000000000000", ""):
        with pytest.raises(UsageError, match=rf"run {run_id} knows nothing of.*--run-id") as caught:
            shown(what)
        assert caught.value.exit_code == 2


def test_an_unknown_run_and_a_restore_are_usage_errors(world: World) -> None:
    confirmed(world)
    done = world.apply(world.reconcile())
    restored = world.restore(done.run_id)
    for run_id, message in (
        ("20250102T030405.000006Z-0badcafe", "journal list"),
        ("../../etc", "not a run id"),
        (restored.run_id, "is a restore"),
    ):
        with pytest.raises(UsageError, match=message):
            shown("gone.jpg", "--run-id", run_id)


def test_file_names_cannot_steer_the_terminal(world: World) -> None:
    name = "a\x1b[2J\u202eb\n.jpg"
    world.simulator.add_asset(world.user_id, checksum="A" * 27 + "=", file_name=name)
    world.reconcile()
    text = shown("A" * 27 + "=")
    assert "\x1b" not in text and "\u202e" not in text and "a\\x1b[2J\\u202eb\\x0a.jpg" in text
    assert only(name)["file_name"] == name


def test_a_library_is_called_by_its_name_and_not_by_its_id(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    world.backed_up("gone1.jpg")
    (other / "kept.jpg").write_bytes(b"photo gone1.jpg")
    world.register(other, "folder-1a2b3c4d")
    with writing(partition()) as con:
        con.execute("UPDATE libraries SET label = 'holidays' WHERE library_id = 'folder-1a2b3c4d'")
    world.remove("gone1.jpg")
    world.reconcile()
    text = shown("gone1.jpg")
    assert "holidays: kept.jpg" in text and "folder-1a2b3c4d" not in text
