"""The port of the UI: the one that was asked for, else 4200, else the next free one. It is held from then on.

Whoever else listened there, even for a moment while the server is started again, would be taken for the server, and the
worker runs what the server says.
"""

from __future__ import annotations

import socket

from deployments.place import HOST
from engine.errors import UsageError

USUAL = 4200
_MORE = 99
_BACKLOG = 1024  # who asks while the server starts waits in line


def listening(wanted: int | None) -> socket.socket:
    """A socket that listens on a port that was free, for the server to take its connections from.

    Raises UsageError where the port that was asked for is taken, or none is free.
    """
    if wanted is not None:
        found = _listening(wanted)
        if found is None:
            raise UsageError(f"Port {wanted} is taken.", "Give another one with --port, or none for a free one.")
        return found
    for port in range(USUAL, USUAL + _MORE + 1):
        found = _listening(port)
        if found is not None:
            return found
    raise UsageError(f"The ports {USUAL} to {USUAL + _MORE} are all taken.", "Give another one with --port.")


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    found = _listening(port)
    if found is None:
        return False
    found.close()
    return True


def _listening(port: int) -> socket.socket | None:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen(_BACKLOG)
    except OSError:
        found.close()
        return None
    return found
