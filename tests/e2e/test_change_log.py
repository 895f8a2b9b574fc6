"""The change log through the whole pipeline: what a run says changed, which token it keeps, and what is no deletion."""

from __future__ import annotations

import json
import os
import unicodedata
from typing import Any

import pyarrow.parquet as pq
import pytest

from state import hash_cache
from state.db import reading, writing
from state.home import Home
from state.libraries import Registered, registered
from tasks.summary import Summary
from tests.crash.stage import partition_of
from tests.e2e.bad_days import aborts, confirmed
from tests.kept import kept_fixture
from tests.world import World

NFC = "Zürich/Café.jpg"
NFD = unicodedata.normalize("NFD", NFC)


def prepare(world: World) -> None:
    """Six photos on both sides, seen by a first run; a confirmed deletion would be due at once."""
    for name in (NFC, "2019/Rome/1.jpg", "2019/2.jpg", "2020/3.jpg", "2020/4.jpg", "2020/5.jpg"):
        world.backed_up(name)
    world.change_settings(quarantineDays=0)
    assert world.reconcile().outcome == "nothing to do"


made = kept_fixture(prepare)


def changes(world: World, summary: Summary) -> set[tuple[str, str, str | None]]:
    """What the run's folder says changed: local id, change, former id."""
    rows: list[dict[str, Any]] = pq.read_table(
        partition_of(world).runs / summary.run_id / "changes.parquet"
    ).to_pylist()
    assert all(row["library_id"] == "photos" for row in rows)
    return {(row["local_id"], row["change"], row["former_id"]) for row in rows}


def library(world: World) -> Registered:
    with reading(partition_of(world)) as con:
        (found,) = registered(con)
    return found


def change_database(world: World, *statements: str) -> None:
    with writing(partition_of(world)) as con:
        for statement in statements:
            con.execute(statement)


def test_a_run_says_what_changed_since_the_last_one(world: World) -> None:
    world.write("2020/new.jpg")
    world.write("2020/3.jpg", b"edited")
    (world.folder / "2019/2.jpg").rename(world.folder / "2020/2.jpg")
    (world.folder / ".Trash").mkdir()
    (world.folder / "2020/5.jpg").rename(world.folder / ".Trash/5.jpg")
    world.remove("2020/4.jpg")
    summary = world.reconcile()
    assert summary.notes[0] == "Since the last run: 1 new, 1 changed, 1 moved, 1 put into the trash, 1 gone."
    assert changes(world, summary) == {
        ("2020/new.jpg", "inserted", None),
        ("2020/3.jpg", "updated", None),
        ("2020/2.jpg", "moved", "2019/2.jpg"),
        (".Trash/5.jpg", "trashed", "2020/5.jpg"),
        ("2020/4.jpg", "deleted", None),
    }
    again = world.reconcile()
    assert changes(world, again) == set() and not any("Since the last" in note for note in again.notes)


def test_lesson_21_what_the_change_log_cannot_know_is_swept_up_all_the_same(world: World) -> None:
    forgotten = "local_id = '2020/3.jpg'"
    change_database(world, *(f"DELETE FROM {table} WHERE {forgotten}" for table in ("local_index", "edit_anchors")))
    world.remove("2020/3.jpg")
    summary = world.reconcile()
    assert changes(world, summary) == set()
    assert len(confirmed(world)) == 1


def test_lesson_24_a_photo_that_was_never_indexed_is_found_by_the_listing(world: World) -> None:
    change_database(world, "DELETE FROM local_index WHERE local_id = '2020/3.jpg'")
    assert changes(world, world.reconcile()) == {("2020/3.jpg", "inserted", None)}
    assert changes(world, world.reconcile()) == set()


def test_lesson_25_a_token_is_saved_only_when_everything_up_to_it_was_applied(world: World) -> None:
    before = library(world)
    assert before.token is not None and before.snapshot == before.token_of > 0
    (world.folder / "2020/3.jpg").unlink()
    (world.folder / "away").symlink_to(world.folder.parent / "nowhere")
    aborts(world, "permission")
    assert library(world) == before
    (world.folder / "away").unlink()
    summary = world.reconcile()
    assert changes(world, summary) == {("2020/3.jpg", "deleted", None)}
    after = library(world)
    assert after.snapshot == after.token_of == before.snapshot + 1


def test_lesson_26_a_photo_that_was_only_touched_is_told_and_no_more(world: World) -> None:
    os.utime(world.folder / "2020/3.jpg", (5, 5))
    summary = world.reconcile()
    assert changes(world, summary) == {("2020/3.jpg", "updated", None)}
    assert summary.outcome == "nothing to do" and not confirmed(world)


def test_lesson_31_a_deletion_is_known_by_this_accounts_own_snapshot(world: World) -> None:
    hash_cache.wipe(Home(world.home))  # as if another account had used it since
    world.remove("2020/3.jpg")
    summary = world.reconcile()
    assert changes(world, summary) == {("2020/3.jpg", "deleted", None)}
    assert summary.outcome == "planned" and len(confirmed(world)) == 1


@pytest.mark.parametrize(
    "statement", ["UPDATE libraries SET snapshot = snapshot + 1", "UPDATE libraries SET snapshot = 0"]
)
def test_lesson_11_a_token_of_another_snapshot_is_expired_and_everything_is_for_review(
    world: World, statement: str
) -> None:
    change_database(world, statement)
    world.remove("2020/3.jpg")
    summary = world.reconcile()
    assert changes(world, summary) == set()
    assert (summary.outcome, summary.counts["review"]) == ("nothing to do", 1)
    found = library(world)
    assert found.token_of == found.snapshot


def test_a_token_of_the_version_before_is_not_expired_by_its_form(world: World) -> None:
    token = library(world).token
    assert token is not None and "generation" in json.loads(token)
    change_database(world, f"UPDATE libraries SET token = '{token}', snapshot = 0")
    world.remove("2020/3.jpg")
    summary = world.reconcile()
    assert changes(world, summary) == {("2020/3.jpg", "deleted", None)}
    assert summary.outcome == "planned"
    assert library(world).snapshot == library(world).token_of == 1


# What is no deletion


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NFC, f"Zürich/{NFD.rpartition('/')[2]}"),
        ("Zürich", unicodedata.normalize("NFD", "Zürich")),
        ("2020/3.jpg", "2020/3.JPG"),
        ("2019", "2019 Italy"),
        ("2019/Rome", "2019/ROME"),
    ],
)
def test_another_spelling_of_a_name_is_a_move_and_nothing_is_lost(world: World, old: str, new: str) -> None:
    (world.folder / old).rename(world.folder / new)
    summary = world.reconcile()
    told = changes(world, summary)
    assert told and all(change == "moved" and former.startswith(old) for _, change, former in told if former)
    assert all(change == "moved" for _, change, _ in told)
    assert (summary.outcome, summary.counts["pending"]) == ("nothing to do", 0)
    assert not confirmed(world)
    world.pass_days(100)
    assert world.reconcile().outcome == "nothing to do"


@pytest.mark.parametrize(
    ("old", "new", "hidden"), [("2019", ".2019", 2), ("2020/3.jpg", "2020/.3.jpg", 1), ("2020/3.jpg", "2020/3.jpg_", 1)]
)
def test_a_photo_that_was_hidden_is_never_trashed_by_itself_and_may_come_back(
    world: World, old: str, new: str, hidden: int
) -> None:
    (world.folder / old).rename(world.folder / new)
    for _ in range(2):
        summary = world.reconcile()
        assert (summary.outcome, summary.counts["review"]) == ("nothing to do", hidden), summary
        assert not confirmed(world)
        world.pass_days(100)
    (world.folder / new).rename(world.folder / old)
    summary = world.reconcile()
    assert (summary.outcome, summary.counts["review"]) == ("nothing to do", 0)


def test_a_hidden_photo_is_told(world: World) -> None:
    (world.folder / "2019").rename(world.folder / ".2019")
    assert world.reconcile().notes[0] == "Since the last run: 2 hidden, or handed over."
