"""What `up` does while nothing can be written: what it keeps running goes on."""

from __future__ import annotations

import io
from pathlib import Path

from deployments import supervisor
from deployments.log import Log
from deployments.place import READY


def test_what_a_process_says_is_read_to_its_end_where_the_log_cannot_be_written(tmp_path: Path) -> None:
    log = Log(tmp_path / "up.log")
    log.path.mkdir()  # no line can be added to it, whoever runs the test
    child = supervisor._Child(supervisor.WORKER, "deployments.worker", {})
    said = io.BytesIO(f"one\ntwo\n{READY}\nthree\n".encode())
    supervisor._read(said, child, log)
    assert said.closed and child.ready.is_set()
