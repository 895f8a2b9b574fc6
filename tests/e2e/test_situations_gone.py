"""Situations in which a photo was deleted, or the server's side of it changed: docs/situations.md."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.stories import DAYS, HELD, STAYS, TRASHED, Place, Story, Told, story, tell_all
from tests.library.live_photo_files import apple_film, apple_note, picture
from tests.world import checksum


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell_all(globals().values(), tmp_path_factory.mktemp("situations"))


def live_photo(at: Place, stem: str) -> None:
    at.backed_up(f"{stem}.MOV", visibility="hidden", type="VIDEO")
    at.backed_up(f"{stem}.HEIC", live_photo_video_id=at.id(f"{stem}.MOV"))


# Deleted


@story
def test_a_deleted_photo_is_held_and_then_trashed(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.remove("IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD
    yield
    assert at["IMG_1.JPG"] == HELD
    yield
    assert at["IMG_1.JPG"] == TRASHED


@story
def test_a_deleted_folder_goes_photo_by_photo(at: Place) -> Story:
    names = [f"2019/Rome/IMG_{number}.JPG" for number in range(3)]
    for name in names:
        at.backed_up(name)
    yield
    shutil.rmtree(at.folder / "2019")
    yield
    assert {at[name] for name in names} == {HELD}
    yield
    yield
    assert {at[name] for name in names} == {TRASHED}


@story
def test_both_copies_deleted_is_a_deletion_from_the_second_one_on(at: Place) -> Story:
    at.backed_up("IMG_1.JPG", "deleted twice")
    at.write("copy/IMG_1.JPG", "deleted twice")
    yield
    at.remove("IMG_1.JPG")
    yield
    yield
    assert at["IMG_1.JPG"] == STAYS
    at.remove("copy/IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD  # 15 days after the first copy was missed
    yield
    yield
    assert at["IMG_1.JPG"] == TRASHED


@story
def test_an_edited_photo_that_is_deleted_goes_with_its_original(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.write("IMG_1.JPG", "edited before it was deleted", day=1)
    at.uploaded("edited", "edited before it was deleted")
    yield
    at.remove("IMG_1.JPG")
    yield
    assert (at["IMG_1.JPG"], at["edited"]) == (HELD, HELD)
    yield
    yield
    assert (at["IMG_1.JPG"], at["edited"]) == (TRASHED, TRASHED)


@story
def test_of_a_raw_and_its_jpeg_the_deleted_one_goes_alone(at: Place) -> Story:
    at.backed_up("IMG_1.DNG")
    at.backed_up("IMG_1.JPG")
    yield
    at.remove("IMG_1.DNG")
    for _ in range(3):
        yield
    assert (at["IMG_1.DNG"], at["IMG_1.JPG"]) == (TRASHED, STAYS)


@story
def test_a_photo_moved_out_of_every_library_is_a_deletion_until_it_is_back(at: Place) -> Story:
    for name in ("IMG_1.JPG", "IMG_2.JPG"):
        at.backed_up(name)
    yield
    for name in ("IMG_1.JPG", "IMG_2.JPG"):
        at.move(name, at.outside / name)
    yield
    assert (at["IMG_1.JPG"], at["IMG_2.JPG"]) == (HELD, HELD)
    (at.outside / "IMG_2.JPG").rename(at.folder / "IMG_2.JPG")
    yield
    yield
    assert (at["IMG_1.JPG"], at["IMG_2.JPG"]) == (TRASHED, STAYS)


@story
def test_a_photo_that_no_run_saw_stays(at: Place) -> Story:
    at.write("another.JPG")
    yield
    at.backed_up("IMG_1.JPG")  # taken, backed up and deleted between two runs
    at.remove("IMG_1.JPG")
    for _ in range(len(DAYS) - 1):
        yield
        assert at["IMG_1.JPG"] == STAYS


# In a trash of this computer


@story
def test_a_trash_emptied_late_lets_the_photo_go_at_the_next_run(at: Place) -> Story:
    trash = ".Trash-1000/files/IMG_1.JPG"
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", trash)
    for _ in range(3):
        yield
        assert at["IMG_1.JPG"] == STAYS
    at.remove(trash)
    yield
    assert at["IMG_1.JPG"] == TRASHED


@story
def test_a_storage_boxes_recycle_bin_is_a_trash(at: Place) -> Story:
    bins = {"IMG_1.JPG": "#recycle", "IMG_2.JPG": "@Recycle", "IMG_3.JPG": "$RECYCLE.BIN/S-1-5"}
    for name in bins:
        at.backed_up(name)
    yield
    for name, place in bins.items():
        at.move(name, f"{place}/{name}")
    for _ in range(3):
        yield
        assert {at[name] for name in bins} == {STAYS}
    for name, place in bins.items():
        at.remove(f"{place}/{name}")
    yield
    assert {at[name] for name in bins} == {TRASHED}  # the clock began when they went into the bin


@story
def test_a_deletion_that_syncthing_kept_a_version_of_waits_for_the_version_to_go(at: Place) -> Story:
    version = ".stversions/IMG_1~20260302-120000.JPG"
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", version)
    for _ in range(3):
        yield
        assert at["IMG_1.JPG"] == STAYS
    at.remove(version)
    yield
    assert at["IMG_1.JPG"] == TRASHED


@story
def test_a_trash_outside_the_library_is_a_deletion(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.move("IMG_1.JPG", at.outside / ".local/share/Trash/files/IMG_1.JPG")
    yield
    assert at["IMG_1.JPG"] == HELD


# Live Photos


@story
def test_both_halves_of_a_live_photo_deleted_go_together(at: Place) -> Story:
    live_photo(at, "IMG_1")
    yield
    at.remove("IMG_1.HEIC", "IMG_1.MOV")
    yield
    assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == (HELD, STAYS)  # a video is never listed beside its still
    yield
    yield
    assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == (TRASHED, TRASHED)


@story
def test_only_the_still_of_a_live_photo_deleted_is_shown_and_the_video_stays(at: Place) -> Story:
    live_photo(at, "IMG_1")
    yield
    at.remove("IMG_1.HEIC")
    yield
    assert at["IMG_1.HEIC"] == HELD
    yield
    for _ in range(3):
        yield
        assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == ("review: motion_alive", STAYS)


@story
def test_only_the_video_of_a_live_photo_deleted_changes_nothing(at: Place) -> Story:
    live_photo(at, "IMG_1")
    yield
    at.remove("IMG_1.MOV")
    for _ in range(len(DAYS) - 1):
        yield
        assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == (STAYS, STAYS)


@story
def test_halves_of_a_live_photo_moved_apart_stay(at: Place) -> Story:
    live_photo(at, "IMG_1")
    film, still = apple_film("APART").decode("latin-1"), picture(apple_note("APART")).decode("latin-1")
    (at.folder / "with.MOV").write_bytes(film.encode("latin-1"))
    (at.folder / "with.JPG").write_bytes(still.encode("latin-1"))
    at.uploaded("with.MOV", checksum=checksum(film.encode("latin-1")), visibility="hidden", type="VIDEO")
    at.uploaded("with.JPG", checksum=checksum(still.encode("latin-1")), live_photo_video_id=at.id("with.MOV"))
    yield
    for stem, kind in (("IMG_1", "HEIC"), ("with", "JPG")):
        at.move(f"{stem}.{kind}", f"stills/{stem}.{kind}")
        at.move(f"{stem}.MOV", f"videos/{stem}.MOV")
    for _ in range(len(DAYS) - 1):
        yield
        assert {at[name] for name in ("IMG_1.HEIC", "IMG_1.MOV", "with.JPG", "with.MOV")} == {STAYS}


@story
def test_a_live_photo_renamed_half_by_half_stays(at: Place) -> Story:
    live_photo(at, "IMG_1")
    yield
    at.move("IMG_1.HEIC", "Holiday.HEIC")
    yield
    assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == (STAYS, STAYS)
    at.move("IMG_1.MOV", "Holiday.MOV")
    for _ in range(len(DAYS) - 2):
        yield
        assert (at["IMG_1.HEIC"], at["IMG_1.MOV"]) == (STAYS, STAYS)


# On the server


@story
def test_an_archived_or_favourite_photo_goes_like_any_other(at: Place) -> Story:
    at.backed_up("archived.JPG", visibility="archive")
    at.backed_up("favourite.JPG", is_favorite=True)
    yield
    at.remove("archived.JPG", "favourite.JPG")
    yield
    yield
    yield
    assert (at["archived.JPG"], at["favourite.JPG"]) == (TRASHED, TRASHED)


@story
def test_a_photo_renamed_and_dated_anew_on_the_server_goes_when_it_is_deleted_here(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.world.simulator.change_asset(at.id("IMG_1.JPG"), file_name="Holiday.JPG", captured_at=at.world.now)
    yield
    assert at["IMG_1.JPG"] == STAYS
    at.remove("IMG_1.JPG")
    yield
    yield
    yield
    yield
    assert at["IMG_1.JPG"] == TRASHED


@story
def test_what_is_in_the_servers_trash_already_is_not_sent_again(at: Place) -> Story:
    simulator = at.world.simulator
    at.backed_up("IMG_1.JPG")
    yield
    by_hand = at.world.now
    simulator.change_asset(at.id("IMG_1.JPG"), deleted_at=by_hand)
    at.remove("IMG_1.JPG")
    for _ in range(len(DAYS) - 1):
        yield
    assert simulator.asset(at.id("IMG_1.JPG")).deleted_at == by_hand
    assert at.id("IMG_1.JPG") not in str([request.json for request in simulator.mutations()])


@story
def test_a_trashed_photo_that_somebody_uploads_again_is_shown(at: Place) -> Story:
    at.backed_up("IMG_1.JPG")
    yield
    at.remove("IMG_1.JPG")
    for _ in range(3):
        yield
    assert at["IMG_1.JPG"] == TRASHED
    at.world.simulator.purge(at.id("IMG_1.JPG"))
    at.uploaded("IMG_1.JPG")
    for _ in range(2):
        yield
        assert at["IMG_1.JPG"] == "review: not_vouched_for"


@story
def test_a_deleted_photo_that_is_uploaded_from_elsewhere_goes_when_its_quarantine_is_over(at: Place) -> Story:
    at.write("soon.JPG")
    at.write("late.JPG")
    yield
    at.remove("soon.JPG", "late.JPG")
    yield
    at.uploaded("soon.JPG")
    yield
    assert at["soon.JPG"] == HELD
    yield
    assert at["soon.JPG"] == TRASHED
    at.uploaded("late.JPG")
    yield
    assert at["late.JPG"] == TRASHED  # its quarantine was over before the server had it
