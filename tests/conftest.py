"""The world of a module that says with `made` how it is prepared; and properties that a busy machine does not break."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.kept import Made
from tests.world import World

# How long an example takes says nothing of the program where other processes want the computer too.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def world(made: Made) -> World:
    return made()
