"""A phone behind adb: what it lists, and what changed there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pytest

from library.errors import LibraryUnavailable
from tests.library.android_phone import World, hashed, names, phone_behind_adb, sha1
from tests.library.fake_adb import MODIFIED, PRIMARY
from tests.library.worlds import trashed_ids

ODD_NAMES = (
    *("a, b.jpg", "k=v.jpg", ", _size=1.jpg", 'it\'s "so".jpg', "two\nlines.jpg", "ends with newline\n", "\n.jpg"),
    *(
        "NULL",
        "Row: 1 _id=2, _data=",
        "No result found.",
        "emoji 😀 é.jpg",
        "back\\slash \\x41.jpg",
        " space ",
        "$(x);`y`",
    ),
    *("tab\t.jpg", "cr\r\n.jpg", "%s%d.jpg", "-rf", "日本.heic"),
)


@pytest.fixture
def world() -> Iterator[World]:
    with phone_behind_adb() as found:
        yield found


# What is listed


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_is_listed_as_it_is_and_its_bytes_are_read(world: World, name: str) -> None:
    for each in ("before.jpg", name, "after.jpg"):
        world.phone.add(each, b"bytes of " + os.fsencode(each))
    library = world.library()
    listing = library.enumerate()
    assert listing.complete, listing.problems
    shown = name.replace("\\x", "\\x5cx")
    assert listing.table["file_name"].to_pylist() == ["before.jpg", shown, "after.jpg"]
    wanted = {sha1(b"bytes of " + os.fsencode(each)) for each in ("before.jpg", name, "after.jpg")}
    assert {done.checksum for done in hashed(library, listing).values()} == wanted


def test_all_odd_names_at_once_do_not_run_into_each_other(world: World) -> None:
    for name in ODD_NAMES:
        world.phone.add(name)
    listing = world.library().enumerate()
    assert listing.complete
    assert listing.table.num_rows == len(ODD_NAMES)


def test_a_name_that_is_not_utf_8_is_escaped_and_its_bytes_are_read(world: World) -> None:
    world.phone.add(b"caf\xe9 \xff.jpg", b"latin")
    library = world.library()
    listing = library.enumerate()
    assert names(listing) == ["caf\\xe9 \\xff.jpg"]
    assert [done.checksum for done in hashed(library, listing).values()] == [sha1(b"latin")]


def test_a_name_that_imitates_the_next_row_is_refused_not_guessed(world: World) -> None:
    world.phone.add("a\nRow: 1 _id=2, _data=/evil.jpg")
    world.phone.add("b.jpg")
    listing = world.library().enumerate()
    assert not listing.complete
    assert "imitates" in listing.problems[0]
    assert listing.table.num_rows == 0


def test_ten_thousand_rows_are_listed_in_a_moment(world: World) -> None:
    for number in range(10_000):
        world.phone.add(f"IMG_{number:05}, a=b.jpg")
    library = world.library()
    began = time.process_time()
    listing = library.enumerate()
    assert listing.complete and listing.table.num_rows == 10_000
    assert time.process_time() - began < 5


def test_an_empty_phone_is_listed_as_empty_and_complete(world: World) -> None:
    listing = world.library().enumerate()
    assert listing.complete and listing.table.num_rows == 0


def test_lesson_23_a_trashed_photo_is_listed_under_its_name_and_named_as_recently_deleted(world: World) -> None:
    kept, trashed = world.phone.add("kept.jpg", b"k"), world.phone.add("gone-away.jpg", b"g")
    library = world.library()
    before = library.enumerate()
    world.phone.trash(trashed)
    after = library.enumerate()
    assert after.complete
    assert set(after.table["local_id"].to_pylist()) == set(before.table["local_id"].to_pylist())
    assert names(after) == ["gone-away.jpg", "kept.jpg"]
    (local_id,) = trashed_ids(after)
    assert local_id.startswith(f"{PRIMARY}:{trashed}:")
    assert hashed(library, after)[local_id].checksum == sha1(b"g")
    changes = library.changes_since(before.token or "", before.table, after.table)
    assert changes.ids("trashed") == {local_id} and changes.table.num_rows == 1
    world.phone.untrash(trashed)
    back = library.enumerate()
    assert not trashed_ids(back)
    assert library.changes_since(after.token or "", after.table, back.table).ids("restored") == {local_id}
    assert kept != trashed


def test_a_photo_that_is_still_being_written_is_not_listed(world: World) -> None:
    world.phone.add(".pending-1714569999-new.jpg", is_pending=1)
    world.phone.add("done.jpg")
    listing = world.library().enumerate()
    assert listing.complete
    assert names(listing) == ["done.jpg"]


def test_a_photo_that_is_being_written_to_again_is_not_gone(world: World) -> None:
    number = world.phone.add("edited.jpg")
    world.phone.update(number, is_pending=1)
    listing = world.library().enumerate()
    assert not listing.complete
    assert "edited.jpg: an app is writing to it" in listing.problems[0]


def test_a_photo_that_a_nomedia_file_hides_is_still_there(world: World) -> None:
    number = world.phone.add("/storage/emulated/0/Pictures/Private/a.jpg")
    library = world.library()
    before = library.enumerate()
    world.phone.update(number, media_type=0)
    assert library.enumerate().table.equals(before.table)


@pytest.mark.parametrize(
    "folder", ["/storage/emulated/0/Android/data/app/cache", "/storage/emulated/0/DCIM/.thumbnails"]
)
def test_what_apps_keep_hidden_is_not_listed(world: World, folder: str) -> None:
    world.phone.add(f"{folder}/1.jpg", media_type=0)
    world.phone.add("/storage/emulated/0/Android/media/com.chat/Images/shown.jpg")
    world.phone.add("/storage/emulated/0/Download/notes.pdf", media_type=6, mime_type="application/pdf")
    assert names(world.library().enumerate()) == ["shown.jpg"]


def test_a_row_that_the_index_is_unsure_of_makes_the_listing_incomplete(world: World) -> None:
    world.phone.update(world.phone.add("new.jpg"), _size=None)
    listing = world.library().enumerate()
    assert not listing.complete
    assert "new.jpg" in listing.problems[0]


def test_a_motion_photo_is_one_asset(world: World) -> None:
    world.phone.add("PXL_1.MP.jpg", b"\xff\xd8 jpeg \xff\xd9 ftypmp42 video")
    world.phone.add("PXL_1.MP.mp4", b"a video of that stem")
    listing = world.library().enumerate()
    assert listing.table["part"].to_pylist() == ["primary", "primary"]
    assert len(set(listing.table["local_id"].to_pylist())) == 2


def test_folders_are_the_albums(world: World) -> None:
    world.phone.add("a.jpg")
    world.phone.add("/storage/emulated/0/Pictures/Trip, 2024=\nRow: 1/b.jpg")
    library = world.library()
    titles = library.albums()
    assert sorted(titles.values()) == ["Camera", "Trip, 2024=\nRow: 1"]
    albums = [titles[album] for row in library.enumerate().table["albums"].to_pylist() for album in row]
    assert albums == ["Camera", "Trip, 2024=\nRow: 1"]


# What changed


def test_an_edit_keeps_the_id_and_is_reported_as_updated(world: World) -> None:
    edited, deleted = world.phone.add("a.jpg", b"one"), world.phone.add("b.jpg", b"two")
    library = world.library()
    before = library.enumerate()
    world.phone.edit(edited, b"one, edited", MODIFIED + 5)
    world.phone.delete(deleted)
    world.phone.add("c.jpg")
    after = library.enumerate()
    changes = library.changes_since(before.token or "", before.table, after.table)
    ids = dict(zip(before.table["file_name"].to_pylist(), before.table["local_id"].to_pylist(), strict=True))
    assert not changes.expired
    assert changes.ids("updated") == {ids["a.jpg"]}
    assert changes.ids("deleted") == {ids["b.jpg"]}
    assert len(changes.ids("inserted")) == 1


def test_a_change_of_a_row_alone_is_known_by_its_generation(world: World) -> None:
    number = world.phone.add("a.jpg")
    library = world.library()
    before = library.enumerate()
    world.phone.update(number, bucket_id=5)
    changes = library.changes_since(before.token or "", before.table, before.table)
    assert changes.ids("updated") == set(before.table["local_id"].to_pylist())


def test_lesson_25_the_token_is_of_before_the_listing(world: World) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    begun = library.change_token()
    late: list[int] = []

    def add_late(service: str) -> None:
        if "_data" in service and not late:
            late.append(world.phone.add("/storage/emulated/0/Download/x.bin", media_type=0, mime_type="text/plain"))

    world.phone.before = add_late
    listing = library.enumerate()
    assert late
    assert listing.token == begun


@pytest.mark.parametrize("change", ["layout", "restored"])
def test_a_token_of_another_version_or_of_a_later_generation_is_expired(world: World, change: str) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    listing = library.enumerate()
    if change == "layout":
        world.phone.version = world.phone.version.replace("1409:", "1500:")
    else:
        world.phone.generation -= 1
    assert library.changes_since(listing.token or "", listing.table, listing.table).expired
    assert library.access().status == "full"
    assert library.enumerate().table.equals(listing.table)


def test_lesson_92_a_rebuilt_media_index_is_not_the_library_it_was(world: World) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    listing = library.enumerate()
    world.phone.version = "1409:ffffffff-0000-4000-8000-000000000000"
    assert "rebuilt" in library.access().problems[0]
    with pytest.raises(LibraryUnavailable, match="rebuilt"):
        library.enumerate()
    assert library.changes_since(listing.token or "", listing.table, listing.table).expired
    again = world.library().enumerate()
    assert not set(again.table["local_id"].to_pylist()) & set(listing.table["local_id"].to_pylist())


def test_a_phone_that_does_not_tell_its_generation_is_asked_for_the_newest(world: World) -> None:
    world.phone.has_generation = False
    world.phone.add("a.jpg")
    library = world.library()
    assert json.loads(library.change_token())["generation"] == world.phone.generation
