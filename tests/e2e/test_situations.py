"""Situations in which a photo seems gone, and is not: docs/situations.md, the groups on what is still there."""

from __future__ import annotations

import os
import shutil
import unicodedata
from datetime import UTC, datetime

import pytest

from tests.e2e.stories import DAYS, HELD, STAYS, TRASHED, Place, Story, Told, story, tell_all

SHOWN = "review: not_vouched_for"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell_all(globals().values(), tmp_path_factory.mktemp("situations"))


def through_all_runs(at: Place, *names: str, runs: int = len(DAYS) - 1) -> Story:
    """The rest of the runs, in each of which these assets stay."""
    for _ in range(runs):
        yield
        assert {name: at[name] for name in names} == dict.fromkeys(names, STAYS)


# Names and places


@story
def test_a_photo_moved_to_another_folder_stays(at: Place) -> Story:
    at.backed_up("2024/IMG_1.JPG")
    yield
    at.move("2024/IMG_1.JPG", "Rome/day 1/IMG_1.JPG")
    yield from through_all_runs(at, "2024/IMG_1.JPG")


@story
def test_a_renamed_photo_stays(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", "Holiday.JPG")
    yield from through_all_runs(at, "IMG_1.JPG")


@story
def test_a_photo_renamed_in_case_only_stays(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", "img_1.jpg")
    yield from through_all_runs(at, "IMG_1.JPG")


@story
def test_the_photos_of_a_renamed_folder_stay(at: Place) -> Story:
    names = [f"2024/IMG_{number}.JPG" for number in range(4)]
    for name in names:
        at.backed_up(name)
    yield
    at.move("2024", "Last year")
    yield from through_all_runs(at, *names)


@story
def test_a_name_in_another_unicode_form_is_the_same_photo(at: Place) -> Story:
    name = "Zoë/Ängström.JPG"
    at.backed_up(unicodedata.normalize("NFC", name))
    yield
    at.move("Zoë", unicodedata.normalize("NFD", "Zoë"))
    at.move(unicodedata.normalize("NFD", "Zoë") + "/Ängström.JPG", unicodedata.normalize("NFD", name))
    yield from through_all_runs(at, name)


@story
def test_a_photo_with_another_extension_of_its_type_stays(at: Place) -> Story:
    at.backed_up("IMG_1.jpeg")
    yield
    at.move("IMG_1.jpeg", "IMG_1.JPG")
    yield from through_all_runs(at, "IMG_1.jpeg")


@story
def test_a_photo_moved_to_another_registered_library_stays(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", at.elsewhere / "IMG_1.JPG")
    yield from through_all_runs(at, "IMG_1.JPG")


@story
def test_two_photos_that_exchanged_their_names_stay(at: Place) -> Story:
    at.backed_up("A.JPG")
    at.backed_up("B.JPG")
    yield
    at.move("A.JPG", "C.JPG")
    at.move("B.JPG", "A.JPG")
    at.move("C.JPG", "B.JPG")
    yield from through_all_runs(at, "A.JPG", "B.JPG")


# Edits


@story
def test_a_photo_edited_in_place_stays_with_its_original(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.write("IMG_1.JPG", "edited", day=1)
    at.uploaded("edited", "edited")
    yield from through_all_runs(at, "IMG_1.JPG", "edited")


@story
def test_of_an_edit_that_was_reverted_only_the_edit_goes(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.write("IMG_1.JPG", "an edit to revert", day=1)
    at.uploaded("edit", "an edit to revert")
    yield
    at.write("IMG_1.JPG")
    yield
    assert (at["IMG_1.JPG"], at["edit"]) == (STAYS, "held: retired_edit")
    yield
    assert at["edit"] == HELD
    yield
    yield
    assert (at["IMG_1.JPG"], at["edit"]) == (STAYS, TRASHED)


@story
def test_photos_whose_metadata_was_rewritten_stay(at: Place) -> Story:
    names = [f"IMG_{number}.JPG" for number in range(5)]
    for name in names:
        at.backed_up(name)
    yield
    for name in names:
        at.write(name, f"{name} with a place", day=1)
    yield
    for name in names:
        at.write(name, f"{name} with a place and a title", day=2)
    yield from through_all_runs(at, *names, runs=len(DAYS) - 2)


@story
def test_a_photo_edited_under_a_new_name_goes_when_the_original_was_deleted(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.remove("IMG_1.JPG")
    at.backed_up("IMG_1-edited.JPG", "saved under a new name")
    yield
    assert at["IMG_1.JPG"] == HELD
    yield
    yield
    assert (at["IMG_1.JPG"], at["IMG_1-edited.JPG"]) == (TRASHED, STAYS)


@story
def test_a_photo_converted_to_another_type_goes_when_the_original_was_deleted(at: Place) -> Story:
    at.backed_up("IMG_1.HEIC")
    yield
    at.remove("IMG_1.HEIC")
    at.backed_up("IMG_1.JPG", "the same in another type")
    yield
    yield
    assert at["IMG_1.HEIC"] == HELD
    yield
    assert (at["IMG_1.HEIC"], at["IMG_1.JPG"]) == (TRASHED, STAYS)


@story
def test_a_photo_whose_time_was_changed_stays(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    os.utime(at.folder / "IMG_1.JPG", (1_700_000_000, 1_700_000_000))
    yield from through_all_runs(at, "IMG_1.JPG")


@story
def test_a_photo_replaced_by_another_of_its_size_and_time_is_an_edit(at: Place) -> Story:
    at.backed_up("IMG_1.JPG", "one of this size")
    yield
    before = os.stat(at.folder / "IMG_1.JPG")  # noqa: PTH116  (as the listing asks)
    at.write("IMG_1.new", "two of this size")
    at.uploaded("two", "two of this size")
    os.utime(at.folder / "IMG_1.new", ns=(before.st_atime_ns, before.st_mtime_ns))
    at.move("IMG_1.new", "IMG_1.JPG")
    yield
    at.remove("IMG_1.JPG")
    yield
    assert (at["IMG_1.JPG"], at["two"]) == (HELD, HELD)  # both were seen, so both are known to be gone


@story
def test_a_photo_overwritten_with_its_size_and_time_put_back_stays(at: Place) -> Story:
    at.backed_up("IMG_1.JPG", "the first bytes")
    at.uploaded("other", "the other bytes")
    yield
    path = at.folder / "IMG_1.JPG"
    before = os.stat(path)  # noqa: PTH116  (as the listing asks)
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    yield from through_all_runs(at, "IMG_1.JPG", "other")


# Copies, and photos that came again


@story
def test_one_of_two_copies_deleted_keeps_the_photo(at: Place) -> Story:
    at.backed_up("IMG_1.JPG", "two copies")
    at.write("copy/IMG_1 (1).JPG", "two copies")
    yield
    at.remove("IMG_1.JPG")
    yield from through_all_runs(at, "IMG_1.JPG")


@story
def test_a_copy_replaced_by_a_link_to_the_other_keeps_the_photo(at: Place) -> Story:
    for kind in ("symbolic", "hard"):
        at.backed_up(f"{kind}.JPG", f"{kind} copies")
        at.write(f"copy/{kind}.JPG", f"{kind} copies")
    yield
    at.remove("copy/symbolic.JPG", "copy/hard.JPG")
    (at.folder / "copy/symbolic.JPG").symlink_to("../symbolic.JPG")
    (at.folder / "copy/hard.JPG").hardlink_to(at.folder / "hard.JPG")
    yield from through_all_runs(at, "symbolic.JPG", "hard.JPG")


@story
def test_a_photo_imported_again_under_another_name_is_kept(at: Place) -> Story:
    at.backed_up("IMG_1.JPG", "the same bytes")
    yield
    at.remove("IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD
    at.write("Import/P1000123.JPG", "the same bytes")
    yield from through_all_runs(at, "IMG_1.JPG", runs=len(DAYS) - 2)


@story
def test_lesson_8_other_bytes_of_the_same_name_and_second_are_shown(at: Place) -> Story:
    taken = 1_580_000_000
    at.backed_up("IMG_1.JPG", "exported once", captured_at=datetime.fromtimestamp(taken, UTC))
    yield
    at.remove("IMG_1.JPG")
    at.write("Import/img_1.jpg", "exported again, with other bytes")
    os.utime(at.folder / "Import/img_1.jpg", (taken + 1, taken + 1))
    yield
    assert at["IMG_1.JPG"] == HELD
    yield
    for _ in range(3):
        yield
        assert at["IMG_1.JPG"] == "review: alive_under_another_checksum"


@story
def test_lesson_4_a_photo_that_is_put_back_serves_a_new_quarantine(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.remove("IMG_1.JPG")
    yield
    at.write("IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == STAYS
    at.remove("IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD  # 15 days after it went for the first time
    yield
    yield
    assert at["IMG_1.JPG"] == TRASHED


# Hidden


@story
def test_a_hidden_folder_is_shown_and_what_is_shown_again_stays(at: Place) -> Story:
    at.backed_up("private/IMG_1.JPG")
    yield
    at.move("private", ".private")
    yield
    assert at["private/IMG_1.JPG"] == SHOWN
    yield
    yield
    assert at["private/IMG_1.JPG"] == SHOWN
    at.move(".private", "private")
    yield
    assert at["private/IMG_1.JPG"] == STAYS


@story
def test_a_hidden_photo_is_shown_and_never_trashed(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", ".IMG_1.JPG")
    for _ in range(len(DAYS) - 1):
        yield
        assert at["IMG_1.JPG"] == SHOWN


@story
def test_a_photo_whose_extension_was_taken_away_is_shown_and_never_trashed(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", "IMG_1.JPG.old")
    for _ in range(len(DAYS) - 1):
        yield
        assert at["IMG_1.JPG"] == SHOWN


@story
def test_a_photo_deleted_while_it_was_hidden_is_shown_and_never_trashed(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", ".IMG_1.JPG")
    yield
    at.remove(".IMG_1.JPG")
    for _ in range(len(DAYS) - 2):
        yield
        assert at["IMG_1.JPG"] == SHOWN


@story
def test_a_copy_under_a_hidden_name_does_not_keep_a_deleted_photo(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    (at.folder / ".private").mkdir()
    shutil.copy2(at.folder / "IMG_1.JPG", at.folder / ".private/IMG_1.JPG")
    at.remove("IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD
    yield
    yield
    assert at["IMG_1.JPG"] == TRASHED


# Half synced


@story
def test_a_photo_cut_to_nothing_by_a_sync_keeps_its_server_copy(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.write("IMG_1.JPG", "", day=1)
    yield
    assert at["IMG_1.JPG"] == STAYS
    at.write("IMG_1.JPG")
    yield from through_all_runs(at, "IMG_1.JPG", runs=len(DAYS) - 2)


@story
def test_a_photo_that_a_sync_is_fetching_again_is_held_and_then_kept(at: Place) -> Story:
    names = {"IMG_1.JPG": "IMG_1.JPG.part", "IMG_2.JPG": ".IMG_2.JPG.x7Qk", "IMG_3.JPG": ".syncthing.IMG_3.JPG.tmp"}
    for name in names:
        at.backed_up(name)
    yield
    for name, unfinished in names.items():
        at.write(unfinished, "half of it", day=1)
        at.remove(name)
    yield
    assert {at[name] for name in names} == {HELD}
    for name, unfinished in names.items():
        at.write(name)
        at.remove(unfinished)
    yield from through_all_runs(at, *names, runs=len(DAYS) - 2)


@story
def test_files_beside_the_photos_count_for_nothing(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    for beside in ("IMG_1.xmp", "IMG_1.AAE", "Thumbs.db", "@eaDir/IMG_1.JPG"):
        at.write(beside)
    yield
    at.remove("IMG_1.xmp", "IMG_1.AAE", "Thumbs.db")
    shutil.rmtree(at.folder / "@eaDir")
    yield from through_all_runs(at, "IMG_1.JPG")
