"""What can be wrong with a local library.

LibraryError              exit 1
├── LibraryUnavailable    exit 3   the root is missing, not the folder it was, or cannot be read whole
├── LibraryRefused        exit 2   it cannot be registered: no folder, or the same or nested root as another library
└── ChecksumsFileError    exit 2   a line of a checksums file is no base64 SHA-1; the message has its number
"""

from __future__ import annotations

from engine.errors import DeletionSyncError


class LibraryError(DeletionSyncError):
    """A local library could not be read."""


class LibraryUnavailable(LibraryError):
    """The library cannot be read whole, so nothing may be concluded from what it does not show."""

    exit_code = 3


class LibraryRefused(LibraryError):
    """The library cannot be registered or opened as it was asked for; nothing was recorded."""

    exit_code = 2


class ChecksumsFileError(LibraryError):
    """A checksums file holds something that is no base64 SHA-1, or cannot be read."""

    exit_code = 2
