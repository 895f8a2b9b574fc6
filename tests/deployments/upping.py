"""A real `up` in a process of its own, as a person starts it, and its server's API."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.cli.program import heed_interrupts

PROGRAM = Path(sys.executable).with_name("deletion-sync")
PATIENCE = 180.0  # a request of Prefect's own may wait for a minute before it is made again


def _quiet_zone(now: datetime) -> str:
    """A time zone in which it is past nine in the morning: no schedule starts a run for two hours to come."""
    ahead = (9 - now.hour + 11) % 24 - 11  # hours from UTC, -11 to 12
    return f"Etc/GMT{-ahead:+d}"  # these names have the sign the other way round


# Every `up` of these tests lives there, and the test process where it asks for its zone.
ZONE = _quiet_zone(datetime.now(UTC))


def until(look: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """What ``look`` returns once it is neither None nor False."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)


@dataclass
class Up:
    """``lines``: what it told so far."""

    process: subprocess.Popen[bytes]
    home: Path
    lines: list[str] = field(default_factory=list)

    def told(self, text: str) -> str:
        """The first line that has the text. Fails when the program ends before."""

        def look() -> str | None:
            for line in list(self.lines):
                if text in line:
                    return line
            assert self.process.poll() is None, self.lines
            return None

        return str(until(look, text))

    @property
    def running(self) -> Any:
        return json.loads((self.home / "up" / "running.json").read_text())

    @property
    def url(self) -> str:
        return str(self.running["url"])

    def pid(self, name: str) -> int:
        return int(self.running["parts"][name]["pid"])

    def ready_again(self, name: str, former: int) -> int:
        """The number of the process that took over, once it is ready."""

        def look() -> int | None:
            part = self.running["parts"].get(name)
            return part["pid"] if part is not None and part["ready"] and part["pid"] != former else None

        return int(until(look, f"{name} again"))

    def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; returns the exit code and how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE), time.monotonic() - began


def environment(home: Path, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The environment of a person who has nothing set but the home."""
    kept = {k: v for k, v in os.environ.items() if k not in ("SERVER_URL", "SERVER_API_KEY", "PYTHONPATH")}
    merged = {**kept, "DELETION_SYNC_HOME": str(home), "TZ": ZONE, **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}


def program(home: Path, directory: Path, *arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """A command of the program, run to its end in that directory."""
    return subprocess.run(
        [PROGRAM, *arguments], cwd=directory, env=environment(home, changes), capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


@contextmanager
def upped(home: Path, directory: Path, *arguments: str, **changes: str | None) -> Iterator[Up]:
    """`up` in that directory; killed at the end of the block if it is still there."""
    process = subprocess.Popen(
        [PROGRAM, "up", *arguments], cwd=directory, env=environment(home, changes), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=heed_interrupts,  # noqa: PLW1509
    )  # fmt: skip
    up = Up(process, home)
    reader = threading.Thread(target=_read, args=(up,))
    with process:
        reader.start()
        try:
            yield up
        finally:
            process.kill()
            process.wait()
            reader.join()


def _read(up: Up) -> None:
    assert up.process.stdout is not None
    for line in up.process.stdout:
        up.lines.append(line.decode().rstrip())


class _Patient(httpx.HTTPTransport):
    """Asks again where the server's database was busy, as Prefect's own client does."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = time.monotonic() + PATIENCE
        while True:
            answer = super().handle_request(request)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() >= end:
                return answer
            answer.close()
            time.sleep(0.2)


@contextmanager
def api_of(url: str) -> Iterator[httpx.Client]:
    """A client of the API that has the token which the server asks for."""
    with httpx.Client(base_url=f"{url}/api", transport=_Patient(), timeout=60) as api:
        client = str(uuid.uuid4())
        token = api.get("/csrf-token", params={"client": client}).raise_for_status().json()["token"]
        api.headers.update({"Prefect-Csrf-Client": client, "Prefect-Csrf-Token": token})
        yield api


def run_of(api: httpx.Client, deployment: str, **parameters: object) -> Any:
    """Start a deployment as the UI does; the flow run."""
    found = api.get(f"/deployments/name/{deployment}").raise_for_status().json()
    return api.post(f"/deployments/{found['id']}/create_flow_run", json={"parameters": parameters}).json()


def planned(api: httpx.Client, **of: object) -> list[Any]:
    """The flow runs that the schedules are to start."""
    state = {"state": {"type": {"any_": ["SCHEDULED"]}}}
    rows: list[Any] = api.post("/flow_runs/filter", json={"flow_runs": state, **of}).raise_for_status().json()
    return rows


def made_missed(home: Path, deployment: str) -> list[str]:
    """Let every planned run of that deployment have been due while nothing ran; their ids."""
    past = datetime.now(UTC) - timedelta(days=1)
    database = sqlite3.connect(home / "prefect" / "prefect.db")
    try:
        where = "deployment_id = ? AND state_type = 'SCHEDULED'"
        ids = [row[0] for row in database.execute(f"SELECT id FROM flow_run WHERE {where}", (deployment,))]
        for number, run_id in enumerate(ids):
            due = (past + timedelta(minutes=number)).strftime("%Y-%m-%d %H:%M:%S.%f")
            database.execute(
                "UPDATE flow_run SET expected_start_time = ?, next_scheduled_start_time = ? WHERE id = ?",
                (due, due, run_id),
            )
            database.execute(
                "UPDATE flow_run_state SET state_details = json_set(state_details, '$.scheduled_time', ?) "
                "WHERE flow_run_id = ?",
                (f"{due}Z", run_id),
            )
        database.commit()
    finally:
        database.close()
    return ids


def ended_run(api: httpx.Client, run_id: str) -> Any:
    """The flow run once it has ended."""

    def look() -> Any:
        run = api.get(f"/flow_runs/{run_id}").raise_for_status().json()
        return run if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    return until(look, "the flow run's end")


def group(leader: int) -> list[str]:
    """The command lines of a process group, without what is dead already."""
    listing = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,command="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(leader) and not row[1].startswith("Z")]
