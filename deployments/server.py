"""`python -m deployments.server`: Prefect's own server and UI on loopback, behind our guard. `up` starts it."""

from __future__ import annotations

import os
import socket
import sys

from deployments import lifeline
from deployments.place import HOST, LISTENER, READY

_GRACE_SECONDS = 1


def main() -> None:
    """Serve until SIGTERM, on the socket that `up` holds; deployments.place has the settings."""
    os.umask(0o077)
    listener = socket.socket(fileno=int(os.environ.pop(LISTENER)))
    listener.set_inheritable(False)
    lifeline.follow(os.environ)

    import uvicorn
    from prefect.server.api import collections
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    from deployments.guard import guarded
    from deployments.peer import admission

    # What the UI shows of Prefect's integrations comes from the copy that Prefect brings along, not from its site.
    collections.KNOWN_VIEWS.update(dict.fromkeys(collections.KNOWN_VIEWS, ""))
    port = get_current_settings().server.api.port

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            sys.stdout.write(f"{READY}\n")
            sys.stdout.flush()

    config = uvicorn.Config(
        guarded(create_app(final=True), port, admission((HOST, port), os.environ)),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client is who it is, not who it says
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    Server(config).run([listener])


if __name__ == "__main__":
    main()
