"""What a run asks of a phone: one listing a volume, however many photos; of a known photo nothing; no guesses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.relations import LOCAL
from state import hash_cache
from state.home import Home
from tests.library.android_world import Phone, phone_world
from tests.library.fake_adb import CAMERA, MODIFIED
from tests.world import checksum

MANY = 10_000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    with phone_world(tmp_path, monkeypatch) as here:
        yield here


def asked(here: Phone) -> tuple[int, int, list[str]]:
    """Since the last call: shell commands, listings of a volume, and what was asked of files."""
    listings = [service for service in here.phone.services if "--projection _id:_data" in service]
    of_files = [service for service in here.phone.services if service.startswith(("STA2", "RECV"))]
    found = here.phone.shells, len(listings), of_files
    here.phone.shells = 0
    here.phone.services.clear()
    return found


def test_a_warm_run_over_ten_thousand_photos_asks_nothing_of_any_file(here: Phone) -> None:
    for number in range(MANY):
        here.phone.add(f"OLD_{number}.jpg", b"%d" % number)
    table = here.library().enumerate().table
    rows = table.to_pylist()
    for row in rows:
        row.update(checksum=checksum(row["file_name"].encode()), captured_at=None)
    hash_cache.remember(Home(here.world.home), pa.Table.from_pylist(rows, schema=LOCAL))
    assert here.world.reconcile(dry_run=False).counts["local"] == MANY + 6
    asked(here)
    assert here.world.reconcile().outcome == "nothing to do"
    shells, listings, of_files = asked(here)
    assert listings == 1 and not of_files
    assert shells < 20  # who the phone is, before and after the listing: as many for ten photos
    here.phone.add("NEW.jpg", b"new")
    here.world.reconcile()
    shells, listings, of_files = asked(here)
    assert listings == 2  # the step that hashes is another process, and lists once for itself
    assert shells < 25
    assert len(of_files) == 4 and all(service.endswith("/NEW.jpg") for service in of_files)


def test_a_photo_to_be_hashed_costs_no_shell_command_and_is_sent_once(here: Phone) -> None:
    here.world.reconcile()
    few, _, _ = asked(here)
    for number in range(40):
        here.phone.add(f"NEW_{number}.jpg", b"%d" % number, modified=MODIFIED + number)
    here.world.reconcile()
    many, listings, of_files = asked(here)
    assert listings == 2 and many <= few + 2
    sent = [service for service in of_files if service.startswith("RECV")]
    assert sorted(sent) == sorted(f"RECV {CAMERA}/NEW_{number}.jpg" for number in range(40))


def test_each_volume_is_listed_by_one_command(here: Phone) -> None:
    here.phone.volumes["public:179,1"] = "mounted 1A2B-3C4D"
    here.phone.add("/storage/1A2B-3C4D/DCIM/b.jpg", volume_name="1a2b-3c4d")
    library = here.library()
    asked(here)
    assert library.enumerate().table.num_rows == 7
    shells, listings, _ = asked(here)
    assert listings == 2
    index = 2  # its version and its generation
    assert shells == listings + 2 * (2 + index) + index
