"""A phone on its bad days: whatever stands between the program and it, nothing is deleted, and the reason is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import DeletionSyncError
from tasks.summary import Summary
from tests.library.android_world import Phone, phone_world
from tests.library.fake_adb import FakePhone
from tests.library.remembered import confirmed

ONE = "IMG_1.jpg"
_FAILED = "Error while accessing provider:media\n"


@contextmanager
def something_due(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    """One photo's quarantine is over; another phone, with other photos, is connected too."""
    other = FakePhone(serial="OTHER")
    other.add("of somebody else.jpg")
    with phone_world(root, monkeypatch, other) as here:
        assert here.world.reconcile(dry_run=False).outcome == "nothing to do"
        here.phone.delete(here.numbers[ONE])
        here.run()
        here.world.pass_days(14)
        yield here


@pytest.fixture
def due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    with something_due(tmp_path, monkeypatch) as here:
        yield here


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Phone, Summary]]:
    """What is due is planned; since then a photo was deleted and one was taken. No bad day changes any of that."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        something_due(tmp_path_factory.mktemp("planned"), monkeypatch) as here,
    ):
        summary = here.world.reconcile()
        assert summary.outcome == "planned"
        here.phone.delete(here.numbers["IMG_2.jpg"])
        here.phone.add("IMG_9.jpg", b"new")
        yield here, summary


@pytest.fixture
def bad_day(planned: tuple[Phone, Summary]) -> Iterator[tuple[Phone, Summary]]:
    """The phone is well again afterwards."""
    phone = planned[0].phone
    well = {name: getattr(phone, name) for name in BEFALLEN}
    yield planned
    change(**well)(phone)


def in_the_middle(happens: Callable[[FakePhone], None]) -> Callable[[FakePhone], None]:
    """Something that happens while the media index is being listed, after it was counted."""

    def arm(phone: FakePhone) -> None:
        phone.before = lambda service: happens(phone) if "_size" in service else None

    return arm


def stop_server(phone: FakePhone) -> None:
    phone.stop_server()


def cut_off(phone: FakePhone) -> None:
    phone.before = lambda service: 300 if "_data" in service else None


def truncated(phone: FakePhone) -> None:
    phone.shows = 2


def change(**fields: object) -> Callable[[FakePhone], None]:
    def happens(phone: FakePhone) -> None:
        for name, value in fields.items():
            setattr(phone, name, value)

    return happens


def refused(text: str) -> Callable[[FakePhone], None]:
    return change(refuses=lambda service: text if service.startswith("content") else "")


BAD_DAYS: dict[str, tuple[Callable[[FakePhone], None], str]] = {
    "unplugged": (change(connected=lambda: False), "the phone is not connected"),
    "unplugged in the middle": (in_the_middle(change(connected=lambda: False)), "the phone is not connected"),
    "not authorised any more": (in_the_middle(change(state="unauthorized")), "unlock it and allow USB debugging"),
    "restarted and still locked": (
        refused(f"{_FAILED}java.lang.IllegalStateException: Could not find provider: media"),
        "not unlocked since it was switched on",
    ),
    "its storage is full": (
        refused(f"{_FAILED}android.database.sqlite.SQLiteFullException: database or disk is full (code 13)"),
        "disk is full",
    ),
    "another phone answers to its name": (change(hardware="ANOTHER"), "another phone"),
    "its media index was rebuilt": (change(version="1409:ffff"), "rebuilt"),
    "an answer is cut off": (cut_off, "cut"),
    "fewer rows than were counted": (truncated, "counts 5 photos and videos, and shows 2"),
}
BEFALLEN = ("connected", "before", "state", "refuses", "hardware", "version", "shows")


def nothing_happens(here: Phone, planned: Summary, befall: Callable[[FakePhone], None], said: str) -> None:
    """On a day that befalls the phone after the plan was made."""
    before = confirmed()
    befall(here.phone)
    with pytest.raises(DeletionSyncError, match=said):
        outcome = here.world.apply(planned)
        raise DeletionSyncError(f"{outcome.outcome} {outcome.notes}")
    summary = here.world.reconcile()
    assert summary.outcome == "aborted" and summary.rail in ("permission", "incomplete"), summary
    assert said in summary.notes[0], summary
    assert confirmed() == before and not here.world.trashed()


@pytest.mark.parametrize("day", BAD_DAYS)
def test_lesson_85_on_a_bad_day_nothing_is_planned_trashed_or_confirmed_and_the_reason_is_said(
    bad_day: tuple[Phone, Summary], day: str
) -> None:
    nothing_happens(*bad_day, *BAD_DAYS[day])


def test_the_plan_of_before_those_days_is_applied_when_the_phone_is_well_again(planned: tuple[Phone, Summary]) -> None:
    here, summary = planned
    assert here.world.apply(summary).outcome == "trashed" and here.world.trashed() == {ONE}


def test_lesson_85_an_adb_server_that_ends_in_the_middle_is_no_empty_phone(due: Phone) -> None:
    planned = due.world.reconcile()
    due.phone.delete(due.numbers["IMG_2.jpg"])
    nothing_happens(due, planned, in_the_middle(stop_server), "no adb server answers")


def test_lesson_85_the_photos_of_another_phone_never_stand_for_those_of_the_registered_one(due: Phone) -> None:
    due.phone.connected = lambda: False
    summary = due.world.reconcile()
    assert (summary.outcome, summary.rail) == ("aborted", "permission") and due.phone.serial in summary.notes[0]
    due.phone.connected = lambda: True
    assert due.run() == {ONE}


def test_a_phone_that_goes_away_while_its_photos_are_hashed_makes_the_run_incomplete(due: Phone) -> None:
    due.phone.add("IMG_9.jpg", b"new")
    due.phone.delete(due.numbers["IMG_2.jpg"])
    before = confirmed()
    due.phone.before = lambda service: 10 if service.startswith("RECV") else None
    summary = due.world.reconcile()
    assert (summary.outcome, summary.rail) == ("aborted", "incomplete") and "cut" in summary.notes[0], summary
    assert confirmed() == before
    due.phone.before = lambda _: None
    assert due.run() == {ONE}
