"""The world that most of these tests begin with; those that need another one make their own."""

from __future__ import annotations

import pytest

from tests.e2e.bad_days import delete_some, furnish
from tests.kept import kept_fixture
from tests.world import World

made = kept_fixture(furnish)


@pytest.fixture
def due(world: World) -> World:
    delete_some(world)
    return world
