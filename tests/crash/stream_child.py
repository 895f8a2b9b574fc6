"""One sync of the server cache per order, each in a fork that kills itself where it is told.

    python -m tests.crash.stream_child URL TOKEN HOME USER

An order is one line on stdin: the step at which to die, or 0. Each batch, of one event each, has three steps: before it
is applied, between commit and acknowledgement, and after the acknowledgement. The answer: how many steps there were.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  imported before the fork, so that each fork need not
from pydantic import SecretStr

from engine.relations import SERVER
from server import stream
from server.stream import SyncStream
from state import server_cache
from state.home import Home
from state.partition import activate
from tasks import server_changes

NOW = datetime.fromisoformat("2026-03-01T12:00:00")


@contextmanager
def dying_at(step: int) -> Iterator[list[str]]:
    """Wrap the two calls whose order matters, so that the process dies before or after one of them."""
    seen: list[str] = []

    def passed(name: str) -> None:
        seen.append(name)
        if len(seen) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    apply, acknowledge, blocks = server_cache.apply, server_changes._acknowledge, stream.blocks

    def applied(*arguments: Any) -> None:
        passed("before the commit")
        apply(*arguments)
        passed("between commit and acknowledgement")

    def acknowledged(to: SyncStream, acks: Mapping[str, str]) -> None:
        acknowledge(to, acks)
        passed("acknowledged")

    def one_line_each(*arguments: Any) -> Iterator[bytes]:
        for block in blocks(*arguments):
            yield from block.splitlines(keepends=True)

    for module, name, wrapped in (
        (server_cache, "apply", applied),
        (stream, "blocks", one_line_each),
        (server_changes, "_acknowledge", acknowledged),
    ):
        setattr(module, name, wrapped)
    yield seen


def run(step: int, arguments: Sequence[str]) -> int:
    url, token, home, user = arguments
    partition = activate(Home(Path(home)), url, user, lambda line: None)
    with (
        dying_at(step) as seen,
        SyncStream(url, SecretStr(token)) as source,
        server_cache.server_cache(partition) as cache,
    ):
        server_changes.sync(source, cache, SERVER.empty_table, ("AssetsV2",), lambda: NOW)
        server_cache.server_rows(cache, Path(home) / "server.parquet")
    return len(seen)


def main() -> None:
    for line in sys.stdin:
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(readable)
            try:
                answer = str(run(int(line), sys.argv[1:]))
            except BaseException as error:
                answer = f"bug: {error!r}"
            os.write(writable, answer.encode())
            os._exit(0)
        os.close(writable)
        with os.fdopen(readable) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        print("killed" if os.WIFSIGNALED(status) else said, flush=True)


if __name__ == "__main__":
    main()
