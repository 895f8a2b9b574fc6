"""A phone behind adb for the tests of the Android library alone: no server, and nothing that is remembered."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from library.android_adb import AndroidLibrary, register_android
from library.hashing import hash_parts
from library.protocol import Enumeration, Hashed
from tests.library.fake_adb import FakePhone, fake_adb


@dataclass
class World:
    phone: FakePhone
    host: str
    port: int

    def library(self) -> AndroidLibrary:
        return AndroidLibrary("L", "Phone", register_android(None, self.host, self.port))


@contextmanager
def phone_behind_adb() -> Iterator[World]:
    """An empty phone that is connected."""
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
