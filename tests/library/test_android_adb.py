"""A phone behind adb: what it lists, what it never claims, and that its bytes are the bytes it has."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from library.android_adb import AndroidConfig, AndroidLibrary, load_android_config, register_android
from library.errors import LibraryError, LibraryRefused, LibraryUnavailable
from library.hashing import hash_parts
from library.protocol import Enumeration, Hashed
from tests.library.fake_adb import CAMERA, MODIFIED, PRIMARY, FakePhone, Large, fake_adb
from tests.library.worlds import REPOSITORY, trashed_ids

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


@dataclass
class World:
    phone: FakePhone
    host: str
    port: int

    def library(self) -> AndroidLibrary:
        return AndroidLibrary("L", "Phone", register_android(None, self.host, self.port))


@pytest.fixture
def world() -> Iterator[World]:
    phone = FakePhone()
    with fake_adb(phone) as (host, port):
        yield World(phone, host, port)


def names(listing: Enumeration) -> list[str]:
    return sorted(listing.table["file_name"].to_pylist())


def hashed(library: AndroidLibrary, listing: Enumeration) -> dict[str, Hashed]:
    """Local id to the outcome of hashing it."""
    return {done.local_id: done for done in hash_parts({"L": library}, listing.table)}


def sha1(content: bytes) -> str:
    return b64encode(hashlib.sha1(content).digest()).decode()


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
    began = time.perf_counter()
    listing = library.enumerate()
    assert listing.complete and listing.table.num_rows == 10_000
    assert time.perf_counter() - began < 5


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


# What must not be believed


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


# Its bytes


def test_a_large_file_is_hashed_in_constant_memory(world: World) -> None:
    content = Large(50 * 1024 * 1024)
    world.phone.add("film.mp4", content)
    digest = hashlib.sha1()
    for piece in content.pieces():
        digest.update(piece)
    library = world.library()
    listing = library.enumerate()
    tracemalloc.start()
    (done,) = hashed(library, listing).values()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.problem is None and done.checksum == b64encode(digest.digest()).decode()
    assert peak < 8 * 1024 * 1024


def test_a_size_of_more_than_four_gigabytes_is_known(world: World) -> None:
    world.phone.add("long.mp4", Large(5 * 1024**3))
    library = world.library()
    local_id = library.enumerate().table["local_id"][0].as_py()
    assert library.stamp(local_id, "primary").size == 5 * 1024**3


def test_a_stamp_is_what_the_listing_shows_also_after_a_restart(world: World) -> None:
    world.phone.trash(world.phone.add("a\n, b.jpg", b"abc"))
    listing = world.library().enumerate()
    row = listing.table.to_pylist()[0]
    stamp = world.library().stamp(row["local_id"], "primary")
    assert (stamp.size, stamp.modified_ns, stamp.file_identity) == (
        row["size"], row["modified_ns"], row["file_identity"],
    )  # fmt: skip
    with world.library().open_bytes(row["local_id"], "primary") as stream:
        assert stream.read() == b"abc"


def test_an_empty_file_has_the_checksum_of_nothing(world: World) -> None:
    world.phone.add("empty.jpg", b"")
    library = world.library()
    (done,) = hashed(library, library.enumerate()).values()
    assert done.checksum == sha1(b"")


def test_a_file_that_vanishes_after_the_listing_has_no_checksum(world: World) -> None:
    number = world.phone.add("a.jpg")
    library = world.library()
    listing = library.enumerate()
    world.phone.delete(number)
    (done,) = hashed(library, listing).values()
    assert (done.checksum, done.problem) == (None, "it is gone")


def test_a_file_that_vanishes_between_its_status_and_its_bytes_has_no_checksum(world: World) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    listing = library.enumerate()
    world.phone.before = lambda service: world.phone.files.clear() if service.startswith("RECV") else None
    (done,) = hashed(library, listing).values()
    assert (done.checksum, done.problem) == (None, "it is gone")


@pytest.mark.parametrize("after", [0, 3, 9, 100_000, 3_000_000])
def test_bytes_that_stop_coming_give_no_checksum(world: World, after: int) -> None:
    world.phone.add("film.mp4", Large(4_000_000))
    library = world.library()
    listing = library.enumerate()
    world.phone.before = lambda service: after if service.startswith("RECV") else None
    (done,) = hashed(library, listing).values()
    assert done.checksum is None
    assert done.problem is not None and "cut" in done.problem


def test_fewer_bytes_than_the_file_has_give_no_checksum(world: World) -> None:
    number = world.phone.add("film.mp4", Large(200_000))
    library = world.library()
    listing = library.enumerate()
    path = world.phone.path(number)

    def shrink(service: str) -> None:
        if service.startswith("RECV"):
            world.phone.files[path] = (Large(100_000), MODIFIED)

    world.phone.before = shrink
    (done,) = hashed(library, listing).values()
    assert done.checksum is None
    assert done.problem == "it cannot be read: 100000 bytes of 200000 arrived from the phone"


def test_a_file_of_another_size_than_the_index_shows_has_no_checksum(world: World) -> None:
    number = world.phone.add("a.jpg", b"four")
    world.phone.update(number, _size=5)
    library = world.library()
    (done,) = hashed(library, library.enumerate()).values()
    assert done.checksum is None
    assert done.problem == "it cannot be read: the phone's media index shows 5 bytes, and the file has 4"


def test_a_file_that_changes_while_it_is_read_has_no_checksum(world: World) -> None:
    number = world.phone.add("a.jpg", b"four")
    library = world.library()
    listing = library.enumerate()
    path = world.phone.path(number)

    def rewrite(service: str) -> None:
        if service.startswith("RECV"):
            world.phone.files[path] = (world.phone.files[path][0], MODIFIED + 1)

    world.phone.before = rewrite
    (done,) = hashed(library, listing).values()
    assert (done.checksum, done.problem) == (None, "it changed while it was read")


@pytest.mark.parametrize("part", ["motion", "original"])
def test_there_is_no_other_part(world: World, part: str) -> None:
    world.phone.add("a.jpg")
    library = world.library()
    local_id = library.enumerate().table["local_id"][0].as_py()
    with pytest.raises(FileNotFoundError):
        library.open_bytes(local_id, part)


# Whom it talks to


def test_where_no_adb_server_answers_none_is_started(tmp_path: Path) -> None:
    """The adb client that comes with the library would start one; it is put in reach, and must not be run."""
    pytest.importorskip("adbutils")
    started = tmp_path / "started"
    adb = tmp_path / "adb"
    adb.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    adb.chmod(0o755)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    config = dict(_config("127.0.0.1", port))
    code = (
        "import json, sys; from library.registry import open_library\n"
        "print(*open_library('L', 'android', 'Phone', json.loads(sys.argv[1])).access().problems)"
    )
    environment = {**os.environ, "ADBUTILS_ADB_PATH": str(adb), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(config)],
        cwd=REPOSITORY, env={**environment, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert f"no adb server answers at 127.0.0.1:{port}: start it with `adb start-server`" in done.stdout, done.stderr
    assert not started.exists()


def test_only_the_configured_server_is_contacted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
    monkeypatch.setenv("ANDROID_SERIAL", "OTHER")
    world.phone.add("a.jpg")
    seen: list[object] = []
    watching = threading.Event()
    sys.addaudithook(
        lambda event, args: seen.append(args[1]) if watching.is_set() and event == "socket.connect" else None
    )
    watching.set()
    library = world.library()
    hashed(library, library.enumerate())
    watching.clear()
    assert set(seen) == {(world.host, world.port)}


def test_nothing_is_ever_changed_on_the_phone(world: World) -> None:
    world.phone.trash(world.phone.add("a.jpg"))
    library = world.library()
    listing = library.enumerate()
    hashed(library, listing)
    library.albums()
    library.changes_since(listing.token or "", listing.table, listing.table)
    commands = {" ".join(service.split()[:2]) for service in world.phone.services}
    sync = {command for command in commands if command.startswith(("STA2 ", "RECV "))}
    assert commands - sync == {"getprop ro.serialno", "sm list-volumes", "content query", "content call"}
    methods = {service.split("--method ")[1].split()[0] for service in world.phone.services if "--method" in service}
    assert methods == {"get_version", "get_generation"}


def test_without_adbutils_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['adbutils'] = None\n"
        "from library.android_adb import register_android\n"
        "from library.errors import LibraryRefused\n"
        "try: register_android(None)\n"
        "except LibraryRefused as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "install deletion-sync[android]" in done.stdout, done.stderr


# Its configuration


def _config(host: str = "127.0.0.1", port: int = 5037) -> AndroidConfig:
    return AndroidConfig(host=host, port=port, serial="S", hardware="S", database="d", volumes=[PRIMARY])


@pytest.mark.parametrize("key", ["host", "port", "serial", "hardware", "database", "volumes"])
def test_a_configuration_with_a_gap_is_damaged(key: str) -> None:
    assert load_android_config(_config(), "Phone") == _config()
    for damaged in ({k: v for k, v in _config().items() if k != key}, {**_config(), key: ""}, {**_config(), key: []}):
        with pytest.raises(LibraryError, match="register it again"):
            load_android_config(damaged, "Phone")


def test_the_camera_s_folder_is_the_one_of_real_phones(world: World) -> None:
    world.phone.add("a.jpg")
    assert world.library().albums() == {"-1739773001": CAMERA.rpartition("/")[2]}
