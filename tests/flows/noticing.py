"""What the tests of notices share: a service that takes apprise's JSON, and a desktop that keeps notes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SECRET = "t0ken-that-nobody-may-see"


@dataclass
class Service:
    """``status`` is what it answers; ``taken`` what it took; ``headers`` are of every request; ``asked`` the paths."""

    port: int = 0
    status: int = 200
    location: str = ""
    taken: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"json://user:{SECRET}@127.0.0.1:{self.port}/{SECRET}?cto=60&rto=60"  # else 4 s

    @property
    def titles(self) -> list[str]:
        return [one["title"] for one in self.taken]


@contextmanager
def service() -> Iterator[Service]:
    """A service on loopback."""
    here = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            here.asked.append(self.path)
            here.headers.append(str(self.headers))
            if here.status == 200:
                here.taken.append(json.loads(body))
            self.send_response(here.status)
            if here.location:
                self.send_header("Location", here.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Desktop:
    """``folder`` holds what each call was given, one line an argument."""

    folder: Path

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call; the last one is what it saw of our secrets."""
        return [path.read_text().splitlines() for path in sorted(self.folder.glob("call-*"), key=_number)]


def _number(path: Path) -> int:
    return int(path.name.removeprefix("call-"))


def desktop(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "notify-send", code: int = 0) -> Desktop:
    """A program of that name on PATH that writes down its arguments and what it sees of our secrets."""
    here = Desktop(folder / "desktop")
    programs = folder / "programs"
    for path in (here.folder, programs):
        path.mkdir()
    program = programs / name
    program.write_text(
        f'#!/bin/sh\nn=$(ls "{here.folder}" | wc -l)\n'
        f'for a in "$@" "secrets=$SERVER_API_KEY$NOTIFY_URLS"; do echo "$a"; done > "{here.folder}/call-$n"\n'
        f"exit {code}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.setenv("DISPLAY", ":0")
    return here


def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No channel but those that a test adds."""
    for name in ("NOTIFY_URLS", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
