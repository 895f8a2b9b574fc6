"""What can go wrong between this computer and the photo server.

ServerError               exit 1   carries status, server_message and correlation_id
├── ServerUnreachable              no answer: DNS, refused, cut, timeout; ``maybe_done``: a write may have run
├── CertificateError               the server's certificate is not trusted
├── NotAPhotoServer                something else answered: a web page, a proxy, a login portal
├── RedirectRefused                the answer sends us elsewhere; the key does not go there
├── KeyRefused                     401: the key is unknown, revoked or empty
├── MissingScope                   the key lacks a permission; ``scope`` is its name
├── NoAccess                       403 (or 401) for another reason
├── BadRequest                     any other 4xx
│   └── NotFound                   unknown, foreign, locked or purged id
├── RateLimited                    429; ``retry_after`` in seconds where the server said it
├── ServerFault                    5xx
├── AnswerMalformed                an answer lacks what it must have
└── IncompleteListing              a listing broke off; nothing may be concluded from what it did not show

The request's key is in none of them: the transport removes it from what the server said.
"""

from __future__ import annotations

from engine.errors import DeletionSyncError


class ServerError(DeletionSyncError):
    """The server could not be reached, or refused. ``status`` is None when there was no answer."""

    def __init__(
        self,
        what: str,
        next_step: str = "",
        status: int | None = None,
        server_message: str = "",
        correlation_id: str = "",
    ) -> None:
        super().__init__(what, next_step)
        self.args = (what, next_step, status, server_message, correlation_id)
        self.status = status
        self.server_message = server_message
        self.correlation_id = correlation_id

    def __str__(self) -> str:
        said = f' The server said: "{self.server_message}".' if self.server_message else ""
        reference = f" (correlation id {self.correlation_id})" if self.correlation_id else ""
        return f"{self.what}{said}{reference} {self.next_step}".strip()


class ServerUnreachable(ServerError):
    """There was no answer. ``maybe_done``: the request may have reached the server, so a write may have happened."""

    def __init__(self, what: str, next_step: str = "", maybe_done: bool = False) -> None:
        super().__init__(what, next_step)
        self.args = (what, next_step, maybe_done)
        self.maybe_done = maybe_done


class CertificateError(ServerError):
    """The server's certificate is expired, for another name, or signed by nobody this computer trusts."""


class NotAPhotoServer(ServerError):
    """The answer is not one that the photo server gives: a web page, or no JSON where JSON belongs."""


class RedirectRefused(ServerError):
    """The answer is a redirect that is not followed. The message names the host without path or query."""


class KeyRefused(ServerError):
    """The server does not know the API key."""


class MissingScope(ServerError):
    """The API key lacks the permission ``scope``."""

    def __init__(
        self, scope: str, what: str, status: int | None = None, server_message: str = "", correlation_id: str = ""
    ) -> None:
        super().__init__(
            what,
            f"Add the permission {scope} to the API key on the server's account page.",
            status,
            server_message,
            correlation_id,
        )
        self.args = (scope, what, status, server_message, correlation_id)
        self.scope = scope


class NoAccess(ServerError):
    """The server refuses, and not for a permission that a key could be given."""


class BadRequest(ServerError):
    """The server does not accept the request as it is. Sending it again would not help."""


class NotFound(BadRequest):
    """The server has no such thing, or the key may not see it (the server does not tell them apart)."""


class RateLimited(ServerError):
    """Too many requests. ``retry_after`` is in seconds, None where the server gave none."""

    def __init__(
        self,
        what: str,
        next_step: str = "",
        retry_after: float | None = None,
        server_message: str = "",
        correlation_id: str = "",
    ) -> None:
        super().__init__(what, next_step, 429, server_message, correlation_id)
        self.args = (what, next_step, retry_after, server_message, correlation_id)
        self.retry_after = retry_after


class ServerFault(ServerError):
    """The server failed (5xx), or the proxy before it could not reach it."""


class AnswerMalformed(ServerError):
    """An answer lacks what it must have, so nothing in it is used."""


class IncompleteListing(ServerError):
    """A listing broke off before its last page."""
