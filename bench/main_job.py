"""The main job at size: a folder of real files against a simulated server with as many assets, step by step.

    python -m bench.main_job [--files 10000] [--trash 40] [--size 20000]

Beside the times it prints two peers of the same run: `openssl sha1` over the same files with as many processes as
cores, and one bare listing of the server without any of our parsing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from flows import pipeline
from library.identity import register_folder
from server.simulator import Simulator, serving, sha1_checksum
from state.db import writing
from state.libraries import Registered, add
from tasks import clock
from tasks.opening import find_partition
from tasks.step import Step

now = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Stopwatch:
    """Runs steps directly, and remembers how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def call(self, step: Step, *arguments: Any) -> Any:
        begun = time.perf_counter()
        try:
            return step(*arguments)
        finally:
            self.seconds[step.name] = self.seconds.get(step.name, 0.0) + time.perf_counter() - begun


@contextmanager
def timed(title: str) -> Iterator[Stopwatch]:
    """Print how long a run took, and each of its steps."""
    watch = Stopwatch()
    begun = time.perf_counter()
    yield watch
    total = time.perf_counter() - begun
    steps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in watch.seconds.items())
    print(f"{title:<28}{total:7.2f} s   ({steps})", flush=True)


def make_files(folder: Path, count: int, size: int) -> dict[str, str]:
    """Files of random bytes in folders of a hundred; name to checksum."""
    checksums = {}
    for number in range(count):
        path = folder / f"{number // 100:04d}" / f"IMG_{number:06d}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = secrets.token_bytes(size)
        path.write_bytes(content)
        checksums[str(path.relative_to(folder))] = sha1_checksum(content)
    return checksums


def peers(folder: Path, url: str, key: str) -> None:
    """What the same work costs without us."""
    begun = time.perf_counter()
    subprocess.run(
        f"find . -type f -print0 | xargs -0 -P{os.cpu_count()} -n 200 openssl sha1 > /dev/null",
        shell=True, check=True, cwd=folder,
    )  # fmt: skip
    hashing = time.perf_counter() - begun
    begun, page = time.perf_counter(), 1
    with httpx.Client(base_url=url, headers={"x-api-key": key}, trust_env=False) as client:
        while page:
            body = {"visibility": "timeline", "withDeleted": True, "size": 1000, "page": page}
            page = int(client.post("/api/search/metadata", json=body).json()["assets"]["nextPage"] or 0)
    print(f"{'peers':<28}openssl sha1 on all cores {hashing:.2f} s; bare listing {time.perf_counter() - begun:.2f} s")


def main() -> None:
    global now
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", type=int, default=10_000)
    options.add_argument("--trash", type=int, default=40)
    options.add_argument("--size", type=int, default=20_000)
    options.add_argument("--server-version", default="3.1.0")
    given = options.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        photos = root / "photos"
        photos.mkdir()
        checksums = make_files(photos, given.files, given.size)
        simulator = Simulator(version=given.server_version, clock=lambda: now)
        user = simulator.add_user("Alice", "alice@example.com")
        key = simulator.add_key(user, ["all"])
        simulator.add_assets(
            user,
            [
                {"checksum": checksum, "file_name": Path(name).name, "captured_at": now - timedelta(minutes=number)}
                for number, (name, checksum) in enumerate(checksums.items())
            ],
        )
        url = stack.enter_context(serving(simulator))
        stack.enter_context(clock.clock_of(lambda: now))
        os.environ.update(DELETION_SYNC_HOME=str(root / "home"), SERVER_URL=url, SERVER_API_KEY=key)
        _, partition = find_partition()
        with writing(partition) as con:
            config = json.dumps(register_folder(photos))
            add(con, Registered("bench", "folder", "photos", config, clock.naive_now()))
        print(f"{given.files} files of {given.size} bytes, {given.files} server assets, {os.cpu_count()} cores")
        request = pipeline.ReconcileRequest()
        with timed("first dry run (cold hashes)") as watch:
            pipeline.reconcile(watch.call, "direct", request)
        with timed("dry run, nothing changed") as watch:
            pipeline.reconcile(watch.call, "direct", request)
        for name in list(checksums)[: given.trash]:
            (photos / name).unlink()
        with timed(f"dry run, {given.trash} deleted") as watch:
            held = pipeline.reconcile(watch.call, "direct", request)
        assert held.counts["held"] == given.trash, held
        now += timedelta(days=15)
        with timed("dry run after quarantine") as watch:
            planned = pipeline.reconcile(watch.call, "direct", request)
        assert planned.digest is not None and planned.counts["delete"] == given.trash, planned
        with timed(f"apply: trash {given.trash}") as watch:
            applied = pipeline.apply(watch.call, "direct", planned.digest)
        assert applied.counts["trashed"] == given.trash == len(simulator.trashed()), applied
        with timed("restore") as watch:
            pipeline.restore_run(watch.call, "direct", pipeline.RestoreRequest(applied.run_id))
        assert not simulator.trashed()
        peers(photos, url, key)
        print(f"peak memory of the whole process, simulator included: {_peak_megabytes():.0f} MB")


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
