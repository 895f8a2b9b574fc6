"""What Prefect is told of an error: its name. Its text may hold a folder, a file or an address, and stays with us.

Prefect writes an error's text into the run's state, its logs and its events, all of them in its database.
"""

from __future__ import annotations

from engine.errors import DeletionSyncError, RailTripped


class Withheld(Exception):
    """Stands for ``error`` wherever Prefect sees it; whoever called the flow or the step gets ``error`` itself."""

    def __init__(self, error: DeletionSyncError) -> None:
        super().__init__(name_of(error))
        self.error = error

    def __reduce__(self) -> tuple[type[Exception], tuple[str]]:
        """What Prefect may write to its own storage has the name alone."""
        return Exception, (str(self),)


def name_of(error: DeletionSyncError) -> str:
    """`KeyRefused`, or `rail: threshold`."""
    return f"rail: {error.rail}" if isinstance(error, RailTripped) else type(error).__name__
