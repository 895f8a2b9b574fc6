"""Signing in and out: the session that the change stream needs (spec, Authentication 3). Keeping its token is state's.

No cookie is kept: a login sets one, and the server would heed it before an API key.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

from engine.address import normalise
from server.http import Transport
from server.shapes import UUID
from server.stream import translated
from server.stream_errors import SessionExpired, SignInRefused, StreamUnavailable, SyncError

LOGIN, LOGOUT = "/api/auth/login", "/api/auth/logout"
_MAX_BYTES = 2**20
_CHECK = "Check the server address, that the server runs, and the network."


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in session. The token has no fixed end; unused for 90 days it is removed by the server."""

    token: SecretStr
    user_id: str
    email: str
    name: str


def login(
    base_url: str,
    email: str,
    password: SecretStr,
    *,
    verify: ssl.SSLContext | bool = True,
    connect_timeout: float = 10.0,
    read_timeout: float = 60.0,
) -> Session:
    """A new session. The password is sent once and kept nowhere.

    Raises SignInRefused (wrong e-mail or password), StreamUnavailable (no answer, or not a photo server's), UsageError.
    """
    base = httpx.URL(normalise(base_url))
    status, content = _posted(
        base.copy_with(path=base.path.rstrip("/") + LOGIN),
        orjson.dumps({"email": email, "password": password.get_secret_value()}),
        verify,
        httpx.Timeout(read_timeout, connect=connect_timeout),
    )
    if status in (400, 401, 403):
        raise SignInRefused(
            "The server does not accept this e-mail and password.",
            "Try again. An account that signs in by OAuth alone has no password: incremental sync is not for it.",
            status,
        )
    if status // 100 != 2:
        raise StreamUnavailable(f"POST {LOGIN}: the server answered with status {status}.", _CHECK, status)
    return _session(content, email)


def logout(base_url: str, token: SecretStr, *, verify: ssl.SSLContext | bool = True) -> None:
    """End the session on the server; one that it no longer knows is ended. Raises SyncError."""
    try:
        with Transport(base_url, token, kind="bearer", verify=verify) as transport, translated():
            transport.write("POST", LOGOUT, None)
    except SessionExpired:
        return


def _posted(url: httpx.URL, body: bytes, verify: ssl.SSLContext | bool, timeout: httpx.Timeout) -> tuple[int, bytes]:
    """Status and body. The errors are ours alone: httpx's hold the request, and that holds the password."""
    jar = CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))  # takes no cookie
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "deletion-sync"}
    content = bytearray()
    try:
        with (
            httpx.Client(
                verify=_trusted() if verify is True else verify, trust_env=False, timeout=timeout, cookies=jar
            ) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MAX_BYTES:
                    raise _not_the_server()
    except httpx.HTTPError as error:
        raise StreamUnavailable(f"POST {LOGIN}: no answer from the server ({type(error).__name__}).", _CHECK) from None
    return response.status_code, bytes(content)


def _trusted() -> ssl.SSLContext:
    """The authorities installed on this computer too: a home server's own is among them."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def _session(content: bytes, email: str) -> Session:
    try:
        found: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise _not_the_server() from None
    if not isinstance(found, dict):
        raise _not_the_server()
    token, user_id = found.get("accessToken"), found.get("userId")
    if not isinstance(token, str) or not token or not isinstance(user_id, str) or not UUID.fullmatch(user_id):
        raise _not_the_server()
    said_email, name = found.get("userEmail"), found.get("name")
    return Session(
        SecretStr(token),
        user_id.lower(),
        said_email if isinstance(said_email, str) else email,
        name if isinstance(name, str) else "",
    )


def _not_the_server() -> SyncError:
    return StreamUnavailable(f"POST {LOGIN}: what answered is not the photo server's API.", "Check the server address.")
