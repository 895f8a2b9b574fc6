"""Requests and replies between the HTTP layer and the endpoints, and the two versions' error envelopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from server.simulator.model import Auth

if TYPE_CHECKING:
    from server.simulator.store import Simulator

BODY_LIMIT = 10 * 1024 * 1024  # bytes of a JSON body; one more is answered with 500
UNEXPECTED = "Internal server error"  # the message of a failure that the server did not foresee
MISSING: Any = object()  # a JSON body or field that was not sent, as opposed to null


class Refusal(Exception):
    """An error answer. ``errors`` are 3.x's validation details; ``message`` is a list for 2.x's."""

    def __init__(
        self,
        status: int,
        message: str | list[str],
        errors: list[dict[str, Any]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, authenticated: ``ids`` are the path's parameters, ``body`` the decoded JSON or MISSING."""

    auth: Auth | None
    ids: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    raw: bytes

    @property
    def who(self) -> Auth:
        if self.auth is None:
            raise Refusal(401, "Authentication required")
        return self.auth


@dataclass(frozen=True, slots=True)
class Reply:
    """``body`` is rendered as JSON unless ``raw`` holds the bytes; a None body is empty.

    With ``lines`` the answer is streamed: blocks of whole lines, made while they are sent. ``hangs``: after the last
    one nothing more comes, not even the end.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cookies: tuple[str, ...] = ()
    lines: Iterator[bytes] | None = None
    hangs: bool = False


Handler = Callable[["Simulator", Call], Reply]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` may have {parameters}. ``public`` needs no key; ``mutates``: may change what a user keeps here."""

    method: str
    path: str
    handler: Handler
    permission: str | None = None
    public: bool = False
    mutates: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the request log. ``status`` None: the connection was cut; ``key`` is the key's name, or 'session'."""

    method: str
    path: str
    status: int | None
    json: Any
    key: str | None
    mutates: bool


def refused(refusal: Refusal, *, modern: bool, correlation_id: str | None) -> dict[str, Any]:
    """The error body of either version. A refusal from before the request got its id has none (2.x)."""
    body: dict[str, Any] = {"message": refusal.message}
    if modern:
        if refusal.errors is not None:
            body["errors"] = refusal.errors
        return body
    if refusal.message != UNEXPECTED:
        body["error"] = HTTPStatus(refusal.status).phrase
    body["statusCode"] = refusal.status
    if correlation_id is not None:
        body["correlationId"] = correlation_id
    return body
