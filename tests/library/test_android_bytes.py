"""The bytes of a phone behind adb are the bytes that it has; and whom the library talks to, as it was configured."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from library.android_adb import AndroidConfig, load_android_config
from library.errors import LibraryError
from tests.library.android_phone import World, hashed, phone_behind_adb, sha1
from tests.library.fake_adb import CAMERA, MODIFIED, PRIMARY, Large
from tests.library.worlds import REPOSITORY


@pytest.fixture
def world() -> Iterator[World]:
    with phone_behind_adb() as found:
        yield found


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


def _config(host: str = "127.0.0.1", port: int = 5037) -> AndroidConfig:
    return AndroidConfig(host=host, port=port, serial="S", hardware="S", database="d", volumes=[PRIMARY])


def test_where_no_adb_server_answers_none_is_started(tmp_path: Path) -> None:
    """The adb client that comes with the library would start one; it is put in reach, and must not be run."""
    pytest.importorskip("adbutils")
    started = tmp_path / "started"
    adb = tmp_path / "adb"
    adb.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    adb.chmod(0o755)
    with socket.socket() as unused:  # held, so that no other process comes to listen there
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
            capture_output=True, text=True, check=False, timeout=120,
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
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "install deletion-sync[android]" in done.stdout, done.stderr


# Its configuration


@pytest.mark.parametrize("key", ["host", "port", "serial", "hardware", "database", "volumes"])
def test_a_configuration_with_a_gap_is_damaged(key: str) -> None:
    assert load_android_config(_config(), "Phone") == _config()
    for damaged in ({k: v for k, v in _config().items() if k != key}, {**_config(), key: ""}, {**_config(), key: []}):
        with pytest.raises(LibraryError, match="register it again"):
            load_android_config(damaged, "Phone")


def test_the_camera_s_folder_is_the_one_of_real_phones(world: World) -> None:
    world.phone.add("a.jpg")
    assert world.library().albums() == {"-1739773001": CAMERA.rpartition("/")[2]}
