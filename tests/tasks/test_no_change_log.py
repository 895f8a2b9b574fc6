"""A library that keeps no change log is never one of the registered ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import UsageError
from state.db import writing
from state.libraries import Registered, add
from tasks import clock
from tasks.opening import find_partition
from tests.world import checksum, small_world


def test_a_registered_list_of_checksums_concludes_nothing_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.backed_up("IMG_1.JPG")
        given = tmp_path / "sums.txt"
        given.write_text(checksum(b"anything") + "\n")
        with writing(find_partition()[1]) as con:
            add(con, Registered("list", "checksums_file", "list", json.dumps({"path": str(given)}), clock.naive_now()))
        with pytest.raises(UsageError, match="only what it holds now"):
            world.reconcile()
