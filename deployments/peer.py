"""Which user of this computer is at the other end of a loopback connection (Linux tells; elsewhere nobody knows).

A browser keeps foreign pages away by itself; a program of another user sends what it likes.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.errors import UsageError

USERS = "DELETION_SYNC_UI_USERS"  # user ids that may use the UI beside our own, apart by spaces

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"  # of a connection whose owner is gone the system shows user 0

Peer = tuple[str, int]


def owner(client: Peer, server: Peer) -> int | None:
    """The user id of the process that holds the client's end, or None where the system does not tell of it."""
    ends = _end(client), _end(server)
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _ESTABLISHED and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                return int(fields[7])
    return None


def admission(server: Peer, environ: Mapping[str, str]) -> Callable[[Peer | None], bool]:
    """Whether a client may ask: ours, root's, or one of ``USERS``. Where the system tells nothing, everyone's."""
    if not _TABLES[0].exists():
        return lambda _: True
    users = {0, os.getuid(), *(int(user) for user in environ.get(USERS, "").split())}

    def admitted(client: Peer | None) -> bool:
        return client is not None and owner((client[0], client[1]), server) in users

    return admitted


def user_id(name: str) -> int:
    """The id of a user by name or number. Raises UsageError."""
    import pwd

    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError(f"There is no user {name!r} on this computer.", "Give a user name, or its number.") from None


def _end(peer: Peer) -> str:
    """An address as the system's tables end with: the IPv4 address in host byte order, and the port."""
    packed = socket.inet_aton(peer[0])
    return f"{int.from_bytes(packed, sys.byteorder):08X}:{peer[1]:04X}"
