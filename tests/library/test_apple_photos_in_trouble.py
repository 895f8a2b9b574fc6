"""An Apple Photos library that is damaged, changing, older, another one or unknown never gives a shorter listing."""

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

import pytest

from library.apple_database import DATABASE
from library.apple_photos import ApplePhotosLibrary, register_apple_photos
from library.errors import LibraryRefused, LibraryUnavailable
from tests.deployments.upping import until
from tests.library.apple_bundle import NEWEST, UNKNOWN, VERSIONS, Bundle
from tests.library.worlds import trashed_ids


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path / "Photos Library.photoslibrary")


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
    assert [row["local_id"] for row in listing.table.to_pylist()] == [key]
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


def test_a_database_that_keeps_changing_while_it_is_copied_is_an_error_not_a_mixture(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.add("IMG_1.JPG", b"one")
    library = bundle.library()
    copyfile = shutil.copyfile

    def slowly(source: str, target: Path) -> None:
        """A copy that takes until the writer had its turn, which on a busy machine may come late."""
        before = Path(source).stat().st_mtime_ns
        copyfile(source, target)
        until(lambda: Path(source).stat().st_mtime_ns != before, "the writer")

    code = (
        "import itertools, os, sys\nprint(flush=True)\nfor n in itertools.count(): os.utime(sys.argv[1], ns=(n, n))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, bundle.database], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            monkeypatch.setattr(shutil, "copyfile", slowly)
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
