"""Listing a folder of photos: what is in it, what is not, and under which ids."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from library.live_photos import motions_of
from library.media_types import LEFT_OUT, STILL_EXTENSIONS, TRASH_FOLDERS, VIDEO_EXTENSIONS, media_kind
from library.paths import to_bytes, to_text
from library.tree import changed_folders, walk
from tests.deployments.upping import until
from tests.library.worlds import MODIFIED_NS, ids, library_of, parts, put, trashed_ids


def test_photos_and_videos_are_known_by_their_type_in_any_case(tmp_path: Path) -> None:
    names = [f"{number}.{e}" for number, e in enumerate([*STILL_EXTENSIONS, *VIDEO_EXTENSIONS])]
    put(tmp_path, *names, "A.JPG", "b.HeIc", "c.MOV", "notes.txt", "x.xmp", "y.aae", "jpg", "noextension")
    assert set(ids(library_of(tmp_path).enumerate())) == {*names, "A.JPG", "b.HeIc", "c.MOV"}


def test_a_type_that_was_a_photo_once_stays_one() -> None:
    for extension in ("jpg", "jpeg", "heic", "png", "gif", "webp", "tiff", "dng", "cr3", "nef", "arw", "raf"):
        assert media_kind(b"x." + extension.encode()) == "still"
    for extension in ("mov", "mp4", "m4v", "3gp", "avi", "mkv", "webm", "mts", "m2ts", "mpg", "insv"):
        assert media_kind(b"x." + extension.encode()) == "video"


def test_hidden_and_system_files_and_folders_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "album/1.jpg")
    put(tmp_path, ".hidden.jpg", "._1.jpg", ".thumbnails/3.jpg", "@eaDir/1.jpg")
    put(tmp_path, "album/@eaDir/1.jpg/SYNOPHOTO_THUMB_M.jpg", "System Volume Information/8.jpg", "lost+found/9.jpg")
    put(tmp_path, "Thumbs.db")
    library = library_of(tmp_path)
    assert ids(library.enumerate()) == ["album/1.jpg"]
    assert library.albums() == {"album": "album"}


def test_no_name_that_is_left_out_but_for_its_dot_is_a_photos_name() -> None:
    assert not [name for name in LEFT_OUT | TRASH_FOLDERS if media_kind(name) is not None]  # the walk relies on it


def test_what_lies_in_a_trash_is_listed_as_recently_deleted(tmp_path: Path) -> None:
    in_trash = [
        *(".Trash-1000/files/4.jpg", ".Trashes/501/1.jpg", "$RECYCLE.BIN/S-1-5/$R7.jpg", "@Recycle/6.jpg"),
        *("#recycle/5.jpg", ".stversions/album/1~20240101-120000.jpg", "album/.trashed-1717-2.jpg"),
    ]
    put(tmp_path, "album/1.jpg", *in_trash)
    library = library_of(tmp_path)
    listing = library.enumerate()
    assert listing.complete and sorted(ids(listing)) == sorted(["album/1.jpg", *in_trash])
    assert trashed_ids(listing) == set(in_trash)
    assert library.albums() == {"album": "album"}


def test_a_row_says_what_the_file_system_says(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg", content=b"12345")
    status = (tmp_path / "a/1.jpg").stat()
    assert library_of(tmp_path).enumerate().table.to_pylist() == [
        {
            "library_id": "L",
            "local_id": "a/1.jpg",
            "part": "primary",
            "file_name": "1.jpg",
            "size": 5,
            "modified_ns": MODIFIED_NS,
            "file_identity": f"{status.st_dev}:{status.st_ino}",
            "albums": ["a"],
            "checksum": None,
            "in_trash": False,
        }
    ]


def test_a_file_is_in_the_album_of_its_folder_and_of_every_folder_around_it(tmp_path: Path) -> None:
    put(tmp_path, "top.jpg", "2024/a.jpg", "2024/Rome/b.jpg", "2024/Rome/Day 1/c.jpg", "2025/d.jpg")
    library = library_of(tmp_path)
    table = library.enumerate().table
    albums = dict(zip(table["local_id"].to_pylist(), table["albums"].to_pylist(), strict=True))
    assert albums == {
        "top.jpg": [],
        "2024/a.jpg": ["2024"],
        "2024/Rome/b.jpg": ["2024", "2024/Rome"],
        "2024/Rome/Day 1/c.jpg": ["2024", "2024/Rome", "2024/Rome/Day 1"],
        "2025/d.jpg": ["2025"],
    }
    assert library.albums() == {"2024": "2024", "2024/Rome": "Rome", "2024/Rome/Day 1": "Day 1", "2025": "2025"}


def test_an_empty_file_is_an_asset_like_any_other(tmp_path: Path) -> None:
    put(tmp_path, "empty.jpg", content=b"")
    assert ids(library_of(tmp_path).enumerate()) == ["empty.jpg"]


def test_only_regular_files_count(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg", "folder.jpg/2.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    library = library_of(tmp_path)
    assert ids(library.enumerate()) == ["1.jpg", "folder.jpg/2.jpg"]
    with pytest.raises(OSError):
        library.open_bytes("pipe.jpg", "primary")


def test_a_photo_that_a_cloud_drive_keeps_elsewhere_makes_the_listing_incomplete(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg", "a/.IMG_2.HEIC.icloud", ".notes.txt.icloud")
    library = library_of(tmp_path)
    listing = library.enumerate()
    assert ids(listing) == ["1.jpg"]
    assert len(listing.problems) == 1
    assert "a/.IMG_2.HEIC.icloud" in listing.problems[0]
    assert library.access().status == "limited"


# Live Photos


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["IMG_1.HEIC", "IMG_1.MOV"], {"IMG_1.HEIC": "IMG_1.MOV"}),
        (["IMG_1.heic", "img_1.mov"], {"IMG_1.heic": "img_1.mov"}),
        (["IMG_1.JPG", "IMG_1.mp4"], {"IMG_1.JPG": "IMG_1.mp4"}),
        (["IMG_1.JPG", "IMG_1.HEIC", "IMG_1.MOV"], {"IMG_1.HEIC": "IMG_1.MOV"}),
        (["IMG_1.DNG", "IMG_1.JPG", "IMG_1.MOV"], {"IMG_1.JPG": "IMG_1.MOV"}),
        (["IMG_1.JPG", "IMG_1.MP4", "IMG_1.MOV"], {"IMG_1.JPG": "IMG_1.MOV"}),
        (["img_1.HEIC", "IMG_1.HEIC", "IMG_1.MOV"], {"IMG_1.HEIC": "IMG_1.MOV"}),
        (["img_1.HEIC", "IMG_1.HEIC", "img_1.MOV"], {"img_1.HEIC": "img_1.MOV"}),
        (["IMG_1.HEIC", "IMG_2.MOV"], {}),
        (["IMG_1.HEIC", "IMG_1 (1).MOV"], {}),
        (["Ä.HEIC", "ä.mov"], {"Ä.HEIC": "ä.mov"}),
    ],
)
def test_a_still_and_a_video_of_one_stem_are_one_live_photo(
    tmp_path: Path, names: list[str], pairs: dict[str, str]
) -> None:
    put(tmp_path, *(f"a/{name}" for name in names))
    rows = parts(library_of(tmp_path).enumerate())
    assert {row[0]: row[2] for row in rows if row[1] == "motion"} == {f"a/{s}": v for s, v in pairs.items()}
    assert sorted(row[2] for row in rows) == sorted(names)
    assert all(row[0] == f"a/{row[2]}" for row in rows if row[1] == "primary")


def test_halves_in_two_folders_are_two_assets(tmp_path: Path) -> None:
    put(tmp_path, "a/IMG_1.HEIC", "b/IMG_1.MOV")
    assert [row[1] for row in parts(library_of(tmp_path).enumerate())] == ["primary", "primary"]


@given(st.permutations(["I.HEIC", "i.heic", "I.JPG", "I.MOV", "i.mp4", "J.MOV", "J.PNG", "K.MOV"]))
def test_pairing_does_not_depend_on_the_order_of_the_names(names: list[str]) -> None:
    pairs = motions_of([name.encode() for name in names])
    assert pairs == {b"I.HEIC": b"I.MOV", b"J.PNG": b"J.MOV"}


def test_both_halves_can_be_opened_without_a_listing_first(tmp_path: Path) -> None:
    put(tmp_path, "a/IMG_1.HEIC", "a/img_1.MOV", "IMG_2.JPG", "IMG_2.mov", "IMG_3.JPG")
    for folder in ("a/", ""):
        library = library_of(tmp_path)
        still, motion = ("IMG_1.HEIC", "img_1.MOV") if folder else ("IMG_2.JPG", "IMG_2.mov")
        with library.open_bytes(folder + still, "motion") as stream:
            assert stream.read() == (folder + motion).encode()
        with library.open_bytes(folder + still, "primary") as stream:
            assert stream.read() == (folder + still).encode()
    with pytest.raises(FileNotFoundError):
        library.open_bytes("IMG_3.JPG", "motion")


def test_a_motion_video_that_goes_is_no_part_of_the_next_listing(tmp_path: Path) -> None:
    put(tmp_path, "IMG_1.HEIC", "IMG_1.MOV")
    library = library_of(tmp_path)
    assert len(parts(library.enumerate())) == 2
    (tmp_path / "IMG_1.MOV").unlink()
    assert parts(library.enumerate()) == [("IMG_1.HEIC", "primary", "IMG_1.HEIC")]
    with pytest.raises(FileNotFoundError):
        library.open_bytes("IMG_1.HEIC", "motion")


# Names


@pytest.mark.parametrize(
    "name",
    [
        b"a, b.jpg",
        b"two\nlines.jpg",
        b"\"quoted\" 'name'.jpg",
        b"tab\t.jpg",
        "smile \U0001f600 é e\u0301.jpg".encode(),
        b"latin-1 \xe9.jpg",
        b"\xff\xfe\x80.jpg",
        b"back\\slash.jpg",
        b"like an escape \\xe9.jpg",
        b"both \\xe9 \xe9 \\.jpg",
        b"percent%20.jpg",
        b"-rf.jpg",
        b" .jpg",
    ],
)
def test_a_name_of_any_bytes_has_a_valid_id_that_opens_the_file(tmp_path: Path, name: bytes) -> None:
    for folder in (b"", b"\xe9 folder/"):
        parent = tmp_path / os.fsdecode(folder)
        parent.mkdir(exist_ok=True)
        (parent / os.fsdecode(name)).write_bytes(name)
    library = library_of(tmp_path)
    listing = library.enumerate()
    assert len(ids(listing)) == 2
    for local_id in ids(listing):
        local_id.encode("utf-8")
        with library.open_bytes(local_id, "primary") as stream:
            assert stream.read() == name
    assert set(library.albums()) == {"\\xe9 folder"}


def test_an_ordinary_name_is_its_own_id(tmp_path: Path) -> None:
    put(tmp_path, "Ferien Süd/IMG 1.jpg")
    assert ids(library_of(tmp_path).enumerate()) == ["Ferien Süd/IMG 1.jpg"]


@given(st.lists(st.sampled_from([b"\\", b"x", b"5c", b"e9", b"\xe9", b"\xc3\xa9", b"/", b"a"])).map(b"".join))
def test_text_of_a_path_is_reversible_valid_and_unique(path: bytes) -> None:
    text = to_text(path)
    text.encode("utf-8")
    assert to_bytes(text) == path


def test_a_root_that_is_not_utf8_works(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9")
    root.mkdir()
    (root / "1.jpg").touch()
    library = library_of(root)
    assert library.config["root"].endswith("caf\\xe9")
    assert ids(library.enumerate()) == ["1.jpg"]
    assert library.access().status == "full"


@pytest.mark.parametrize("local_id", ["../outside.jpg", "a/../../outside.jpg", "\\x2e\\x2e/outside.jpg"])
def test_an_id_never_leads_out_of_the_root(tmp_path: Path, local_id: str) -> None:
    put(tmp_path, "outside.jpg", "root/a/1.jpg")
    library = library_of(tmp_path / "root")
    with pytest.raises(FileNotFoundError):
        library.open_bytes(local_id, "primary")
    with pytest.raises(FileNotFoundError):
        library.stamp(local_id, "primary")


# Symbolic links


def test_links_are_never_followed_out_of_the_root_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    put(tmp_path, "outside/1.jpg", "root/album/2.jpg")
    root = tmp_path / "root"
    (root / "again.jpg").symlink_to("album/2.jpg")
    (root / "again").symlink_to("album")
    (root / "away").symlink_to("../outside")
    (root / "away.jpg").symlink_to(tmp_path / "outside/1.jpg")
    library = library_of(root)
    listing = library.enumerate()
    assert ids(listing) == ["album/2.jpg"]
    assert listing.complete  # they were there when the library was registered
    with pytest.raises(OSError):
        library.open_bytes("away.jpg", "primary")


def test_links_in_a_loop_end(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/self").symlink_to("self")
    (tmp_path / "a/self.jpg").symlink_to("self.jpg")
    listing = library_of(tmp_path).enumerate()
    assert ids(listing) == ["a/1.jpg"]
    assert listing.complete


@pytest.mark.parametrize("target_exists", [True, False])
def test_a_folder_that_became_a_link_out_of_the_root_does_not_read_as_deleted(
    tmp_path: Path, target_exists: bool
) -> None:
    put(tmp_path, "root/2019/1.jpg", "root/2020/2.jpg")
    library = library_of(tmp_path / "root")
    (tmp_path / "root/2019").rename(tmp_path / "disk")
    (tmp_path / "root/2019").symlink_to(tmp_path / "disk")
    if not target_exists:
        (tmp_path / "disk").rename(tmp_path / "away")
    listing = library.enumerate()
    assert [problem for problem in listing.problems if "root/2019: a link" in problem]
    assert library.access().status == "limited"


def test_a_photo_that_became_a_link_into_a_hidden_folder_does_not_read_as_deleted(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    library = library_of(tmp_path)
    (tmp_path / ".store").mkdir()
    (tmp_path / "1.jpg").rename(tmp_path / ".store/1.jpg")
    (tmp_path / "1.jpg").symlink_to(".store/1.jpg")
    assert not library.enumerate().complete


# Changes


def test_changes_are_the_difference_of_two_listings(tmp_path: Path) -> None:
    put(tmp_path, "stays.jpg", "edited.jpg", "goes.jpg", "live.heic", "touched.jpg")
    library = library_of(tmp_path)
    before = library.enumerate()
    (tmp_path / "goes.jpg").unlink()
    put(tmp_path, "edited.jpg", content=b"other bytes")
    put(tmp_path, "comes.jpg", "live.mov")
    os.utime(tmp_path / "touched.jpg", ns=(MODIFIED_NS, MODIFIED_NS + 1))
    changes = library.changes_since(before.token or "", before.table, library.enumerate().table)
    assert not changes.expired
    assert changes.ids("inserted") == {"comes.jpg"}
    assert changes.ids("updated") == {"edited.jpg", "live.heic", "touched.jpg"}
    assert changes.ids("deleted") == {"goes.jpg"}


def test_a_change_token_outlives_a_restart(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    listing = library_of(tmp_path).enumerate()
    assert not library_of(tmp_path).changes_since(listing.token or "", listing.table, listing.table).expired


# While others write


def test_lesson_86_a_photo_that_moves_into_a_folder_already_read_is_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg", "b/2.jpg")
    for name in ("a", "b", "."):
        os.utime(tmp_path / name, ns=(MODIFIED_NS, MODIFIED_NS))
    seen = {}
    for folder in walk(os.fsencode(tmp_path)):
        seen[folder.path] = folder.modified_ns
        if folder.path == b"a":
            (tmp_path / "b/2.jpg").rename(tmp_path / "a/2.jpg")
    assert "a" in changed_folders(os.fsencode(tmp_path), seen)
    assert changed_folders(os.fsencode(tmp_path), dict.fromkeys(seen, -1)) == [".", "a", "b"]


def test_lesson_86_a_folder_that_never_stays_still_is_an_incomplete_listing(tmp_path: Path) -> None:
    put(tmp_path, *(f"a/{number}.jpg" for number in range(2000)))
    stop, started = threading.Event(), threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            for name in ("x", "y"):
                (tmp_path / "a" / name).touch()
                (tmp_path / "a" / name).unlink()
            started.set()

    writer = threading.Thread(target=disturb)
    writer.start()
    try:
        assert started.wait(60)
        library = library_of(tmp_path)

        def noticed() -> bool:
            return any("changed while it was listed" in problem for problem in library.enumerate().problems)

        until(noticed, "the change")  # on a busy machine the writer's turn comes late
    finally:
        stop.set()
        writer.join()
    assert library_of(tmp_path).enumerate().complete


def test_a_listing_costs_little_a_file(tmp_path: Path) -> None:
    put(tmp_path, *(f"{n % 20}/IMG_{n // 40}.{'HEIC' if n % 40 < 20 else 'MOV'}" for n in range(4_000)))
    library = library_of(tmp_path)
    start = time.process_time()
    listing = library.enumerate()
    assert [row[1] for row in parts(listing)] == ["primary", "motion"] * 2_000
    assert time.process_time() - start < 5  # of its own; a hundred times what it takes


def test_a_trashed_name_is_known_beside_names_that_sort_before_it(tmp_path: Path) -> None:
    put(tmp_path, "(1).jpg", ".trashed-1717-2.jpg")
    assert trashed_ids(library_of(tmp_path).enumerate()) == {".trashed-1717-2.jpg"}
