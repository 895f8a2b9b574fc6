"""Which changes `watch` heeds, and when it runs."""

from __future__ import annotations

import pytest

from flows.watching import Waiting, counts


@pytest.mark.parametrize(
    "path",
    [
        b"2024/IMG_1.JPG",
        b"IMG_1.mov",
        b".trash/IMG_1.JPG",
        b"2024/.trashed-17-IMG_1.jpg",
        b".Trash-1000/files/notes",
    ],
)
def test_photos_and_trash_folders_count(path: bytes) -> None:
    assert counts(path, "folder", gone=False) and counts(path, "folder", gone=True)


@pytest.mark.parametrize(
    "path", [b".deletion-sync-library", b".thumbnails/1.jpg", b"@eaDir/IMG_1.JPG", b"notes.txt", b"x.jpg.part"]
)
def test_other_files_do_not_count(path: bytes) -> None:
    assert not counts(path, "folder", gone=False) and not counts(path, "folder", gone=True)


@pytest.mark.parametrize("path", [b"2024", b"2024/trip", b"2024.05", b"St. Ives"])
def test_what_may_have_been_a_folder_counts_when_it_is_gone(path: bytes) -> None:
    assert counts(path, "folder", gone=True) and not counts(path, "folder", gone=False)


def test_of_a_photos_library_its_database_counts_and_its_caches_do_not() -> None:
    assert counts(b"database/Photos.sqlite-wal", "apple_photos", gone=False)
    assert counts(b"originals/A/A1.heic", "apple_photos", gone=True)
    assert not counts(b"database/Photos.sqlite-shm", "apple_photos", gone=False)
    assert not counts(b"database/search/psi.sqlite", "apple_photos", gone=True)


def waiting() -> Waiting:
    return Waiting(settle=30, at_most=900, cool_down=60)


def test_nothing_is_due_without_a_change() -> None:
    assert not waiting().due(1e9)


def test_a_run_waits_until_changes_have_settled() -> None:
    it = waiting()
    it.changed(0)
    it.changed(20)
    assert not it.due(49) and it.due(50)


def test_a_busy_place_gets_its_run_all_the_same() -> None:
    it = waiting()
    for second in range(0, 900, 10):
        it.changed(second)
        assert not it.due(second)
    it.changed(900)
    assert it.due(900)


def test_the_start_does_not_wait() -> None:
    it = waiting()
    it.at_once(5)
    assert it.due(5)


def test_lesson_55_a_run_rests_after_a_run_at_least_as_long_as_that_took() -> None:
    it = waiting()
    it.changed(0)
    it.began()
    it.changed(10)  # while it ran
    it.ended(began=0, now=20)
    assert not it.due(79) and it.due(80)
    it.began()
    it.changed(100)
    it.ended(began=80, now=280)
    assert not it.due(479) and it.due(480)


def test_what_failed_is_tried_again_without_a_change() -> None:
    it = waiting()
    it.changed(0)
    it.began()
    it.ended(began=30, now=31)
    it.again(31)
    assert not it.due(930) and it.due(931)
    it.began()
    assert not it.due(1e9)
