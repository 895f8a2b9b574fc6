"""`explain`: every reason of docs/rules.md, told from the files of a run that the real pipeline made."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.explain import explain
from engine import reasons
from engine.decide import CLASSIFY
from engine.errors import UsageError
from engine.explain_lines import REASONS
from state import exclusions, libraries
from state.db import writing
from state.partition import Partition
from state.runs import HISTORY_LOST, set_fact
from tasks import clock
from tasks.opening import find_partition
from tests.kept import Made, kept_fixture
from tests.world import World, checksum

TAKEN = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
UNREACHABLE = "motion_foreign"  # a listing holds this user's assets alone; tests/engine/test_explain.py has it


def prepare(world: World) -> None:
    world.backed_up("keep.jpg")


made = kept_fixture(prepare)


@pytest.fixture
def world(made: Made) -> World:
    return made()


def shown(*arguments: str) -> str:
    """What the command prints; its error is raised."""
    app = typer.Typer()
    app.command()(explain)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def matches(what: str, *arguments: str) -> list[dict[str, Any]]:
    document = json.loads(shown(what, "--json", *arguments))
    assert document["what"] == what
    found: list[dict[str, Any]] = document["matches"]
    return found


def only(what: str, *arguments: str) -> dict[str, Any]:
    (match,) = matches(what, *arguments)
    return match


def line(match: dict[str, Any], rule: str) -> tuple[str, str]:
    """What a rule says, and its text."""
    (found,) = (one for one in match["lines"] if one["rule"] == rule)
    return found["says"], found["text"]


def partition() -> Partition:
    return find_partition()[1]


def exclude(*checksums: str) -> None:
    exclusions.add(partition(), checksums, "test", clock.naive_now())


def deleted(world: World, *names: str, days: float = 14) -> None:
    """Seen by one run, gone in the next, and so many days later."""
    world.reconcile()
    world.remove(*names)
    world.reconcile()
    world.pass_days(days)


def from_file(world: World, *names: str) -> None:
    """A run by a checksums file that holds these files' checksums."""
    path = world.home / "checksums.txt"
    path.write_text("".join(f"{checksum((world.folder / name).read_bytes())}\n" for name in names))
    world.reconcile(checksums_file=path)


def edited(world: World, *versions: bytes) -> None:
    """A photo that is edited, with a run after each version; the server has every version."""
    for number, content in enumerate(versions):
        world.simulator.add_asset(world.user_id, checksum=checksum(content), file_name=f"edit{number}.jpg")
        world.write("edit.jpg", content)
        os.utime(world.folder / "edit.jpg", (1_700_000_000 + number, 1_700_000_000 + number))
        world.reconcile()


# Each arranges a world in which the last run puts the asset that it names into its reason.


def confirmed(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    world.reconcile()
    return "gone.jpg"


def unconfirmed(world: World) -> str:
    world.backed_up("gone.jpg")
    from_file(world, "keep.jpg", "gone.jpg")
    from_file(world, "keep.jpg")
    return "gone.jpg"


def quarantine(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg", days=4.5)
    world.reconcile()
    return "gone.jpg"


def retired_edit(world: World) -> str:
    edited(world, b"original", b"first edit", b"second edit")
    return "edit1.jpg"


def deleted_again(world: World) -> str:
    world.backed_up("gone.jpg")
    exclude(checksum((world.folder / "gone.jpg").read_bytes()))
    world.pass_days(1)
    deleted(world, "gone.jpg")
    world.reconcile()
    return "gone.jpg"


def history_lost(world: World) -> str:
    world.backed_up("gone.jpg")
    world.reconcile()
    world.remove("gone.jpg")
    with writing(partition()) as con:
        set_fact(con, HISTORY_LOST, "the test says so")
    world.reconcile()
    return "gone.jpg"


def library_removed(world: World) -> str:
    second = world.folder.parent / "second"
    second.mkdir()
    (second / "gone.jpg").write_bytes(b"photo gone.jpg")
    world.register(second, "second")
    world.backed_up("gone.jpg")
    world.remove("gone.jpg")
    world.reconcile()
    with writing(partition()) as con:
        libraries.remove(con, "second", clock.naive_now())
    world.reconcile()
    return "gone.jpg"


def in_other_library(world: World) -> str:
    edited(world, b"original", b"an edit")
    from_file(world, "keep.jpg")
    return "edit1.jpg"


def alive_under_another_checksum(world: World) -> str:
    world.backed_up("album/photo.jpg", captured_at=TAKEN)
    os.utime(world.folder / "album/photo.jpg", (TAKEN.timestamp(), TAKEN.timestamp()))
    world.reconcile()
    world.remove("album/photo.jpg")
    world.write("moved/PHOTO.JPG", b"other bytes")
    os.utime(world.folder / "moved/PHOTO.JPG", (TAKEN.timestamp() + 1, TAKEN.timestamp() + 1))
    world.reconcile()
    world.pass_days(14)
    world.reconcile()
    return world.ids["album/photo.jpg"]


def motion_alive(world: World) -> str:
    still, _ = world.live_photo("live")
    shutil.copy2(world.folder / "live.MOV", world.folder / "copy.MOV")
    deleted(world, "live.HEIC", "live.MOV")
    world.reconcile()
    return still


def motion_excluded(world: World) -> str:
    still, _ = world.live_photo("live")
    deleted(world, "live.HEIC", "live.MOV", days=1)
    exclude(checksum(b"motion live"))
    world.pass_days(14)
    world.reconcile()
    return still


def orphan_motion(world: World) -> str:
    world.backed_up("alone.mov", visibility="hidden")
    deleted(world, "alone.mov")
    world.reconcile()
    return "alone.mov"


# reason: how it comes about, its bucket, the rule whose line tells it, and what that line says and names
TELLING: dict[str, tuple[Callable[[World], str], str, str, str, str]] = {
    "confirmed": (confirmed, "delete", "confirmed", "goes", "(cause: deleted); quarantine until 2026-03-15 12:00 UTC"),
    "unconfirmed": (unconfirmed, "delete", "confirmed", "goes", "Nothing confirmed"),
    "quarantine": (quarantine, "held", "confirmed", "waits", "2026-03-15 12:00 UTC, 10 days left"),
    "retired_edit": (retired_edit, "held", "retired", "waits", "earlier edit"),
    "deleted_again": (deleted_again, "review", "excluded", "review", "You protected it on 2026-03-01"),
    "history_lost": (history_lost, "review", "history", "review", "history was lost"),
    "not_vouched_for": (library_removed, "review", "detached", "review", "removed"),
    "in_other_library": (in_other_library, "review", "index", "review", "The library photos had it"),
    "alive_under_another_checksum": (
        *(alive_under_another_checksum, "review", "elsewhere", "review"),
        "photos: moved/PHOTO.JPG",
    ),
    "motion_alive": (motion_alive, "review", "pair", "review", "alive in photos: copy.MOV"),
    "motion_excluded": (motion_excluded, "review", "pair", "review", "protected by you on 2026-03-02"),
    "orphan_motion": (orphan_motion, "review", "pair", "review", "no trashed still"),
}


def test_every_reason_of_the_classification_is_told_here() -> None:
    decided = set(re.findall(r"'reason': '(\w+)'", CLASSIFY)) - {"excluded"}
    assert decided == REASONS.keys() == reasons.REASONS.keys() == TELLING.keys() | {UNREACHABLE}


@pytest.mark.parametrize("reason", TELLING)
def test_every_reason_is_told_by_the_line_of_its_rule(world: World, reason: str) -> None:
    arrange, bucket, rule, says, text = TELLING[reason]
    match = only(arrange(world))
    assert (match["reason"], match["bucket"]) == (reason, bucket), match
    assert line(match, rule)[0] == says and text in line(match, rule)[1], match
    assert REASONS[reason] in line(match, "bucket")[1]
    assert "deletion-sync exclude add " in match["conclusion"]


# What stays: how it comes about, the rule that keeps it, and a piece of the advice at the end.


def other_user(world: World) -> str:
    return world.simulator.add_asset(world.user_id, checksum=checksum(b"never here"), file_name="upload.jpg")


def alive(world: World) -> str:
    world.backed_up("alive.jpg")
    return "alive.jpg"


def trashed_already(world: World) -> str:
    asset_id = world.backed_up("gone.jpg")
    world.simulator.change_asset(asset_id, deleted_at=world.now)
    return asset_id


def external(world: World) -> str:
    world.backed_up("gone.jpg", library_id="00000000-0000-4000-8000-000000000001")
    deleted(world, "gone.jpg")
    return "gone.jpg"


def out_of_scope(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    world.change_settings(indexingScope={"selectedAlbums": []})
    return "gone.jpg"


def anchored(world: World) -> str:
    edited(world, b"original", b"an edit")
    return "edit0.jpg"


def protected(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    exclude(checksum(b"photo gone.jpg"))
    return "gone.jpg"


def not_backed_up(world: World) -> str:
    world.write("local.jpg")
    return "local.jpg"


STAYING: dict[str, tuple[Callable[[World], str], str]] = {
    "observed": (other_user, "trash it on the server yourself"),
    "alive": (alive, "it is in photos: alive.jpg"),
    "trash": (trashed_already, "restore it on the server"),
    "external": (external, "includeExternalLibraries"),
    "scope": (out_of_scope, "indexingScope"),
    "anchor": (anchored, "the edited photo"),
    "excluded": (protected, f"`deletion-sync exclude remove {checksum(b'photo gone.jpg')}`"),
    "server": (not_backed_up, "nothing to move"),
}


@pytest.mark.parametrize("rule", STAYING)
def test_the_rule_that_keeps_an_asset_is_named_with_what_to_do(world: World, rule: str) -> None:
    arrange, advice = STAYING[rule]
    what = arrange(world)
    world.reconcile()
    match = only(what)
    assert line(match, rule)[0] == "stays", match
    assert match["bucket"] is None and match["conclusion"].startswith("It stays: ")
    assert advice in match["conclusion"]


# What becomes of what goes.


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
