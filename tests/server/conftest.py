"""A phone at a simulated server of each version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.simulator_devices import Device, device
from tests.server.simulator_support import house


@pytest.fixture
def phone(version: str) -> Iterator[Device]:
    with house(version) as one, device(one, version) as held:
        yield held
