"""The world that most of these tests begin with; those that need another one make their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bad_days import delete_some, furnish
from tests.world import World, small_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        furnish(found)
        yield found


@pytest.fixture
def due(world: World) -> World:
    delete_some(world)
    return world
