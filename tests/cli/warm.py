"""The program with its imports behind it: each command line runs in a fork, a process of its own that begins at `main`.

    python -m tests.cli.warm SOCKET

One order comes over the socket (a file descriptor) at a time: a JSON line {"arguments", "environment", "directory"},
and with it the descriptors of the standard streams. The exit code goes back, as a line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback

import duckdb  # noqa: F401  imported before the fork, so that each fork need not
import httpx  # noqa: F401
import pyarrow.parquet  # noqa: F401
import rich.table  # noqa: F401
from pydantic import SecretStr

from cli import commands, plans  # noqa: F401
from cli.main import main
from flows import direct, pipeline, ways  # noqa: F401
from server.client import PhotoServer


def command(order: bytes, streams: list[int]) -> int:
    """Become the program; returns its exit code."""
    asked = json.loads(order)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["deletion-sync", *asked["arguments"]]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve(orders: socket.socket) -> None:
    """Fork a process per order, one after the other, until the other side is closed."""
    while True:
        order, streams, _, _ = socket.recv_fds(orders, 1 << 20, 3)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            code = command(order, streams)
            sys.stdout.flush()
            os._exit(code)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        orders.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    PhotoServer("http://localhost", SecretStr("none")).close()  # it reads the certificate authorities, and asks nothing
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as other_side:
        serve(other_side)
