"""What the state tests share: a partition, checksums by number, a clock that stands still, a process to kill."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from pydantic import SecretStr

from state.credentials import Credentials
from state.db import reading, writing
from state.home import Home
from state.partition import Partition, activate

URL = "https://photos.example.org"
USER = "11111111-1111-4111-8111-111111111111"
OTHER_USER = "22222222-2222-4222-8222-222222222222"
NOW = datetime.fromisoformat("2026-03-01T12:00:00")
ROOT = Path(__file__).resolve().parents[2]

_started: list[subprocess.Popen[str]] = []


def checksum(number: int) -> str:
    return base64.b64encode(hashlib.sha1(str(number).encode()).digest()).decode()


def credentials(key: str = "the-secret-key") -> Credentials:
    return Credentials(URL, SecretStr(key))


def partition_in(home: Home, user: str | None = USER) -> Partition:
    return activate(home, URL, user, lambda line: None)


def process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process of its own that runs the code with these arguments in sys.argv. It ends with the test."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _started.append(child)
    return child


def finish(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Waits for the process; its exit status and what it printed."""
    out, _ = child.communicate(timeout=120)
    return child.returncode, out


def end_processes() -> None:
    """Kills and waits for what ``process`` started, however its test ended."""
    while _started:
        child = _started.pop()
        child.kill()  # nothing happens where it was waited for
        child.communicate()


def observe(partition: Partition, *numbers: int) -> None:
    with writing(partition) as con:
        con.executemany("INSERT INTO observed VALUES (?, [], ?)", [[checksum(n), NOW] for n in numbers])


def observed(partition: Partition) -> int:
    with reading(partition) as con:
        row = con.execute("SELECT count(*) FROM observed").fetchone()
    assert row is not None
    return int(row[0])
