"""Killed between any two steps of a sync and started again, the cache ends as an uninterrupted one (invariant 9)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.crash.stage import ROOT
from tests.server.client_support import World, world


@contextmanager
def syncing(here: World, home: Path) -> Iterator[Any]:
    """Runs a sync that dies at a step (0: none), and tells how it ended."""
    token = here.sim.add_session(here.user)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.stream_child", here.url, token, str(home), here.user],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    def run(step: int) -> str:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{step}\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    try:
        yield run
    finally:
        child.kill()
        child.communicate()


def delivered(home: Path) -> list[dict[str, Any]]:
    return sorted(pq.read_table(home / "server.parquet").to_pylist(), key=lambda row: str(row["asset_id"]))


def listed(here: World) -> list[dict[str, Any]]:
    return sorted(here.server.fetch_assets(here.user).to_pylist(), key=lambda row: str(row["asset_id"]))


def test_killed_at_every_step_of_a_first_sync_and_of_a_later_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with world() as here, syncing(here, home) as run:
        ids = here.add("IMG_", 4)
        here.sim.purge(ids[0])
        steps = int(run(0))
        assert steps == 3 * 5  # a delete, three assets and the complete
        for step in range(1, steps + 1):
            shutil.rmtree(home)
            assert run(step) == "killed", step
            assert run(0).isdigit() and delivered(home) == listed(here), step
        kept = tmp_path / "kept"
        shutil.copytree(home, kept)
        here.sim.purge(ids[1])
        here.sim.change_asset(ids[2], visibility="archive")
        here.add("new", 1)
        for step in range(1, 1 + 3 * 4):
            shutil.rmtree(home)
            shutil.copytree(kept, home)  # older than the server's cursor from the second time on
            assert run(step) == "killed", step
            assert run(0).isdigit() and delivered(home) == listed(here), step
