"""`python -m server.simulator`: a simulated server in the foreground, with a user and assets, to try the client."""

from __future__ import annotations

import argparse
import sys
import threading
from datetime import timedelta

from server.simulator import Simulator, serving, sha1_checksum

SAMPLE_ASSETS = 20
EMAIL = "sample@example.com"
PASSWORD = "sample"  # noqa: S105 - of a simulated user


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m server.simulator", description="A simulated photo server.")
    parser.add_argument("--version", default="3.1.0", help="the server version to imitate: 2.7.5 or 3.1.0")
    parser.add_argument("--port", type=int, default=2283, help="the port on 127.0.0.1; 0 takes a free one")
    chosen = parser.parse_args()
    sim = Simulator(chosen.version)
    user_id = sim.add_user("Sample", EMAIL, PASSWORD)
    for number in range(SAMPLE_ASSETS):
        content = f"sample photo {number}".encode()
        sim.add_asset(
            user_id,
            checksum=sha1_checksum(content),
            file_name=f"IMG_{number:04}.jpg",
            captured_at=sim.now() - timedelta(days=number),
            content=content,
        )
    key = sim.add_key(user_id, ["all"])
    with serving(sim, port=chosen.port) as base_url:
        lines = (
            f"SERVER_URL={base_url}",
            f"SERVER_API_KEY={key}",
            f"# sign in as {EMAIL} with the password {PASSWORD}",
        )
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


if __name__ == "__main__":
    main()
