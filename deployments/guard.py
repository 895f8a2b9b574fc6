"""What stands before Prefect's server: who may ask it (nobody but its own pages and programs of this computer), and
what its pages may load (nothing from elsewhere).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from deployments.peer import Peer
from deployments.place import HOST

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_CLOSE_POLICY = 1008


def policy(port: int) -> str:
    """The Content-Security-Policy of every answer. The UI styles itself inline and talks to its server by WebSocket."""
    return "; ".join(
        [
            "default-src 'self'",
            "script-src 'self' 'unsafe-eval'",  # the graph of a run is drawn by a library that compiles its own code
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            f"connect-src 'self' ws://{HOST}:{port}",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def guarded(app: App, port: int, admitted: Callable[[Peer | None], bool]) -> App:
    """The app, closed to foreign pages: a foreign Host (DNS rebinding), a foreign Origin, a cross-site request.

    ``admitted`` tells whether a client's program may ask at all (deployments.peer). ``localhost`` is led to 127.0.0.1,
    the one origin that the UI and its API share.
    """
    own, alias = f"{HOST}:{port}", f"localhost:{port}"
    origins = frozenset({f"http://{own}", f"http://{alias}"})
    added = [
        (b"content-security-policy", policy(port).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    names = frozenset(name for name, _ in added)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
                message["headers"] = [*kept, *added]
            await send(message)

        headers = {bytes(name).lower(): bytes(value).decode("latin-1") for name, value in scope["headers"]}
        refusal = _refusal(scope, headers, own, alias, origins)
        if not admitted(scope.get("client")):
            refusal = "This server answers to the user who started it."
        if refusal is not None:
            await _refused(scope, sending, refusal)
        elif headers[b"host"] == alias and _is_page(scope, headers):
            query = scope["query_string"].decode("latin-1")
            path = scope["raw_path"].decode("latin-1")  # as it was asked for: decoded it could hold a line break
            target = f"http://{own}{path}{'?' if query else ''}{query}"
            await _answered(sending, 307, "", [(b"location", target.encode("latin-1", "ignore"))])
        else:
            # A WebSocket that is open when the server stops is cancelled. That is no error.
            with contextlib.suppress(*([asyncio.CancelledError] if scope["type"] == "websocket" else [])):
                await app(scope, receive, sending)

    return guard


def _refusal(scope: Scope, headers: dict[bytes, str], own: str, alias: str, origins: frozenset[str]) -> str | None:
    """Why the request is refused, or None."""
    if headers.get(b"host") not in (own, alias):
        return f"This server answers to http://{own} only."
    if headers.get(b"origin", f"http://{own}") not in origins:
        return "Requests of other sites' pages are refused."
    inside = scope["type"] == "websocket" or scope["method"] not in _READING or scope["path"].startswith("/api")
    if inside and headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
        return "Requests of other sites' pages are refused."
    return None


def _is_page(scope: Scope, headers: dict[bytes, str]) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get(b"accept", "")


async def _refused(scope: Scope, send: Send, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _CLOSE_POLICY, "reason": why})
    else:
        await _answered(send, 403, why, [])


async def _answered(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = text.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
