"""What can go wrong with a session and its change stream. Whatever it is, the caller lists by search instead.

SyncError                exit 1   carries the status (None: no answer) and what the server said
├── SessionExpired                401: the session was revoked or has expired; sign in again
├── SessionRequired               403: the server takes no API key here, only a session
├── MissingScope                  403: a permission is missing; ``scope`` is its name
├── TypeRefused                   400: the server does not know what was asked of it
├── StreamUnavailable             no answer, a timeout, 5xx, or something else answered
├── StreamBroken                  a line that is no JSON, or too long
├── StreamDataError               an event's data is not what its type says
├── StreamUnknown                 it shows assets in a form that is not known here
├── StreamIncomplete              the stream ended without SyncCompleteV1
├── StreamForeign                 the stream shows another account's assets
├── StreamDrifted                 what it told is not what the server counts
├── ResetAgain                    the server asked for a second reset in one run
└── SignInRefused                 the e-mail or the password is wrong

Neither the token nor a password is in any of them.
"""

from __future__ import annotations

from engine.errors import DeletionSyncError


class SyncError(DeletionSyncError):
    """The change stream cannot be used now. ``body`` is what the server said: one line, short, without secrets."""

    def __init__(self, what: str, next_step: str = "", status: int | None = None, body: str = "") -> None:
        super().__init__(what, next_step)
        self.args = (what, next_step, status, body)
        self.status = status
        self.body = body

    def __str__(self) -> str:
        said = f' The server said: "{self.body}".' if self.body else ""
        return f"{self.what}{said} {self.next_step}".strip()


class SessionExpired(SyncError):
    """The server does not know the session any more: forget the token, and sign in again (lesson 35)."""


class SessionRequired(SyncError):
    """The server rejects API keys here (spec, Authentication 3)."""


class MissingScope(SyncError):
    """The permission ``scope`` is missing (spec, Errors)."""

    def __init__(self, scope: str, what: str, status: int | None = None, body: str = "") -> None:
        super().__init__(what, f"Give the key or session the permission {scope}.", status, body)
        self.args = (scope, what, status, body)
        self.scope = scope


class TypeRefused(SyncError):
    """The server refuses the request as it is: a type or an acknowledgement that it does not know."""


class StreamUnavailable(SyncError):
    """The server gave no answer, failed, stopped in the middle, or something else answered."""


class StreamBroken(SyncError):
    """A line of the stream is no JSON, or is longer than any line can be."""


class StreamDataError(SyncError):
    """An event's data does not match its type (spec, Stream handling rules 5)."""


class StreamUnknown(SyncError):
    """The stream tells of assets under a type that is not known here, so what it says of them would be missed."""


class StreamIncomplete(SyncError):
    """The stream ended without SyncCompleteV1, so it was cut short (lesson 44)."""


class StreamForeign(SyncError):
    """The session belongs to another account than the state."""


class StreamDrifted(SyncError):
    """Even from the start, the stream does not tell of as many assets as the server counts."""


class ResetAgain(SyncError):
    """A second SyncResetV1 in one run: following it could go on for ever."""


class SignInRefused(SyncError):
    """The server does not accept the e-mail and password."""
