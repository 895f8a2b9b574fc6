"""What a phone behind adb must not be believed: an answer that was cut off, another phone, a card that is out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from library.android_adb import AndroidLibrary, register_android
from library.errors import LibraryRefused, LibraryUnavailable
from tests.library.android_phone import World, names, phone_behind_adb
from tests.library.fake_adb import FakePhone, fake_adb


@pytest.fixture
def world() -> Iterator[World]:
    with phone_behind_adb() as found:
        yield found


@pytest.mark.parametrize("asked", ["_size", "_data"])
@pytest.mark.parametrize("lost", [1, 5000, 30_000])
def test_lesson_87_an_answer_that_is_cut_off_is_never_a_shorter_library(world: World, asked: str, lost: int) -> None:
    for number in range(1000):
        world.phone.add(f"IMG_{number}.jpg")
    library = world.library()
    world.phone.before = lambda service: lost if asked in service else None
    with pytest.raises(LibraryUnavailable, match="cut"):
        library.enumerate()


def test_lesson_87_fewer_rows_than_were_counted_make_the_listing_incomplete(world: World) -> None:
    first = world.phone.add("a.jpg")
    world.phone.add("b.jpg")
    counts: list[int] = []

    def hide_one(service: str) -> None:
        world.phone.update(
            first,
            media_type=0 if "COUNT" not in service else 1,
            mime_type="x" if "COUNT" not in service else "image/jpeg",
        )
        counts.append(1)

    library = world.library()
    world.phone.before = hide_one
    listing = library.enumerate()
    assert not listing.complete and counts
    assert "counts 2 photos and videos, and shows 1" in listing.problems[0]


def test_a_phone_that_takes_a_photo_meanwhile_is_listed_again(world: World) -> None:
    world.phone.add("a.jpg")
    taken: list[int] = []

    def take_one(service: str) -> None:
        if "_data" in service and not taken:
            taken.append(world.phone.add("b.jpg"))

    library = world.library()
    world.phone.before = take_one
    listing = library.enumerate()
    assert listing.complete
    assert names(listing) == ["a.jpg", "b.jpg"]


def test_a_phone_that_goes_away_in_the_middle_is_unavailable_never_empty(world: World) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    present = [True]
    world.phone.connected = lambda: present[0]

    def unplug(service: str) -> int | None:
        if "_size" in service:
            present[0] = False
            return 0
        return None

    world.phone.before = unplug
    with pytest.raises(
        LibraryUnavailable, match=r"R58M123ABC: the (phone is not connected|connection to the phone was cut)"
    ):
        library.enumerate()
    assert library.access().problems == ("phone R58M123ABC: the phone is not connected",)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("unauthorized", "allow USB debugging"),
        ("offline", "unplug it"),
        ("recovery", "in the state “recovery”"),
    ],
)
def test_a_phone_that_is_not_ready_says_what_to_do(world: World, state: str, said: str) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    listing = library.enumerate()
    world.phone.state = state
    access = library.access()
    assert access.status == "limited" and said in access.problems[0] and "R58M123ABC" in access.problems[0]
    with pytest.raises(LibraryUnavailable, match=said):
        library.enumerate()
    with pytest.raises(OSError):
        library.stamp(listing.table["local_id"][0].as_py(), "primary")
    with pytest.raises(LibraryRefused, match=said):
        world.library()


def test_another_phone_behind_the_same_address_is_not_the_library_it_was() -> None:
    first, second = FakePhone(serial="10.0.0.7:5555", hardware="AAA"), FakePhone(serial="10.0.0.7:5555", hardware="BBB")
    first.add("a.jpg")
    present = [first]
    first.connected, second.connected = (lambda: present[0] is first), (lambda: present[0] is second)
    with fake_adb(first, second) as (host, port):
        library = AndroidLibrary("L", "Phone", register_android(None, host, port))
        present[0] = second
        assert "another phone" in library.access().problems[0]
        with pytest.raises(LibraryUnavailable, match="another phone"):
            library.enumerate()


def test_of_two_phones_the_registered_one_is_read() -> None:
    one, two = FakePhone(serial="ONE"), FakePhone(serial="TWO")
    one.add("one.jpg")
    two.add("two.jpg")
    with fake_adb(one, two) as (host, port):
        with pytest.raises(LibraryRefused, match="ONE, TWO"):
            register_android(None, host, port)
        library = AndroidLibrary("L", "Phone", register_android("TWO", host, port))
        assert names(library.enumerate()) == ["two.jpg"]
        two.connected = lambda: False
        assert library.access().problems == ("phone TWO: the phone is not connected",)


def test_no_phone_at_all_is_refused() -> None:
    with fake_adb() as (host, port), pytest.raises(LibraryRefused, match="No phone is connected"):
        register_android(None, host, port)


def test_lesson_85_a_card_that_is_out_is_limited_and_a_new_one_too(world: World) -> None:
    world.phone.volumes["public:179,1"] = "mounted 1A2B-3C4D"
    world.phone.add("a.jpg")
    world.phone.add("/storage/1A2B-3C4D/DCIM/b.jpg", volume_name="1a2b-3c4d")
    library = world.library()
    assert names(library.enumerate()) == ["a.jpg", "b.jpg"]
    world.phone.volumes["public:179,1"] = "unmounted 1A2B-3C4D"
    assert "1a2b-3c4d is not mounted" in library.access().problems[0]
    with pytest.raises(LibraryUnavailable, match="not mounted"):
        library.enumerate()
    world.phone.volumes["public:179,1"] = "mounted 1A2B-3C4D"
    world.phone.volumes["public:8,1"] = "mounted FFFF-0000"
    assert "ffff-0000 was not there" in library.access().problems[0]


def test_a_card_that_is_taken_out_during_the_listing_is_noticed(world: World) -> None:
    world.phone.volumes["public:179,1"] = "mounted 1A2B-3C4D"
    world.phone.add("a.jpg")
    library = world.library()

    def eject(service: str) -> None:
        if "content://media/1a2b-3c4d/file" in service:
            world.phone.volumes["public:179,1"] = "ejecting 1A2B-3C4D"

    world.phone.before = eject
    with pytest.raises(LibraryUnavailable, match="not mounted"):
        library.enumerate()


def test_a_phone_that_refuses_the_query_is_unavailable(world: World) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    world.phone.index.execute("ALTER TABLE files RENAME COLUMN mime_type TO kind")
    with pytest.raises(LibraryUnavailable, match="refused `content query`"):
        library.enumerate()
