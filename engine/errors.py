"""Every error that a user can meet, rooted here. A traceback reaches a user only for a bug.

DeletionSyncError            exit 1   failed
├── UsageError               exit 2   the request itself is wrong
│   └── SettingsError        exit 2   a setting is out of its range or malformed
├── RailTripped              exit 3   a safety rail aborted the run; nothing was deleted
├── ConfirmationNeeded       exit 4   a first dry run or a confirmation is missing
├── PartlyDone               exit 5   some of it was done; the journal says which
├── PartitionBusy            exit 11  another run holds the partition
├── state.errors.StateError          what is remembered cannot be read or written
├── server.errors.ServerError        the server could not be reached or refused
└── library.errors.LibraryError      a local library could not be read
"""

from __future__ import annotations

from typing import ClassVar


class DeletionSyncError(Exception):
    """What happened, to which thing, and what to do next.

    ``what`` is one sentence; ``next_step`` is one instruction. Neither ever holds a secret.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(what, next_step)
        self.what = what
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.what} {self.next_step}".strip()


class UsageError(DeletionSyncError):
    """The request is wrong: a bad pattern, an id that is no UUID, an unknown run."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is malformed or out of its range; the message names the range."""


class RailTripped(DeletionSyncError):
    """A safety rail aborted the run. ``rail`` is its name in docs/rules.md."""

    exit_code = 3

    def __init__(self, rail: str, what: str, next_step: str = "") -> None:
        super().__init__(what, next_step)
        self.args = (rail, what, next_step)
        self.rail = rail


class ConfirmationNeeded(DeletionSyncError):
    """A first dry run, or a person's confirmation, is needed before anything is trashed."""

    exit_code = 4


class PartlyDone(DeletionSyncError):
    """Some of the work was done. The journal says what was and what was not."""

    exit_code = 5


class PartitionBusy(DeletionSyncError):
    """Another run holds the partition's lock."""

    exit_code = 11
