"""Invariant 13: only the configured server is contacted, and the key is nowhere but where credentials live.

Proven at the socket: every Python process that a whole run starts, Prefect's own server among them, reports what it
resolves, connects to, sends to and listens on. A control process shows that the report would see a stranger.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stage import ROOT
from tests.world import small_world

# Each process appends to a file of its own; the hook is set before anything else is imported.
WITNESS = """
import json, os, sys

_folder = os.environ.get("SOCKET_WITNESS")

def _seen(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"):
        words = [event, arguments[1]]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        words = [event, list(arguments[:2])]
    else:
        return
    with open(f"{_folder}/{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps(words, default=repr) + "\\n")

if _folder:
    sys.addaudithook(_seen)
    with open(f"{_folder}/{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps(["started", sys.argv]) + "\\n")
"""


def witnessed(folder: Path) -> list[list[Any]]:
    """What every process did, in no order between them."""
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def host_and_port(words: list[Any]) -> tuple[str, int | None] | None:
    """Whom an event is about; None for a socket that stays on this computer by its kind."""
    _, address = words
    if not isinstance(address, list):
        return None  # a Unix socket's path
    host = address[0]
    return ("" if host is None else str(host)), int(address[1]) if str(address[1]).isdigit() else None


def is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "")


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    """The folder where processes report, once its environment is set."""
    code, reports = tmp_path / "witness", tmp_path / "reports"
    for folder in (code, reports):
        folder.mkdir()
    (code / "sitecustomize.py").write_text(WITNESS)
    return reports


def environment(witness: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    path = f"{witness.with_name('witness')}{os.pathsep}{ROOT}"
    return {**clean, "PYTHONPATH": path, "SOCKET_WITNESS": str(witness), **more}


def test_the_witness_sees_a_stranger(witness: Path) -> None:
    code = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.1', 9)); s.close()"
    subprocess.run([sys.executable, "-c", code], env=environment(witness), check=False, capture_output=True)
    assert ["socket.connect", ["192.0.2.1", 9]] in witnessed(witness)
    assert not is_here("192.0.2.1")


@pytest.mark.parametrize("way", ["direct", "prefect"])
def test_invariant_13_only_the_server_is_contacted_and_the_key_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, witness: Path, way: str
) -> None:
    root = tmp_path / "world"
    root.mkdir()
    with small_world(root, monkeypatch) as world:
        clock_file = root / "clock"
        clock_file.write_text(world.now.isoformat())
        world.simulator.clock = lambda: type(world.now).fromisoformat(clock_file.read_text())
        world.all_backed_up("IMG_{}.JPG", 6)
        world.live_photo("IMG_90")
        (key,) = world.simulator.keys
        done = subprocess.run(
            [sys.executable, "-m", "tests.flows.story", way, str(world.folder), str(clock_file)],
            env=environment(witness, PREFECT_HOME=str(root / "prefect")),
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        port = int(world.url.rsplit(":", 1)[1])
    events = witnessed(witness)
    processes = [words[1] for words in events if words[0] == "started"]
    assert len(processes) >= (1 if way == "direct" else 2), processes
    addresses = {(words[0], *found) for words in events if words[0] != "started" and (found := host_and_port(words))}
    assert {host for _, host, _ in addresses if not is_here(host)} == set()
    own = {at for event, _, at in addresses if event == "socket.bind"}
    reached = {at for event, _, at in addresses if event == "socket.connect"}
    assert port in reached
    if way == "direct":
        assert reached == {port} and not own
    else:
        assert reached - {port} <= own, (reached, own)
    _nowhere(key, root, done.stdout + done.stderr)


def _nowhere(key: str, root: Path, said: str) -> None:
    """The key is in no file of the state, of Prefect (its database and log among them) or of the work, nor said."""
    assert key not in said
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [str(path) for path in files if key.encode() in path.read_bytes()] == []
