"""A phone through the whole pipeline: what a person does on it, and what lands in the server's trash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks import clock
from tests.library.android_world import Phone, phone_world
from tests.library.fake_adb import MODIFIED
from tests.library.remembered import confirmed, decided
from tests.world import checksum

ONE = "IMG_1.jpg"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    with phone_world(tmp_path, monkeypatch) as here:
        assert here.world.reconcile(dry_run=False).outcome == "nothing to do"
        yield here


def test_a_photo_deleted_on_the_phone_is_held_and_then_trashed(here: Phone) -> None:
    here.phone.delete(here.numbers[ONE])
    held = here.world.reconcile()
    assert (held.counts["local"], held.counts["held"], held.counts["delete"]) == (5, 1, 0), held
    assert here.run(13) == set()
    assert here.run(1) == {ONE}


def test_a_photo_put_into_the_phone_s_trash_starts_its_clock_there_and_goes_once_the_trash_is_emptied(
    here: Phone,
) -> None:
    here.phone.trash(here.numbers[ONE])
    began = clock.naive_now()
    kept = here.world.reconcile()
    assert (kept.counts["local"], kept.counts["held"], kept.counts["delete"]) == (6, 0, 0), kept
    assert confirmed() == {checksum(f"photo {ONE}".encode()): began}
    for _ in range(3):
        assert here.run(10) == set()
    assert set(confirmed().values()) == {began}
    here.phone.delete(here.numbers[ONE])
    assert here.run() == {ONE}


def test_of_a_trash_that_is_emptied_early_only_the_rest_of_the_quarantine_is_left(here: Phone) -> None:
    here.phone.trash(here.numbers[ONE])
    here.run()
    here.world.pass_days(5)
    here.phone.delete(here.numbers[ONE])
    assert decided(here.world, here.world.reconcile()) == {ONE: ("held", "quarantine", 9)}
    assert here.run(8) == set()
    assert here.run(1) == {ONE}


def test_lesson_4_a_photo_put_back_from_the_trash_is_not_confirmed_any_more_and_never_trashed(here: Phone) -> None:
    here.phone.trash(here.numbers[ONE])
    here.run()
    assert confirmed()
    here.phone.untrash(here.numbers[ONE])
    assert here.run(20) == set() and not confirmed()
    here.phone.trash(here.numbers[ONE])  # a new deletion serves its whole quarantine
    assert here.run(20) == set()
    here.phone.delete(here.numbers[ONE])
    assert decided(here.world, here.world.reconcile())[ONE] == ("held", "quarantine", 14)


def test_a_photo_put_back_between_the_plan_and_its_approval_stays(here: Phone) -> None:
    here.phone.trash(here.numbers[ONE])
    here.run()
    content, modified = here.phone.files[here.phone.path(here.numbers[ONE])]
    here.phone.delete(here.numbers[ONE])
    here.world.pass_days(14)
    planned = here.world.reconcile()
    assert planned.outcome == "planned"
    here.phone.add(ONE, content, modified=modified)
    here.world.apply(planned)
    assert here.world.trashed() == set()


def test_a_copy_outside_the_trash_keeps_the_photo(here: Phone) -> None:
    here.phone.add("/storage/emulated/0/Pictures/copy.jpg", f"photo {ONE}".encode())
    here.run()
    here.phone.trash(here.numbers[ONE])
    here.run()
    here.phone.delete(here.numbers[ONE])
    for _ in range(2):
        assert here.run(20) == set()
    assert not confirmed()


def test_lesson_1_an_edited_photo_trashed_and_put_back_keeps_its_original(here: Phone) -> None:
    number = here.numbers[ONE]
    here.phone.edit(number, b"edited", MODIFIED + 100)
    here.upload("edited", b"edited")
    for _ in range(3):
        assert here.run(20) == set()
    here.phone.trash(number)
    assert here.run() == set()
    assert set(confirmed()) == {checksum(b"edited"), checksum(f"photo {ONE}".encode())}
    here.phone.untrash(number)
    for _ in range(2):
        assert here.run(20) == set()
    assert not confirmed()
    here.phone.trash(number)
    here.run()
    here.phone.delete(number)
    assert here.run(14) == {ONE, "edited"}


@pytest.mark.parametrize("same_row", [True, False])
def test_a_gallery_s_own_trash_folder_counts_as_the_trash_whether_the_row_moves_or_is_made_anew(
    here: Phone, same_row: bool
) -> None:
    number = here.numbers[ONE]
    bin_ = "/storage/emulated/0/Android/.Trash/com.sec.android.gallery3d/0f/1.jpg"
    content, modified = here.phone.files[here.phone.path(number)]
    if same_row:
        here.phone.move(number, bin_, media_type=0)
    else:
        here.phone.delete(number)
        number = here.phone.add(bin_, content, modified=modified, media_type=0)
    began = clock.naive_now()
    for _ in range(2):
        assert here.run() == set()
        here.world.pass_days(20)
    assert set(confirmed().values()) == {began}
    here.phone.delete(number)
    assert here.run() == {ONE}


def test_lesson_15_the_video_that_the_server_took_out_of_a_motion_photo_goes_and_comes_back_with_it(
    here: Phone,
) -> None:
    content = b"\xff\xd8 jpeg \xff\xd9 \0\0\0\x18ftypmp42 video"
    number = here.phone.add("PXL_1.MP.jpg", content)
    video = here.upload("video", b"video", visibility="hidden", type="VIDEO")
    here.upload("PXL_1.MP.jpg", content, live_photo_video_id=video)
    here.run()
    here.phone.delete(number)
    here.run()
    here.world.pass_days(14)
    done = here.world.apply(here.world.reconcile())
    assert here.world.trashed() == {"PXL_1.MP.jpg", "video"}
    assert here.world.restore(done.run_id).outcome == "restored"
    assert here.world.trashed() == set()


def test_an_odd_name_goes_the_whole_way(here: Phone) -> None:
    name = 'a, b=\nRow: 1 "it\'s" 😀.jpg'
    here.backed_up(name)
    here.run()
    here.phone.trash(here.numbers[name])
    here.run()
    here.phone.delete(here.numbers[name])
    assert here.run(14) == {name}


def test_under_a_restricted_scope_only_photos_of_the_selected_folder_go(here: Phone) -> None:
    other = "/storage/emulated/0/Pictures/Trip/far.jpg"
    here.backed_up(other)
    here.run()
    (trip,) = (album for album, title in here.library().albums().items() if title == "Trip")
    here.world.change_settings(indexingScope={"selectedAlbums": [f"phone/{trip}"]}, thresholdPercent=100)
    here.run()
    for name in (ONE, other):
        here.phone.trash(here.numbers[name])
    here.run()
    for name in (ONE, other):
        here.phone.delete(here.numbers[name])
    assert here.run(14) == {other}
