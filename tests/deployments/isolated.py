"""`python -m tests.deployments.isolated FOLDER`, in a network namespace of its own: an `up` with a full run, where
everything that would leave this computer goes to an interface that only counts. Prints what it counted as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
import sys
from pathlib import Path

from tests.deployments.show import scene

STRANGER = "198.51.100.53"  # reserved for documentation


def _network() -> None:
    """Loopback, and a way out that leads to another interface here: what is asked for is sent, and arrives nowhere."""
    for words in ("link set lo up", "link add out type veth peer name away"):
        subprocess.run(["ip", *words.split()], check=True)
    for name in ("out", "away"):
        quiet = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if quiet.exists():  # else the system itself announces the interface
            quiet.write_text("1")
        subprocess.run(["ip", "link", "set", name, "arp", "off", "up"], check=True)
    for words in ("addr add 192.0.2.1/24 dev out", "route add default dev out"):
        subprocess.run(["ip", *words.split()], check=True)


def _resolver(folder: Path) -> None:
    """Names are asked for out there, not at a resolver of this computer."""
    own = folder / "resolv.conf"
    own.write_text(f"nameserver {STRANGER}\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", own, "/etc/resolv.conf"], check=True)


def _left() -> int:
    """How many packets would have left."""
    found = json.loads(
        subprocess.run(["ip", "-s", "-j", "link", "show", "out"], capture_output=True, check=True).stdout
    )
    return int(found[0]["stats64"]["tx"]["packets"])


def main(folder: Path) -> None:
    _network()
    _resolver(folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), scene(folder / "scene") as found:
        state = found.run["state"]["message"]
    left = _left()
    with contextlib.suppress(OSError):
        socket.getaddrinfo("stranger.example", 80)
    named = _left()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"x", (STRANGER, 9))
    print(json.dumps({"state": state, "left": left, "after_a_name": named, "after_a_packet": _left()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
