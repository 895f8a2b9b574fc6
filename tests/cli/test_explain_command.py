"""`explain`: every reason of docs/rules.md, told from the files of a run that the real pipeline made."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.explain import explain
from engine.decide import CLASSIFY
from engine.explain_lines import REASONS
from state import exclusions, libraries
from state.db import writing
from state.partition import Partition
from state.runs import HISTORY_LOST, set_fact
from tasks import clock
from tasks.opening import find_partition
from tests.world import World, checksum, small_world

TAKEN = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
UNREACHABLE = "motion_foreign"  # a listing holds this user's assets alone; tests/engine/test_explain.py has it


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        found.backed_up("keep.jpg")
        yield found


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
    world.register(world.folder.parent / "work", "other")
    with writing(partition()) as con:
        libraries.remove(con, "photos", clock.naive_now())
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
    world.write("album/other.jpg")
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
    "library_removed": (library_removed, "review", "detached", "review", "removed"),
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
    assert decided == REASONS.keys() == TELLING.keys() | {UNREACHABLE}


@pytest.mark.parametrize("reason", TELLING)
def test_every_reason_is_told_by_the_line_of_its_rule(world: World, reason: str) -> None:
    arrange, bucket, rule, says, text = TELLING[reason]
    match = only(arrange(world))
    assert (match["reason"], match["bucket"]) == (reason, bucket), match
    assert line(match, rule)[0] == says and text in line(match, rule)[1], match
    assert REASONS[reason] in line(match, "bucket")[1]
    assert "deletion-sync exclude add " in match["conclusion"]
