"""The main job as a program of its own: run by the tests one way or the other, so that their outcomes can be compared.

    python -m tests.flows.story direct|prefect PHOTOS CLOCK_FILE

Prints one JSON list: what each run ended with. The clock file holds the time of both sides.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from engine.errors import DeletionSyncError
from flows import ways
from flows.pipeline import ReconcileRequest, RestoreRequest
from state import journal
from tasks.clock import clock_of
from tasks.opening import find_partition


def tell(way: ways.Way, photos: Path, clock_file: Path) -> list[dict[str, Any]]:
    """First run, deletion, quarantine, apply, a second apply, restore, and the run after it."""

    def now() -> datetime:
        return datetime.fromisoformat(clock_file.read_text())

    def pass_days(days: int) -> None:
        clock_file.write_text((now() + timedelta(days=days)).isoformat())

    seen: list[dict[str, Any]] = []
    with clock_of(now):
        seen.append(asdict(ways.reconcile(way, ReconcileRequest(dry_run=False))))
        for name in ("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV"):
            (photos / name).unlink()
        seen.append(asdict(ways.reconcile(way, ReconcileRequest())))
        pass_days(15)
        planned = ways.reconcile(way, ReconcileRequest())
        seen.append(asdict(planned))
        assert planned.digest is not None
        applied = ways.apply(way, planned.digest)
        seen.append(asdict(applied))
        try:
            ways.apply(way, planned.digest)
        except DeletionSyncError as error:
            seen.append({"error": type(error).__name__, "what": error.what})
        seen.append(asdict(ways.restore(way, RestoreRequest(applied.run_id))))
        pass_days(30)
        seen.append(asdict(ways.reconcile(way, ReconcileRequest())))
        _, partition = find_partition()
        lines = journal.read(partition).records
        seen.append({"journal": [[line.status or line.decision, line.file_name] for line in lines]})
    return seen


if __name__ == "__main__":
    print(json.dumps(tell(ways.Way(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))))
