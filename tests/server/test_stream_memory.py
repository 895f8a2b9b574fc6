"""The memory that reading the stream takes does not grow with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

READ = """
import sys, resource
from pathlib import Path
from datetime import datetime
from server.stream import BLOCK_BYTES, MAX_LINE_BYTES, blocks
from server.stream_parse import parse
from state.home import Home
from state.partition import activate
from state.server_cache import apply, server_cache, server_rows
from tests.server.test_stream_rules import COMPLETE, OWNER, asset, event, uuid_of

def chunks(count):
    line = event("AssetV1", asset(0xAAAAAAAA, thumbhash="x" * 100)) + b"\\n"
    before, after = line.split(uuid_of(0xAAAAAAAA).encode())
    for start in range(0, count, 100):
        yield b"".join(before + uuid_of(n).encode() + after for n in range(start, start + 100))
    yield COMPLETE + b"\\n"

def peak():  # in MiB; where /proc tells it: what getrusage tells includes the peak of the test's own process
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) // 1024

home = Path(sys.argv[1])
partition = activate(Home(home), "https://photos.example", OWNER, lambda line: None)
import duckdb
before = peak()
with server_cache(partition) as cache:
    for block in blocks(chunks(int(sys.argv[2])), BLOCK_BYTES, MAX_LINE_BYTES):
        for batch in parse(block).batches:
            apply(cache, batch, datetime(2026, 3, 1))
    assert server_rows(cache, home / "server.parquet") == int(sys.argv[2])
print(peak() - before)
"""


def _peak(folder: Path, events: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder), str(events)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_ten_times_the_events_take_no_more_than_300_mb(tmp_path: Path) -> None:
    small = min(_peak(tmp_path / f"small-{number}", 50_000) for number in range(2))
    # What the system gives back late counts as taken, so the least of two counts.
    large = min(_peak(tmp_path / f"large-{number}", 500_000) for number in range(2))
    assert large < 300
    assert large - small < 120, "what grows is DuckDB's own cache, up to its limit"
