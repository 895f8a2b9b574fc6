"""From a raw request to a reply: routing, credentials, permissions, decoding, the request log. No sockets here."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from server.simulator import account, assets, search, sync, tags, uploads
from server.simulator.wire import BODY_LIMIT, MISSING, UNEXPECTED, Call, Endpoint, Refusal, Reply, Request, refused

if TYPE_CHECKING:
    from server.simulator.store import Simulator

JSON_TYPE = "application/json; charset=utf-8"
ID_LETTERS = string.ascii_lowercase + string.digits
WEB_PAGE = b"<!doctype html><html><head><title>Photos</title></head><body>web interface</body></html>\n"
ENDPOINTS: tuple[Endpoint, ...] = (
    *account.ENDPOINTS,
    *search.ENDPOINTS,
    *assets.ENDPOINTS,
    *uploads.ENDPOINTS,
    *tags.ENDPOINTS,
    *sync.ENDPOINTS,
)
# Taggings keep the metadata jobs waiting: only so can a second one overtake the first one's job.
JOB_KEEPERS = {
    ("PUT", "/api/tags"),
    ("POST", "/api/tags"),
    ("PUT", "/api/tags/assets"),
    ("PUT", "/api/tags/{id}/assets"),
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came: header names in lower case, ``body`` undecoded."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


def route(method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
    """The endpoint of a path with its parameters; literal parts go before parameters."""
    parts = path.removesuffix("/").split("/")
    verb = "GET" if method == "HEAD" else method
    best: tuple[Endpoint, dict[str, str]] | None = None
    for endpoint in ENDPOINTS:
        pattern = endpoint.path.split("/")
        if endpoint.method != verb or len(pattern) != len(parts):
            continue
        pairs = list(zip(pattern, parts, strict=True))
        if all(want == have or want.startswith("{") for want, have in pairs):
            ids = {want.strip("{}"): have for want, have in pairs if want.startswith("{")}
            if best is None or len(ids) < len(best[1]):
                best = endpoint, ids
    return best


def respond(sim: Simulator, request: Incoming) -> Reply:
    """The reply with its headers, and the effect on the simulator. Never raises for what a client sends."""
    with sim.lock:
        correlation_id = _correlation_id(sim, request)
        try:
            reply = _respond(sim, request)
        except _Early as early:
            body = refused(early.refusal, modern=sim.modern, correlation_id=None)
            headers = {"x-correlation-id": "undefined"} if sim.modern else {}
            return rendered(Reply(early.refusal.status, body, headers))
        except Refusal as refusal:
            body = refused(refusal, modern=sim.modern, correlation_id=correlation_id)
            reply = Reply(refusal.status, body, refusal.headers)
        if request.path.startswith("/api"):
            name = "x-correlation-id" if sim.modern else "x-immich-cid"
            reply = replace(reply, headers={name: correlation_id, **reply.headers})
        return rendered(reply)


def _respond(sim: Simulator, request: Incoming) -> Reply:
    body = _decoded(request)
    found = route(request.method, request.path)
    if found is None:
        if not request.path.startswith("/api") and request.method in ("GET", "HEAD"):
            page = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
            return Reply(200, headers=page, raw=WEB_PAGE)
        raise Refusal(404, f"Cannot {request.method} {request.path}")
    endpoint, ids = found
    auth = None
    if not endpoint.public:
        auth = account.authenticate(sim, request.headers, request.query)
        if auth is None:
            raise Refusal(401, "Authentication required")
        if endpoint.permission is not None and not auth.may(endpoint.permission):
            raise Refusal(403, f"Missing required permission: {endpoint.permission}")
    if sim.jobs_by_themselves and (endpoint.method, endpoint.path) not in JOB_KEEPERS:
        sim.run_jobs()
    return endpoint.handler(sim, Call(auth, ids, request.query, request.headers, body, request.body))


class _Early(Exception):
    """A refusal of the body parser, which comes before the request has an id."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.refusal = Refusal(status, message)


def _decoded(request: Incoming) -> Any:
    """The JSON body, or MISSING where there is none or it is declared as something else."""
    if not request.body or not request.headers.get("content-type", "").startswith("application/json"):
        return MISSING
    if len(request.body) > BODY_LIMIT:
        raise _Early(500, UNEXPECTED)
    try:
        return orjson.loads(request.body)
    except orjson.JSONDecodeError:
        message = "Expected property name or '}' in JSON at position 1 (line 1 column 2)"
        raise _Early(400, message) from None


def rendered(reply: Reply) -> Reply:
    """The reply with its body as bytes and its content type."""
    if reply.raw is not None or reply.lines is not None:
        return reply
    if reply.body is None:
        return replace(reply, raw=b"")
    return replace(reply, raw=orjson.dumps(reply.body), headers={"content-type": JSON_TYPE, **reply.headers})


def log(sim: Simulator, request: Incoming, status: int | None) -> None:
    """Note a request with the answer that it got. A login's body is left out: it holds a password."""
    found = route(request.method, request.path)
    try:
        body = None if request.path.startswith("/api/auth/") else _decoded(request)
    except _Early:
        body = None
    mutates = found[0].mutates if found else request.method not in ("GET", "HEAD", "OPTIONS")
    with sim.lock:
        who = _name(sim, request)
        sim.requests.append(
            Request(request.method, request.path, status, None if body is MISSING else body, who, mutates)
        )


def _name(sim: Simulator, request: Incoming) -> str | None:
    try:
        auth = account.authenticate(sim, request.headers, request.query)
    except Refusal:
        return None
    if auth is None:
        return None
    return auth.key.name if auth.key is not None else "session"


def _correlation_id(sim: Simulator, request: Incoming) -> str:
    given = request.headers.get("x-correlation-id" if sim.modern else "x-immich-cid")
    return given or "".join(random.choices(ID_LETTERS, k=8))  # noqa: S311 - no secret
