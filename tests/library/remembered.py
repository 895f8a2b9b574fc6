"""What a run of a small world remembers and decides, for the tests that take a library through the whole pipeline."""

from __future__ import annotations

from datetime import datetime

import pyarrow.parquet as pq

from state.db import reading
from tasks.opening import find_partition
from tasks.summary import Summary
from tests.world import World


def confirmed() -> dict[str, datetime]:
    """Checksum to confirmation date."""
    _, partition = find_partition()
    with reading(partition) as con:
        return dict(con.execute("SELECT checksum, confirmed_at FROM confirmed_deleted").fetchall())


def decided(world: World, summary: Summary) -> dict[str, tuple[str, str, int | None]]:
    """Of a run's candidates: what the test calls the photo to bucket, reason and days left."""
    _, partition = find_partition()
    rows = pq.read_table(partition.runs / summary.run_id / "decision.parquet").to_pylist()
    called = {asset_id: name for name, asset_id in world.ids.items()}
    return {called[row["asset_id"]]: (row["bucket"], row["reason"], row["days_left"]) for row in rows}
