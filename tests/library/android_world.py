"""A small world whose only library is a phone, for the tests that take a phone through the whole pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from library.android_adb import AndroidLibrary, register_android
from state import libraries
from state.db import writing
from tasks import clock
from tasks.opening import find_partition
from tests.library.fake_adb import FakePhone, fake_adb
from tests.world import World, checksum, small_world


@dataclass
class Phone:
    """``numbers`` are the rows of the media index, by what the test calls the photo."""

    world: World
    phone: FakePhone
    address: tuple[str, int]
    numbers: dict[str, int] = field(default_factory=dict)

    def library(self) -> AndroidLibrary:
        """As a step of a run opens it."""
        return AndroidLibrary("phone", "Phone", register_android(self.phone.serial, *self.address))

    def backed_up(self, name: str, **columns: object) -> None:
        content = f"photo {name}".encode()
        self.numbers[name] = self.phone.add(name, content, **columns)  # type: ignore[arg-type]
        self.upload(name, content)

    def upload(self, name: str, content: bytes, **fields: object) -> str:
        asset: dict[str, Any] = {"checksum": checksum(content), "file_name": name.rpartition("/")[2], **fields}
        self.world.ids[name] = self.world.simulator.add_asset(self.world.user_id, **asset)
        return self.world.ids[name]

    def run(self, days: float = 0) -> set[str]:
        """Run so many days later, and apply what it plans; returns what is in the server's trash then."""
        self.world.pass_days(days)
        summary = self.world.reconcile()
        if summary.outcome == "planned":
            assert self.world.apply(summary).outcome == "trashed"
        else:
            assert summary.outcome == "nothing to do", summary
        return self.world.trashed()


@contextmanager
def phone_world(root: Path, monkeypatch: pytest.MonkeyPatch, *others: FakePhone) -> Iterator[Phone]:
    """A registered phone with photos that the server has too; no run was made yet. ``others`` are connected as well."""
    with small_world(root, monkeypatch) as world:
        phone = FakePhone()
        with fake_adb(phone, *others) as address:
            config = register_android(phone.serial, *address)
            _, partition = find_partition()
            now = clock.naive_now()
            with writing(partition) as con:
                libraries.remove(con, "photos", now)
                libraries.add(con, libraries.Registered("phone", "android", "Phone", json.dumps(config), now))
            here = Phone(world, phone, address)
            for number in range(6):
                here.backed_up(f"IMG_{number}.jpg")
            yield here
