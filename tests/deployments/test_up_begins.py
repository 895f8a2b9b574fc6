"""What is known of an `up` in its first moments, before it has started anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployments import running
from deployments.place import Place
from engine.errors import PartitionBusy
from state.home import Home

STRANGER = 999_999_999


def test_down_never_takes_an_earlier_ups_number_for_that_of_the_one_that_begins(tmp_path: Path) -> None:
    place = Place(Home(tmp_path / "home"))
    part = running.Part(4_321, "2026-03-01T12:00:00Z", True)
    before = running.Running(STRANGER, "2026-03-01T12:00:00Z", "http://127.0.0.1:4200", "/somewhere", {"server": part})
    running.save(place, before)
    with running.alone(place):
        found = running.now_running(place)
        assert found is not None and found.pid == os.getpid()
        assert [left.pid for left in found.parts.values()] == [4_321], "what is left of the earlier one is still known"
        assert not found.ready and found.url == ""
        with pytest.raises(PartitionBusy, match=rf"pid {os.getpid()}, since \d\d:\d\d UTC\)"), running.alone(place):
            pass
