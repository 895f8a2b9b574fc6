"""One real Prefect server for the tests of this folder: a process of its own on loopback, with a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.free_ports import free_port


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a running server."""
    from flows.privacy import ALWAYS, UNLESS_SET

    home: Path = tmp_path_factory.mktemp("prefect")
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        **ALWAYS, **UNLESS_SET, "PREFECT_HOME": str(home),
    }  # fmt: skip
    listen = ["--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    command = [sys.executable, "-m", "prefect", "server", "start", *listen]
    log = (home / "server.log").open("wb")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home, start_new_session=True)
    url = f"http://127.0.0.1:{port}/api"
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            assert process.poll() is None, (home / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the Prefect server did not start within 120 s"
            time.sleep(0.3)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=10, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
