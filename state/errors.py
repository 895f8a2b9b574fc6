"""What can be wrong with what is remembered.

StateError               exit 1
├── StateCorrupt         exit 1   a file of ours does not hold what we wrote; it is never deleted by itself
├── StateTooNew          exit 1   a later version of this program wrote it
├── StateUnreadable      exit 1   it is there and cannot be read now (not the same as: it is absent)
├── StateUnwritable      exit 1   full disk, missing permission; nothing was half-written
└── PartitionMismatch    exit 1   a partition's folder belongs to another server address or account

A file or partition that someone else is using is engine.errors.PartitionBusy (exit 11).
"""

from __future__ import annotations

from engine.errors import DeletionSyncError


class StateError(DeletionSyncError):
    """What is remembered cannot be read or written."""


class StateCorrupt(StateError):
    """A file does not hold what was written to it."""


class StateTooNew(StateError):
    """A later version of this program wrote the file."""


class StateUnreadable(StateError):
    """The file is there, and cannot be read now."""


class StateUnwritable(StateError):
    """The file cannot be written; what was there before stands."""


class PartitionMismatch(StateError):
    """The folder belongs to another server address or account."""
