"""Fixtures: a home folder and one account's partition in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.home import Home
from state.partition import Partition
from tests.state.helpers import end_processes, partition_in


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def partition(home: Home) -> Partition:
    return partition_in(home)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    end_processes()
