"""Fixtures: a small world whose server has the real time, because the program's own clock is the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import end_warm, now
from tests.world import World, small_world


@pytest.fixture(scope="session", autouse=True)
def warm_program_ends() -> Iterator[None]:
    yield
    end_warm()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        found.now = now()
        yield found
