"""What an Apple Photos library promises, on bundles that are built here (tests/library/apple_bundle.py says how)."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from library.apple_database import DATABASE
from library.apple_photos import NOT_HERE, ApplePhotosLibrary, register_apple_photos
from library.errors import LibraryRefused, LibraryUnavailable
from library.hashing import hash_parts
from library.protocol import Changes, Enumeration
from tests.library.apple_bundle import NEWEST, UNKNOWN, VERSIONS, Bundle
from tests.library.worlds import trashed_ids
from tests.world import checksum


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path / "Photos Library.photoslibrary")


def rows(listing: Enumeration, key: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listing.table.to_pylist()
    return [row for row in found if key in (None, row["local_id"])]


def ids(listing: Enumeration) -> set[str]:
    return {row["local_id"] for row in rows(listing)}


def contents(bundle: Bundle, key: str) -> dict[str, str | None]:
    """Part to checksum, as the hashing of the pipeline finds it."""
    library = bundle.library()
    hashed = hash_parts({"L": library}, library.enumerate().table, workers=2)
    return {one.part: one.checksum for one in hashed if one.local_id == key}


def changes(library: ApplePhotosLibrary, before: Enumeration) -> Changes:
    after = library.enumerate()
    assert before.token is not None
    return library.changes_since(before.token, before.table, after.table)


@pytest.mark.parametrize("model", VERSIONS)
def test_every_supported_version_of_photos_is_read(tmp_path: Path, model: int) -> None:
    bundle = Bundle(tmp_path / "P.photoslibrary", model)
    heic, suffix = "public.heic", ".jpeg" if VERSIONS[model] == 5 else ".heic"
    plain = bundle.add("IMG_1.JPG", b"plain")
    edited = bundle.add("IMG_2.HEIC", b"before", uti=heic)
    live = bundle.add("IMG_3.HEIC", b"still", uti=heic, motion=b"motion")
    bundle.edit(edited, b"after", suffix=suffix)
    album = bundle.album("Été à la mer", plain)
    assert contents(bundle, plain) == {"primary": checksum(b"plain")}
    assert contents(bundle, edited) == {"primary": checksum(b"after"), "original": checksum(b"before")}
    assert contents(bundle, live) == {"primary": checksum(b"still"), "motion": checksum(b"motion")}
    library = bundle.library()
    assert rows(library.enumerate(), plain)[0]["albums"] == [album]
    assert library.albums() == {album: "Été à la mer"}


def test_names_are_those_that_the_user_knows_with_the_type_that_the_file_has(bundle: Bundle) -> None:
    edited = bundle.add("Grüße 🌊.png", b"before", uti="public.png", motion=b"motion")
    bundle.edit(edited, b"after")
    names = {row["part"]: row["file_name"] for row in rows(bundle.library().enumerate(), edited)}
    assert names == {"primary": "Grüße 🌊.jpeg", "original": "Grüße 🌊.png", "motion": "Grüße 🌊.mov"}


def test_an_edited_live_photo_has_both_halves_before_and_after_the_edit(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"still", motion=b"motion")
    bundle.edit(key, b"still after", motion=b"motion after")
    assert contents(bundle, key) == {
        "primary": checksum(b"still after"),
        "original": checksum(b"still"),
        "motion": checksum(b"motion after"),
        "original_motion": checksum(b"motion"),
    }
    bundle.revert(key)
    assert contents(bundle, key) == {"primary": checksum(b"still"), "motion": checksum(b"motion")}


def test_both_files_of_a_raw_pair_are_known(bundle: Bundle) -> None:
    key = bundle.add("DSC1.JPG", b"jpeg", raw=b"raw")
    assert contents(bundle, key) == {"primary": checksum(b"jpeg"), "raw": checksum(b"raw")}


def test_lesson_24_every_burst_frame_hidden_photo_and_video_is_listed(bundle: Bundle) -> None:
    frames = {
        bundle.add(f"B{pick}.JPG", b"%d" % pick, AVALANCHEUUID="BURST", AVALANCHEPICKTYPE=pick, VISIBILITYSTATE=2)
        for pick in (2, 4, 8, 16, 32)
    }
    hidden = bundle.add("hidden.jpg", b"hidden", HIDDEN=1)
    video = bundle.add("clip.MOV", b"video", uti="com.apple.quicktime-movie")
    assert ids(bundle.library().enumerate()) == {*frames, hidden, video}
    assert contents(bundle, video) == {"primary": checksum(b"video")}


def test_lesson_24_an_asset_that_osxphotos_leaves_out_makes_the_listing_incomplete(bundle: Bundle) -> None:
    kept = bundle.add("IMG_1.JPG", b"one")
    lost = bundle.add("IMG_2.JPG", b"two")
    bundle.execute("DELETE FROM ZADDITIONALASSETATTRIBUTES WHERE ZORIGINALFILENAME = 'IMG_2.JPG'")
    listing = bundle.library().enumerate()
    assert ids(listing) == {kept}
    assert not listing.complete and lost in listing.problems[0]


def test_lesson_22_a_photo_in_recently_deleted_is_still_held_and_reported_as_trashed(bundle: Bundle) -> None:
    key, other = bundle.add("IMG_1.JPG", b"one"), bundle.add("IMG_2.JPG", b"two")
    library = bundle.library()
    before = library.enumerate()
    assert trashed_ids(before) == frozenset()
    bundle.trash(key)
    after = library.enumerate()
    assert ids(after) == {key, other} and trashed_ids(after) == {key} and after.complete
    assert contents(bundle, key) == {"primary": checksum(b"one")}
    assert changes(library, before).table.to_pylist() == [{"local_id": key, "change": "trashed", "former_id": None}]


def test_changes_are_told_apart(bundle: Bundle) -> None:
    gone, edited, same = (bundle.add(f"IMG_{n}.JPG", b"%d" % n) for n in range(3))
    library = bundle.library()
    before = library.enumerate()
    bundle.delete(gone)
    bundle.edit(edited, b"after")
    new = bundle.add("IMG_9.JPG", b"9")
    found = changes(library, before)
    assert not found.expired
    told = dict(zip(found.table["local_id"].to_pylist(), found.table["change"].to_pylist(), strict=True))
    assert told == {new: "inserted", edited: "updated", gone: "deleted"}
    assert same in ids(library.enumerate())


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "shared album": ({"CLOUDBATCHPUBLISHDATE": 7e8}, {}),
    "shared album since macOS 26": ({"COLLECTIONSHARE": 3}, {}),
    "shared library": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1, "LIBRARYSCOPESHARESTATE": 1, "LIBRARYSCOPE": 1}, {}),
    "shared library, in use alone": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1}, {}),
    "shared library, being left": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 0, "LIBRARYSCOPESHARESTATE": 1}, {}),
    "shared library, being joined": ({"LIBRARYSCOPE": 1}, {}),
    "shared library, thrown away by a participant": (
        {"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1, "LIBRARYSCOPE": 1, "TRASHEDSTATE": 1},
        {},
    ),
    "received by a link, not downloaded": ({"MOMENTSHARE": 1, "BUNDLESCOPE": 1}, {}),
    "sent and not saved": ({"SYNDICATIONSTATE": 1}, {"SYNDICATIONIDENTIFIER": "chat", "SYNDICATIONHISTORY": 0}),
}


@pytest.mark.parametrize("how", OTHERS)
def test_lesson_13_what_others_share_is_never_listed(bundle: Bundle, how: str) -> None:
    asset, attributes = OTHERS[how]
    own = bundle.add("IMG_1.JPG", b"own")
    content = None if "not downloaded" in how else b"theirs"
    theirs = bundle.add("IMG_2.JPG", content, attributes=attributes, **asset)
    library = bundle.library()
    listing = library.enumerate()
    assert ids(listing) == {own} and listing.withheld == {theirs} and listing.complete
    with pytest.raises(FileNotFoundError):
        library.open_bytes(theirs, "primary")


@pytest.mark.parametrize("model", [model for model in VERSIONS if model >= 16000])
def test_lesson_13_the_shared_library_is_withheld_in_every_version_that_has_one(tmp_path: Path, model: int) -> None:
    bundle = Bundle(tmp_path / "P.photoslibrary", model)
    own = bundle.add("IMG_1.JPG", b"own")
    partners = bundle.add("IMG_2.JPG", b"partner's")
    handed = bundle.add("IMG_3.JPG", b"own, given to both")
    bundle.change(own, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=0, LIBRARYSCOPESHARESTATE=0)
    for key in (partners, handed):
        bundle.change(key, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1, LIBRARYSCOPESHARESTATE=1, LIBRARYSCOPE=1)
    listing = bundle.library().enumerate()
    assert ids(listing) == {own} and listing.withheld == {partners, handed} and listing.complete


def test_an_own_photo_that_was_shared_by_a_link_is_listed(bundle: Bundle) -> None:
    own = bundle.add("IMG_1.JPG", b"own", MOMENTSHARE=1, BUNDLESCOPE=0)
    assert ids(bundle.library().enumerate()) == {own}


def test_a_photo_that_was_sent_and_saved_is_ones_own(bundle: Bundle) -> None:
    saved = bundle.add("IMG_1.JPG", b"1", attributes={"SYNDICATIONIDENTIFIER": "chat", "SYNDICATIONHISTORY": 2})
    assert ids(bundle.library().enumerate()) == {saved}


def test_a_photo_that_is_handed_to_the_shared_library_was_not_deleted(bundle: Bundle) -> None:
    key, kept = bundle.add("IMG_1.JPG", b"one"), bundle.add("IMG_2.JPG", b"two")
    library = bundle.library()
    before = library.enumerate()
    bundle.change(key, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1)
    assert changes(library, before).table.to_pylist() == [{"local_id": key, "change": "withheld", "former_id": None}]
    assert library.enumerate().withheld == {key} and ids(library.enumerate()) == {kept}


def test_lesson_29_a_photo_that_is_only_in_icloud_is_a_row_without_bytes(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", None)
    library = bundle.library()
    listing = library.enumerate()
    (row,) = rows(listing, key)
    assert (row["size"], row["modified_ns"], row["file_identity"]) == (None, None, None)
    with pytest.raises(OSError, match="iCloud"):
        library.open_bytes(key, "primary")
    (hashed,) = hash_parts({"L": library}, listing.table)
    assert hashed.checksum is None and hashed.problem is not None and NOT_HERE in hashed.problem


def test_an_edit_that_is_not_here_has_no_bytes_rather_than_those_of_the_original(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"before")
    bundle.edit(key, None)
    assert contents(bundle, key) == {"primary": None, "original": checksum(b"before")}


def test_a_motion_video_that_is_not_here_has_no_bytes(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"still", motion=b"motion")
    (bundle.path / "originals" / key[0] / f"{key}_3.mov").unlink()
    assert contents(bundle, key) == {"primary": checksum(b"still"), "motion": None}


def test_a_file_that_is_replaced_after_the_listing_gets_no_checksum(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"before")
    listing = bundle.library().enumerate()
    bundle.edit(key, b"after")
    (hashed,) = hash_parts({"L": bundle.library()}, listing.table)
    assert hashed.checksum is None and hashed.problem == "it changed after it was listed"


def test_albums_in_the_trash_shared_albums_and_folders_are_no_albums(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"one")
    album = bundle.album("Mine", key)
    bundle.album("Thrown away", key, TRASHEDSTATE=1)
    bundle.album("Shared", key, KIND=1505, CLOUDOWNERHASHEDPERSONID="someone", CLOUDLOCALSTATE=1)
    bundle.album("Folder", KIND=4000)
    library = bundle.library()
    assert rows(library.enumerate())[0]["albums"] == [album]
    assert library.albums() == {album: "Mine"}


def test_a_restored_older_copy_of_the_library_expires_the_token(bundle: Bundle, tmp_path: Path) -> None:
    bundle.add("IMG_1.JPG", b"one")
    backup = tmp_path / "backup.sqlite"
    shutil.copy(bundle.database, backup)
    library = bundle.library()
    early = library.change_token()
    bundle.add("IMG_2.JPG", b"two")
    listing = library.enumerate()
    late = listing.token
    assert late is not None and late != early
    assert not library.changes_since(early, listing.table, listing.table).expired
    shutil.copy(backup, bundle.database)
    old = library.enumerate()
    assert library.changes_since(late, listing.table, old.table).expired
    assert not library.changes_since(early, old.table, old.table).expired


def test_lesson_85_another_library_in_its_place_is_limited_and_lists_nothing(bundle: Bundle, tmp_path: Path) -> None:
    bundle.add("IMG_1.JPG", b"one")
    library = bundle.library()
    shutil.rmtree(bundle.path)
    Bundle(bundle.path, store="ANOTHER").add("IMG_1.JPG", b"other")
    access = library.access()
    assert access.status == "limited" and "another Photos library" in access.problems[0]
    with pytest.raises(LibraryUnavailable, match="another Photos library"):
        library.enumerate()
    with pytest.raises(OSError, match="another Photos library"):
        bundle_reopened(library).open_bytes("x", "primary")


def bundle_reopened(library: ApplePhotosLibrary) -> ApplePhotosLibrary:
    return ApplePhotosLibrary(library.library_id, library.label, library.config)


@pytest.mark.parametrize("missing", ["database", "database/Photos.sqlite", "originals", ""])
def test_lesson_85_a_bundle_that_lacks_a_part_is_limited_and_an_error(bundle: Bundle, missing: str) -> None:
    bundle.add("IMG_1.JPG", b"one")
    library = bundle.library()
    path = bundle.path / missing
    path.unlink() if path.is_file() else shutil.rmtree(path)
    access = library.access()
    assert access.status == "limited" and str(bundle.path) in access.problems[0]
    for ask in (library.enumerate, library.change_token, library.albums):
        with pytest.raises(LibraryUnavailable):
            ask()


def test_a_damaged_database_is_limited_and_an_error(bundle: Bundle) -> None:
    for number in range(50):
        bundle.add(f"IMG_{number}.JPG", b"%d" % number)
    library = bundle.library()
    size = bundle.database.stat().st_size
    with bundle.database.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    assert library.access().status == "limited"
    with pytest.raises(LibraryUnavailable):
        library.enumerate()
    bundle.database.write_bytes(b"not a database at all")
    assert "damaged" in library.access().problems[0]


def test_lesson_84_a_damaged_page_that_hides_a_photo_is_an_error_never_a_shorter_listing(bundle: Bundle) -> None:
    for number in range(3):
        bundle.add(f"IMG_{number}.JPG", b"%d" % number)
    library = bundle.library()
    with closing(sqlite3.connect(bundle.database)) as con:
        (page_size,) = con.execute("PRAGMA page_size").fetchone()
        (page,) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (bundle.names["ASSET"],)).fetchone()
    with bundle.database.open("r+b") as file:
        file.seek((page - 1) * page_size + 3)  # the number of rows in the page
        assert file.read(2) == b"\0\3"
        file.seek(-2, os.SEEK_CUR)
        file.write(b"\0\2")
    with closing(sqlite3.connect(bundle.database)) as con:
        assert len(con.execute(f"SELECT ZUUID FROM {bundle.names['ASSET']}").fetchall()) == 2  # SQLite reads on
    assert library.access().status == "limited"
    with pytest.raises(LibraryUnavailable, match="damaged"):
        library.enumerate()


def test_lesson_86_a_truncated_database_is_an_error_never_a_shorter_listing(bundle: Bundle) -> None:
    for number in range(50):
        bundle.add(f"IMG_{number}.JPG", b"%d" % number)
    library = bundle.library()
    os.truncate(bundle.database, bundle.database.stat().st_size // 2 // 4096 * 4096)
    with pytest.raises(LibraryUnavailable, match=r"damaged|not a database of Photos"):
        library.enumerate()


def test_a_version_that_osxphotos_does_not_know_makes_the_listing_incomplete(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "P.photoslibrary", UNKNOWN)
    key = bundle.add("IMG_1.JPG", b"one")
    listing = bundle.library().enumerate()
    assert ids(listing) == {key}
    assert not listing.complete and str(UNKNOWN) in listing.problems[0]


def test_tables_that_changed_their_shape_are_an_error_that_says_what_to_do(bundle: Bundle) -> None:
    library = bundle.library()
    bundle.execute(f"ALTER TABLE {bundle.names['ASSET']} RENAME COLUMN ZTRASHEDSTATE TO ZELSEWHERE")
    with pytest.raises(LibraryUnavailable, match="Upgrade osxphotos"):
        library.enumerate()


def test_what_photos_has_not_written_back_yet_is_listed(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"one")
    with closing(sqlite3.connect(bundle.database)) as photos:
        photos.execute("PRAGMA journal_mode = WAL")
        photos.execute(f"UPDATE {bundle.names['ASSET']} SET ZTRASHEDSTATE = 1")
        photos.commit()
        assert Path(f"{bundle.database}-wal").stat().st_size > 0
        assert trashed_ids(bundle.library().enumerate()) == {key}
        photos.execute("BEGIN EXCLUSIVE")  # a lock of Photos is no obstacle: only a copy is opened
        assert bundle.library().enumerate().complete


def test_nothing_is_written_into_the_bundle_and_nothing_stays_behind(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    key = bundle.add("IMG_1.JPG", b"one")
    with closing(sqlite3.connect(bundle.database)) as con:
        con.execute("PRAGMA journal_mode = WAL")
    before = everything(bundle.path)
    library = bundle.library()
    library.access()
    library.enumerate()
    library.change_token()
    library.open_bytes(key, "primary").close()
    assert everything(bundle.path) == before
    assert list(scratch.iterdir()) == []


def everything(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in [root, *root.rglob("*")]}


def test_a_database_that_keeps_changing_while_it_is_copied_is_an_error_not_a_mixture(bundle: Bundle) -> None:
    bundle.add("IMG_1.JPG", b"one")
    bundle.execute("CREATE TABLE large AS SELECT zeroblob(32 << 20) AS x")  # so that copying takes its time
    library = bundle.library()
    code = (
        "import itertools, os, sys\nprint(flush=True)\nfor n in itertools.count(): os.utime(sys.argv[1], ns=(n, n))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, bundle.database], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            with pytest.raises(LibraryUnavailable, match="changed while it was read"):
                library.enumerate()
        finally:
            writer.kill()


def test_no_room_for_a_copy_of_the_database_is_an_error_that_says_so(bundle: Bundle) -> None:
    bundle.add("IMG_1.JPG", b"one")
    library = bundle.library()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(LibraryUnavailable, match=r"cannot be copied.*Make room"):
            library.enumerate()
        assert library.access().status == "limited"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)


def test_what_osxphotos_says_stays_off_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    library = Bundle(tmp_path / "P.photoslibrary", UNKNOWN).library()
    handlers = list(logging.getLogger("osxphotos").handlers)
    library.enumerate()
    assert capfd.readouterr() == ("", "") and not caplog.records
    assert logging.getLogger("osxphotos").handlers == handlers


def test_what_is_no_photos_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.photoslibrary").mkdir()
    (tmp_path / "file.photoslibrary").write_text("")
    for name in ("empty", "file", "absent"):
        with pytest.raises(LibraryRefused, match=name):
            register_apple_photos(tmp_path / f"{name}.photoslibrary")
    old = tmp_path / "old.photoslibrary"
    (old / "database").mkdir(parents=True)
    (old / "originals").mkdir()
    with closing(sqlite3.connect(old / DATABASE)) as con:
        con.execute("CREATE TABLE anything (x)")
    with pytest.raises(LibraryRefused, match="not a database of Photos"):
        register_apple_photos(old)


def test_the_same_bundle_is_registered_once_whatever_path_leads_to_it(bundle: Bundle, tmp_path: Path) -> None:
    config = register_apple_photos(bundle.path)
    link = tmp_path / "link.photoslibrary"
    link.symlink_to(bundle.path)
    assert register_apple_photos(link) == config
    with pytest.raises(LibraryRefused, match="registered already"):
        register_apple_photos(link, [config])


def test_a_computer_without_osxphotos_is_told_what_to_install(bundle: Bundle) -> None:
    config = register_apple_photos(bundle.path)
    code = (
        "import sys, json\n"
        "sys.modules['osxphotos'] = None\n"
        "from library.apple_photos import ApplePhotosLibrary\n"
        "library = ApplePhotosLibrary('L', 'Mac', json.loads(sys.argv[1]))\n"
        "print(library.access().status)\n"
        "try: library.enumerate()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    import json

    from tests.library.worlds import run_python

    limited, error = run_python(code, json.dumps(config)).splitlines()
    assert limited == "limited"
    assert error.startswith("LibraryUnavailable") and "pip install 'deletion-sync[apple]'" in error


def test_importing_the_library_kinds_does_not_import_osxphotos() -> None:
    from tests.library.worlds import run_python

    assert run_python("import sys, library.registry; print('osxphotos' in sys.modules)").strip() == "False"


def test_every_version_that_osxphotos_knows_is_tested_and_the_other_tests_are_about_one_of_them() -> None:
    constants = pytest.importorskip("osxphotos._constants")
    assert set(VERSIONS.values()) == set(constants._DB_TABLE_NAMES)
    assert NEWEST in VERSIONS
