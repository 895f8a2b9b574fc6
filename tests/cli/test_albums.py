"""`library albums` and `settings scope`: albums are told apart by library, and a scope names only albums that are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import now, ok, run
from tests.world import World


@pytest.fixture
def two_libraries(world: World, tmp_path: Path) -> World:
    """Two libraries with a folder 2024 each, read once."""
    world.change_settings(quarantineDays=0)
    world.backed_up("2024/IMG_1.JPG")
    world.backed_up("2024/trip/IMG_2.JPG")
    world.live_photo("2024/trip/IMG_90")
    second = tmp_path / "second"
    (second / "2024").mkdir(parents=True)
    (second / "2024" / "other.jpg").write_bytes(b"other")
    world.register(second, "second")
    world.now = now()
    assert world.reconcile().outcome == "nothing to do"
    return world


def scope() -> object:
    return json.loads(ok("settings", "show", "--json").out)["settings"][0]["value"]


def test_albums_are_listed_with_their_library_and_count_a_live_photo_once(two_libraries: World) -> None:
    assert ok("library", "albums", "photos", "--json").json["albums"] == [
        {"id": "photos/2024", "library": "photos", "title": "2024", "assets": 3},
        {"id": "photos/2024/trip", "library": "photos", "title": "trip", "assets": 2},
    ]
    assert ok("library", "albums", "second", "--json").json["albums"] == [
        {"id": "second/2024", "library": "second", "title": "2024", "assets": 1}
    ]
    assert "photos/2024/trip" in ok("library", "albums", "photos").out


def test_before_the_first_run_albums_have_no_count(world: World) -> None:
    world.write("2024/IMG_1.JPG")
    found = ok("library", "albums", "photos", "--json").json["albums"]
    assert found == [{"id": "photos/2024", "library": "photos", "title": "2024", "assets": None}]


def test_a_library_that_is_away_lists_the_albums_of_the_last_run(two_libraries: World) -> None:
    two_libraries.folder.rename(two_libraries.folder.with_name("away"))
    found = ok("library", "albums", "photos", "--json")
    assert [album["id"] for album in found.json["albums"]] == ["photos/2024", "photos/2024/trip"]
    assert "last run" in found.err


def test_a_chosen_album_alone_is_in_scope_and_not_the_one_of_that_name_elsewhere(two_libraries: World) -> None:
    ok("settings", "scope", "--album", "second/2024")
    assert scope() == {"selectedAlbums": ["second/2024"]}
    two_libraries.remove("2024/IMG_1.JPG")
    assert ok("dry-run", "--json").json["counts"]["delete"] == 0
    ok("settings", "scope", "--album", "photos/2024", "--album", "second/2024", "--album", "photos/2024")
    assert scope() == {"selectedAlbums": ["photos/2024", "second/2024"]}
    assert ok("dry-run", "--json").json["counts"]["delete"] == 1
    ok("settings", "scope", "--full")
    assert scope() == "fullLibrary"


def test_an_album_may_be_named_by_the_name_of_its_library(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "more"
    (folder / "2024").mkdir(parents=True)
    ok("library", "add", folder, "--name", "My phone")
    ok("settings", "scope", "--album", "My phone/2024")
    (album,) = ok("settings", "scope", "--show", "--json").json["albums"]
    assert album.startswith("folder-") and album.endswith("/2024")
    assert "My phone" in ok("settings", "scope", "--show").out


def test_an_unknown_album_is_refused_and_near_ones_are_named(two_libraries: World) -> None:
    found = run("settings", "scope", "--album", "photos/2024", "--album", "photos/2024/Trip")
    assert found.code == 2
    assert "photos/2024/trip" in found.err
    assert scope() == "fullLibrary"
    assert "library albums" in run("settings", "scope", "--album", "zzz").err


def test_an_empty_scope_is_only_made_on_purpose(two_libraries: World) -> None:
    assert run("settings", "scope").code == 2
    assert run("settings", "scope", "--full", "--none").code == 2
    found = ok("settings", "scope", "--none")
    assert "nothing" in found.out and scope() == {"selectedAlbums": []}
    assert "nothing" in ok("settings", "scope", "--show").out


def test_an_album_that_is_gone_is_said_when_the_scope_is_shown(two_libraries: World) -> None:
    ok("settings", "scope", "--album", "second/2024")
    ok("library", "remove", "second", "--yes")
    assert "second/2024" in ok("settings", "scope", "--show").err
