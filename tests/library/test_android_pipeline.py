"""A phone through the whole pipeline: what was deleted on it is trashed in the end, what lies in its trash is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from library.android_adb import register_android
from state import libraries
from state.db import writing
from tasks import clock
from tasks.opening import find_partition
from tests.library.fake_adb import FakePhone, fake_adb
from tests.world import World, checksum, small_world


@dataclass
class Phone:
    """A small world whose only library is a phone."""

    world: World
    phone: FakePhone
    numbers: dict[str, int] = field(default_factory=dict)

    def backed_up(self, name: str) -> None:
        content = f"photo {name}".encode()
        self.numbers[name] = self.phone.add(name, content)
        self.world.ids[name] = self.world.simulator.add_asset(
            self.world.user_id, checksum=checksum(content), file_name=name
        )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    with small_world(tmp_path, monkeypatch) as world:
        phone = FakePhone()
        with fake_adb(phone) as (host, port):
            config = register_android(None, host, port)
            _, partition = find_partition()
            now = clock.naive_now()
            with writing(partition) as con:
                libraries.remove(con, "photos", now)
                libraries.add(con, libraries.Registered("phone", "android", "Phone", json.dumps(config), now))
            here = Phone(world, phone)
            for number in range(6):
                here.backed_up(f"IMG_{number}.jpg")
            yield here


def test_a_photo_deleted_on_the_phone_is_held_and_then_trashed(here: Phone) -> None:
    world = here.world
    first = world.reconcile(dry_run=False)
    assert (first.outcome, first.counts["local"]) == ("nothing to do", 6), first
    here.phone.delete(here.numbers["IMG_1.jpg"])
    held = world.reconcile()
    assert (held.counts["held"], held.counts["delete"]) == (1, 0), held
    world.pass_days(15)
    planned = world.reconcile()
    assert planned.counts["delete"] == 1, planned
    assert world.apply(planned).outcome == "trashed"
    assert world.trashed() == {"IMG_1.jpg"}


def test_a_photo_in_the_phone_s_trash_is_not_treated_as_deleted_until_it_leaves_it(here: Phone) -> None:
    world, number = here.world, here.numbers["IMG_1.jpg"]
    world.reconcile()
    here.phone.trash(number)
    for _ in range(2):
        kept = world.reconcile()
        assert (kept.outcome, kept.counts["local"], kept.counts["delete"]) == ("nothing to do", 6, 0), kept
        world.pass_days(20)
    assert world.trashed() == set()


def test_a_phone_that_is_unplugged_aborts_the_run_and_starts_no_clock(here: Phone) -> None:
    world = here.world
    world.reconcile()
    here.phone.connected = lambda: False
    gone = world.reconcile()
    assert (gone.outcome, gone.rail) == ("aborted", "permission"), gone
    here.phone.connected = lambda: True
    world.pass_days(30)
    assert world.reconcile().outcome == "nothing to do"


def test_a_listing_that_is_cut_off_aborts_the_run_and_confirms_nothing(here: Phone) -> None:
    world = here.world
    world.reconcile()
    here.phone.before = lambda service: 300 if "_data" in service else None
    assert world.reconcile().outcome == "aborted"
    here.phone.before = lambda _: None
    world.pass_days(30)
    assert world.reconcile().outcome == "nothing to do"
    assert world.trashed() == set()


def test_a_photo_edited_on_the_phone_keeps_its_original_on_the_server(here: Phone) -> None:
    world = here.world
    world.reconcile()
    here.phone.edit(here.numbers["IMG_1.jpg"], b"edited bytes", 1_800_000_000)
    for _ in range(3):
        assert world.reconcile().outcome == "nothing to do"
        world.pass_days(20)
    assert world.trashed() == set()
