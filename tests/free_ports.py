"""Ports for programs that are told where to listen, some seconds before they do."""

from __future__ import annotations

import random
import socket

# Below the ports that the system gives to connections (32768 and up on Linux, 49152 on macOS): between the look and
# the listening no connection of another test can come to have it. Above 4200 to 4299, where an `up` looks for its own.
_FIRST, _LAST = 15_000, 30_000
_any = random.SystemRandom()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, any of many thousands: tests that run beside each other find different ones."""
    while True:
        port = _any.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
