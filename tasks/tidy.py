"""Old runs keep what tells of them (facts, plan, decision, summary); the copies of whole listings go.

A run of a large library leaves tens of megabytes, and `watch` may start one every few minutes.
"""

from __future__ import annotations

from contextlib import suppress

from state.db import reading
from state.partition import Partition
from state.runs import planned
from tasks import classify, diff, enumerate, fetch_server_assets, hash, merge_observed, scope_filter

KEPT_WHOLE = 5  # newest runs
BULKY = (
    enumerate.LISTING,
    enumerate.CHANGES,
    hash.LOCAL,
    merge_observed.MEMORY,
    merge_observed.NAMES,
    fetch_server_assets.SERVER,
    diff.CANDIDATES,
    scope_filter.SCOPED,
)
assert classify.DECISION not in BULKY  # what a person was shown stays


def tidy(partition: Partition) -> None:
    """Remove the bulky files of all but the newest runs and the one whose plan can still be approved.

    Needs the partition's lock. A file that cannot be removed stays: the next run tries again.
    """
    folders = sorted((path for path in partition.runs.iterdir() if path.is_dir()), reverse=True)
    with reading(partition) as con:
        keep = {run.run_id for run in planned(con)[:1]} | {path.name for path in folders[:KEPT_WHOLE]}
    for folder in folders:
        if folder.name not in keep:
            for name in BULKY:
                with suppress(OSError):
                    (folder / name).unlink(missing_ok=True)
