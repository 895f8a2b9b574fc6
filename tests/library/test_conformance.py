"""What every kind of local library promises, whichever it is."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from library.android_adb import register_android
from library.apple_photos import register_apple_photos
from library.checksums_file import register_checksums_file
from library.errors import LibraryError
from library.hashing import hash_parts
from library.identity import register_folder
from library.protocol import ENUMERATED, Library
from library.registry import kinds, open_library
from tests.library.apple_bundle import Bundle
from tests.library.fake_adb import FakePhone, fake_adb
from tests.library.worlds import put

CONTENTS = (b"one", b"two", b"three")
SERVERS = ExitStack()  # what a world needs running until its test ends


def checksum_of(content: bytes) -> str:
    return base64.b64encode(hashlib.sha1(content).digest()).decode()


def make_folder(place: Path) -> dict[str, Any]:
    for number, content in enumerate(CONTENTS):
        put(place / "photos", f"album/{number}.jpg", content=content)
    return dict(register_folder(place / "photos"))


def make_checksums_file(place: Path) -> dict[str, Any]:
    place.mkdir(parents=True, exist_ok=True)
    (place / "photos").write_text("".join(f"{checksum_of(content)}\n" for content in CONTENTS))
    return dict(register_checksums_file(place / "photos"))


def make_apple_photos(place: Path) -> dict[str, Any]:
    bundle = Bundle(place / "photos")
    keys = [bundle.add(f"IMG_{number}.JPG", content) for number, content in enumerate(CONTENTS)]
    bundle.album("Holiday", *keys)
    return dict(register_apple_photos(bundle.path))


def make_android(place: Path) -> dict[str, Any]:
    """A phone that is connected while the place is there, and is called like it."""
    (place / "photos").mkdir()
    phone = FakePhone(serial=str(place / "photos"), connected=(place / "photos").is_dir)
    for number, content in enumerate(CONTENTS):
        phone.add(f"IMG_{number}.jpg", content)
    return dict(register_android(None, *SERVERS.enter_context(fake_adb(phone))))


MAKERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "folder": make_folder,
    "checksums_file": make_checksums_file,
    "apple_photos": make_apple_photos,
    "android": make_android,
}


@dataclass(frozen=True)
class World:
    library: Library
    config: dict[str, Any]
    place: Path  # the folder or file itself


@pytest.fixture(params=kinds())
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kind = str(request.param)
    config = MAKERS[kind](tmp_path)
    yield World(open_library("L1", kind, "My photos", config), config, tmp_path / "photos")
    SERVERS.close()


def test_a_listing_has_the_columns_of_the_contract(world: World) -> None:
    table = world.library.enumerate().table
    assert table.schema == ENUMERATED
    assert set(table["library_id"].to_pylist()) == {"L1"}
    for required in ("local_id", "part", "file_name", "albums"):
        assert table[required].null_count == 0


def test_a_listing_is_whole_and_says_so(world: World) -> None:
    listing = world.library.enumerate()
    assert listing.complete
    assert listing.table.num_rows == len(CONTENTS)
    assert world.library.access().status == "full"


def test_two_listings_of_the_same_files_are_equal(world: World) -> None:
    assert world.library.enumerate().table.equals(world.library.enumerate().table)


def test_a_part_is_listed_once(world: World) -> None:
    table = world.library.enumerate().table
    keys = list(zip(table["local_id"].to_pylist(), table["part"].to_pylist(), strict=True))
    assert len(set(keys)) == len(keys)


def test_hashing_gives_the_checksum_of_every_part(world: World) -> None:
    hashed = list(hash_parts({"L1": world.library}, world.library.enumerate().table))
    assert {h.checksum for h in hashed} == {checksum_of(content) for content in CONTENTS}
    assert not any(h.problem for h in hashed)


def test_the_configuration_survives_json(world: World) -> None:
    again = open_library("L1", world.library.kind, "My photos", json.loads(json.dumps(world.config)))
    assert again.enumerate().table.equals(world.library.enumerate().table)


def test_a_library_that_is_gone_is_an_error_and_limited_access_never_an_empty_listing(world: World) -> None:
    if world.place.is_dir():
        shutil.rmtree(world.place)
    else:
        world.place.unlink()
    access = world.library.access()
    assert access.status == "limited"
    assert str(world.place) in access.problems[0]
    with pytest.raises(LibraryError, match=str(world.place)):
        world.library.enumerate()


def test_a_library_replaced_by_something_else_is_limited(world: World) -> None:
    if world.place.is_dir():
        shutil.rmtree(world.place)
        world.place.write_text("")
    else:
        world.place.unlink()
        world.place.mkdir()
    assert world.library.access().status == "limited"
    with pytest.raises(LibraryError):
        world.library.enumerate()


def test_the_change_log_is_as_the_library_says(world: World) -> None:
    listing = world.library.enumerate()
    assert (listing.token is not None) == world.library.has_change_log
    assert world.library.change_token() == listing.token
    changes = world.library.changes_since(listing.token or "", listing.table, listing.table)
    assert changes.expired == (not world.library.has_change_log)
    assert not changes.table.num_rows


@pytest.mark.parametrize("token", ["", "nonsense", "[]", "null", '{"root": "another", "generation": 1}'])
def test_a_token_that_is_not_its_own_is_expired(world: World, token: str) -> None:
    table = world.library.enumerate().table
    assert world.library.changes_since(token, table, table).expired


@pytest.mark.parametrize("local_id", ["../photos", "/etc/passwd", "", "album/../../x", "\\x2e\\x2e/x", "no such"])
def test_an_id_that_is_not_its_own_opens_nothing(world: World, local_id: str) -> None:
    with pytest.raises(OSError):
        world.library.open_bytes(local_id, "primary").close()
    with pytest.raises(OSError):
        world.library.open_bytes(local_id, "motion").close()


def test_albums_of_the_rows_are_albums_of_the_library(world: World) -> None:
    table = world.library.enumerate().table
    assert {album for row in table["albums"].to_pylist() for album in row} <= set(world.library.albums())


def test_an_empty_table_hashes_to_nothing(world: World) -> None:
    assert list(hash_parts({"L1": world.library}, pa.Table.from_pylist([], schema=ENUMERATED))) == []


@pytest.mark.parametrize("kind", kinds())
def test_a_damaged_configuration_says_what_to_do(kind: str) -> None:
    with pytest.raises(LibraryError, match="register it again"):
        open_library("L1", kind, "My photos", {})


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(LibraryError, match="folder, checksums_file"):
        open_library("L1", "cassette", "My photos", {})


def test_every_kind_is_held_to_this_suite() -> None:
    assert set(MAKERS) == set(kinds())
