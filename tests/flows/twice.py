"""Two identical reconciliations and a third after the first two runs' files are gone; prints what each planned.

python -m tests.flows.twice CLOCK_FILE
"""

from __future__ import annotations

import json
import shutil
import sys
from datetime import datetime
from pathlib import Path

from flows import ways
from flows.pipeline import ReconcileRequest
from tasks.clock import clock_of
from tasks.opening import find_partition

if __name__ == "__main__":
    moment = datetime.fromisoformat(Path(sys.argv[1]).read_text())
    with clock_of(lambda: moment):
        runs = [ways.reconcile(ways.Way.PREFECT, ReconcileRequest()) for _ in range(2)]
        _, partition = find_partition()
        files = [sorted(path.name for path in (partition.runs / run.run_id).iterdir()) for run in runs]
        for run in runs:
            shutil.rmtree(partition.runs / run.run_id)
        runs.append(ways.reconcile(ways.Way.PREFECT, ReconcileRequest()))
    print(json.dumps({"digests": [run.digest for run in runs], "files": files}))
