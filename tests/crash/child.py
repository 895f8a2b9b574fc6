"""The client as a process that can be killed: each job runs in a fork of a process that has imported everything.

    python -m tests.crash.child

One JSON order a line on stdin: {"job", "arguments", "now", "die_at"}. Two lines answer it on stdout: the fork's pid,
then how it ended. With ``die_at`` the fork kills itself at its N-th event that writes, before the write happens.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  imported before the fork, so that each fork need not
import httpx  # noqa: F401
import pyarrow.parquet  # noqa: F401
from pydantic import SecretStr

from engine.errors import DeletionSyncError
from flows import direct, pipeline
from library.identity import load_folder_config, renew_folder
from server.client import PhotoServer
from state import exclusions
from state.db import writing
from tasks.clock import clock_of, naive_now
from tasks.opening import find_partition

WRITES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
    | {"fcntl.flock", "tempfile.mkstemp"}
)


class Death:
    """Counts the events that write, and kills this process at the one that it was told."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if not (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not set(mode or "") & set("wax+"):
                return
        elif event not in WRITES:
            return
        else:
            path = arguments[0] if arguments else ""
        self.seen.append(f"{event} {Path(os.fsdecode(path)).name if isinstance(path, str | bytes) else path}")
        if len(self.seen) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def work(job: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One job, the direct way."""
    if job == "reconcile":
        return asdict(pipeline.reconcile(direct.call, direct.WAY, pipeline.ReconcileRequest(**arguments)))
    if job == "apply":
        return asdict(pipeline.apply(direct.call, direct.WAY, **arguments))
    if job == "restore":
        return asdict(pipeline.restore_run(direct.call, direct.WAY, pipeline.RestoreRequest(**arguments)))
    if job == "renew":  # the library as this process sees it: its file systems may be its own
        return {"renewed": _renew()}
    if job == "shell":
        return {"status": subprocess.run(arguments["command"], shell=True, check=False).returncode}
    assert job == "exclude"
    _, partition = find_partition()
    return {"excluded": exclusions.add(partition, arguments["checksums"], "kept", naive_now())}


def _renew() -> int:
    _, partition = find_partition()
    with writing(partition) as con:
        rows = con.execute("SELECT library_id, config FROM libraries").fetchall()
        for library_id, config in rows:
            renewed = json.dumps(renew_folder(load_folder_config(json.loads(config), library_id)))
            con.execute("UPDATE libraries SET config = ? WHERE library_id = ?", [renewed, library_id])
    return len(rows)


def run(order: dict[str, Any]) -> dict[str, Any]:
    """The outcome of an order: the summary, or the error with its exit code; and the events that wrote."""
    start = datetime.fromisoformat(order["now"])
    ticks = iter(range(10**9))
    death = Death(order["die_at"])
    with clock_of(lambda: start + timedelta(milliseconds=next(ticks))):
        sys.addaudithook(death)
        try:
            outcome = work(order["job"], order["arguments"])
        except DeletionSyncError as error:
            outcome = {"error": type(error).__name__, "what": str(error), "exit_code": error.exit_code}
    return {**outcome, "writes": death.seen}


def main() -> None:
    """Fork a process per order, one after the other."""
    PhotoServer("http://localhost", SecretStr("none")).close()  # it reads the certificate authorities, and asks nothing
    for line in sys.stdin:
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(readable)
            try:
                answer = json.dumps(run(json.loads(line)))
            except BaseException as error:
                answer = json.dumps({"bug": repr(error)})
            with os.fdopen(writable, "w") as pipe:
                pipe.write(answer)
            os._exit(0)
        os.close(writable)
        print(pid, flush=True)
        with os.fdopen(readable) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": True}) if killed else said, flush=True)


if __name__ == "__main__":
    main()
