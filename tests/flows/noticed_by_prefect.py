"""Two Prefect runs that a rail stops, in a program of their own; prints what they ended with.

python -m tests.flows.noticed_by_prefect CLOCK_FILE
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from flows import ways
from flows.pipeline import ReconcileRequest
from tasks.clock import clock_of

if __name__ == "__main__":
    moment = datetime.fromisoformat(Path(sys.argv[1]).read_text())
    with clock_of(lambda: moment):
        print(json.dumps([ways.reconcile(ways.Way.PREFECT, ReconcileRequest()).rail for _ in range(2)]))
