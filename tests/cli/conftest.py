"""Fixtures: a small world whose server has the real time, because the program's own clock is the real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.program import end_warm, now
from tests.kept import Made, kept_fixture
from tests.world import World


@pytest.fixture(scope="session", autouse=True)
def warm_program_ends() -> Iterator[None]:
    yield
    end_warm()


def nothing_yet(world: World) -> None:
    """Of a newcomer who registered a library, and did no more."""


made = kept_fixture(nothing_yet)


@pytest.fixture
def world(made: Made) -> World:
    found = made()
    found.now = now()
    return found
