"""Where a command works: the home folder, the credentials and the partition that they lead to.

With the identity cached this imports neither the server's client nor a database.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import note

if TYPE_CHECKING:
    from state.credentials import Credentials
    from state.home import Home
    from state.partition import Partition


@dataclass(frozen=True, slots=True)
class Place:
    """The credentials' notes were shown already. The key in them never leaves this process but to the server."""

    home: Home
    partition: Partition
    credentials: Credentials


def credentials_here() -> tuple[Home, Credentials]:
    """The home folder, and SERVER_URL and SERVER_API_KEY of the environment or of .env (spec, Command-line tool).

    Raises UsageError, StateError.
    """
    from state.credentials import load_credentials
    from state.home import Home

    credentials = load_credentials(os.environ, Path.cwd())
    for line in credentials.notes:
        note(line)
    return Home.locate(os.environ), credentials


def here() -> Place:
    """The place of the credentials (spec, item 9). The server is asked once whose key it is, then never again.

    Raises UsageError, StateError, ServerError.
    """
    from state import identity
    from state.partition import activate

    home, credentials = credentials_here()
    known = identity.cached(home, credentials)
    if known is None:
        from tasks.opening import learn_identity

        known = learn_identity(home, credentials)
    log = logging.getLogger("deletion_sync").warning
    partition = activate(home, credentials.server_url, known.user_id, log, email=known.email)
    return Place(home, partition, credentials)
