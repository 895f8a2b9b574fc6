"""Who asks: the user who started `up`, root, and whom `--allow-user` names. Nobody else's program of this computer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deployments.peer import USERS, Peer, admission, owner, user_id
from engine.errors import UsageError

NOBODY = 65534
CONNECT = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
family = socket.AF_INET6 if sys.argv[3] == "6" else socket.AF_INET
end = socket.socket(family)
end.connect(("::ffff:127.0.0.1" if sys.argv[3] == "6" else "127.0.0.1", int(sys.argv[1])))
print("there", flush=True)
if sys.stdin.readline() == "end\\n":
    end.close()
    print("gone", flush=True)
sys.stdin.readline()
"""

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system does not tell whose a connection is")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as somebody else")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@contextmanager
def asked_by(listener: socket.socket, user: int, family: str = "4") -> Iterator[tuple[Peer, subprocess.Popen[str]]]:
    """A program of that user is connected: its address, and the program."""
    port = listener.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", CONNECT, str(port), str(user), family],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        timer = threading.Timer(90, program.kill)
        timer.start()
        try:
            end, address = listener.accept()
            with end:
                assert program.stdout is not None and program.stdout.readline() == "there\n"
                yield (str(address[0]), int(address[1])), program
        finally:
            timer.cancel()
            program.kill()


@linux
def test_our_own_program_is_let_in(listener: socket.socket) -> None:
    with asked_by(listener, os.getuid()) as (client, _):
        assert owner(client, listener.getsockname()) == os.getuid()
        assert admission(listener.getsockname(), {})(client)


@linux
@as_root
@pytest.mark.parametrize("family", ["4", "6"])
def test_another_user_s_program_is_not_unless_it_is_named(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    server = listener.getsockname()
    with asked_by(listener, NOBODY, family) as (client, _):
        assert owner(client, server) == NOBODY
        assert not admission(server, {})(client)
        assert admission(server, {USERS: f"1 {NOBODY}"})(client)
    assert not admission(server, {})(None)


@linux
@as_root
def test_a_connection_whose_program_let_go_of_it_is_nobody_s_and_not_root_s(listener: socket.socket) -> None:
    with asked_by(listener, NOBODY) as (client, program):
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write("end\n")
        program.stdin.flush()
        assert program.stdout.readline() == "gone\n"
        assert not admission(listener.getsockname(), {})(client)


def test_users_are_named_by_name_or_number() -> None:
    assert (user_id("root"), user_id("1000")) == (0, 1000)
    with pytest.raises(UsageError, match="no user"):
        user_id("nobody of this name")
