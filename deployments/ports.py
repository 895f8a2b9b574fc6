"""Which port the UI gets: the one that was asked for, else 4200, else the next free one."""

from __future__ import annotations

import socket

from deployments.place import HOST
from engine.errors import UsageError

USUAL = 4200
_MORE = 99


def chosen(wanted: int | None) -> int:
    """A free port. Raises UsageError where the one that was asked for is taken, or none is free."""
    if wanted is not None:
        if not is_free(wanted):
            raise UsageError(f"Port {wanted} is taken.", "Give another one with --port, or none for a free one.")
        return wanted
    for port in range(USUAL, USUAL + _MORE + 1):
        if is_free(port):
            return port
    raise UsageError(f"The ports {USUAL} to {USUAL + _MORE} are all taken.", "Give another one with --port.")


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
