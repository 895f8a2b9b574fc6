"""`python -m deployments.worker`: sets the server up, then works the pool until SIGTERM. `up` starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from deployments import accounts, lifeline
from deployments.place import ACCOUNTS, POOL, READY, WORKER, check_modules
from engine.errors import DeletionSyncError

_LOOK_SECONDS = 0.3


def main() -> None:
    """Work until SIGTERM. The server may still be starting."""
    os.umask(0o077)
    lifeline.follow(os.environ)
    check_modules()
    from deployments.setup import set_up

    _load()
    _await_server()
    try:
        set_up(accounts.load(Path(os.environ[ACCOUNTS])), Path.cwd(), _say)
    except DeletionSyncError as error:
        _say(str(error))
        sys.exit(1)
    asyncio.run(_work())


def _load() -> None:
    """Import what takes seconds while the server starts."""
    for name in ("prefect.cli.deploy", "prefect.workers.process", "flows.reconcile", "flows.apply", "flows.restore"):
        import_module(name)


def _await_server() -> None:
    import httpx
    from prefect.settings import get_current_settings

    address = f"{get_current_settings().api.url}/health"
    while True:
        try:
            if httpx.get(address, timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(_LOOK_SECONDS)


async def _work() -> None:
    from prefect.workers.process import ProcessWorker

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    worker = ProcessWorker(name=WORKER, work_pool_name=POOL, create_pool_if_not_found=False)
    try:
        await worker.start(printer=lambda _: _say(READY))
    except asyncio.CancelledError:
        _say("The worker stopped.")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
