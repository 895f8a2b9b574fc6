"""A Prefect run that fails by an error which names a file, in a program of its own; prints what its callers got.

python -m tests.flows.withheld_by_prefect CLOCK_FILE BROKEN_CHECKSUMS_FILE
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import datetime
from pathlib import Path

from engine.errors import DeletionSyncError
from flows import ways
from flows.pipeline import ReconcileRequest
from flows.reconcile import reconcile
from tasks.clock import clock_of

if __name__ == "__main__":
    moment = datetime.fromisoformat(Path(sys.argv[1]).read_text())
    ours = prefects = ""
    with clock_of(lambda: moment):
        try:
            ways.reconcile(ways.Way.PREFECT, ReconcileRequest(checksums_file=Path(sys.argv[2])))
        except DeletionSyncError as error:
            ours = str(error)
        try:
            reconcile(local_checksums_file=Path(sys.argv[2]))
        except Exception:
            prefects = traceback.format_exc()  # what Prefect writes to the run's log, where a worker started it
    print(json.dumps({"ours": ours, "prefects": prefects}))
