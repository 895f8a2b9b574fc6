"""What the client's tests share: a simulated server with one user, a client of it, and a bare recording server."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from server.client import NORMAL_SCOPES, PhotoServer
from server.simulator import Simulator, serving
from server.simulator.wire import Request

GONE = "Not found or no asset.delete access"
BOTH = pytest.mark.parametrize("version", ["2.7.5", "3.1.0"])
TAKEN = datetime(2025, 6, 1, 12, 30, 15, tzinfo=UTC)


def checksum(text: str) -> str:
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


@dataclass
class World:
    """A simulator on a socket, its one user, the waits that the client asked for, and the client."""

    sim: Simulator
    url: str
    user: str
    key: str
    server: PhotoServer
    waits: list[float] = field(default_factory=list)

    def add(self, name: str, count: int = 1, **kw: object) -> list[str]:
        rows = [
            {"checksum": checksum(f"{name}{n}"), "file_name": f"{name}{n}.jpg", "captured_at": TAKEN} | kw
            for n in range(count)
        ]
        return self.sim.add_assets(self.user, rows)

    def requests(self, method: str, prefix: str) -> list[Request]:
        return [r for r in self.sim.requests if r.method == method and r.path.startswith(prefix)]


@contextmanager
def world(
    version: str = "3.1.0",
    scopes: frozenset[str] | set[str] = frozenset({"all"}),
    *,
    timeout: float = 60.0,
    size: int = 1000,
) -> Iterator[World]:
    sim = Simulator(version=version)
    user = sim.add_user("Ann", "ann@example.com")
    key = sim.add_key(user, scopes)
    waits: list[float] = []
    with (
        serving(sim) as url,
        PhotoServer(url, SecretStr(key), page_size=size, sleep=waits.append, read_timeout=timeout) as server,
    ):
        yield World(sim, url, user, key, server, waits)


NORMAL = frozenset(NORMAL_SCOPES)


@contextmanager
def bare_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers everything by ``answer``; yields its address and the headers of each request."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_all(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()} | {":path": self.path})
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        do_GET = do_POST = do_PUT = do_DELETE = handle_all

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}", seen
        finally:
            http.shutdown()
            thread.join()


def reply(status: int, content: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer
