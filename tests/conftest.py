"""The world of a module that says with `made` how it is prepared."""

from __future__ import annotations

import pytest

from tests.kept import Made
from tests.world import World


@pytest.fixture
def world(made: Made) -> World:
    return made()
