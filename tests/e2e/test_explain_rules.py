"""`explain`: every reason and every rule of docs/rules.md, told from the files of a run that the pipeline made."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from engine import reasons
from engine.decide import CLASSIFY
from engine.explain_lines import REASONS
from state import libraries
from state.db import writing
from state.runs import HISTORY_LOST, set_fact
from tasks import clock
from tests.e2e.explained import (
    confirmed,
    deleted,
    edited,
    exclude,
    from_file,
    line,
    only,
    partition,
    prepare,
    quarantine,
)
from tests.kept import kept_fixture
from tests.world import World, checksum

TAKEN = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
UNREACHABLE = "motion_foreign"  # a listing holds this user's assets alone; tests/engine/test_explain.py has it

made = kept_fixture(prepare)


# Each arranges a world in which the last run puts the asset that it names into its reason.


def unconfirmed(world: World) -> str:
    world.backed_up("gone.jpg")
    from_file(world, "keep.jpg", "gone.jpg")
    from_file(world, "keep.jpg")
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
