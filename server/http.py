"""The one way to the photo server: address, key, timeouts, retries and redirects.

What is asked of the server, and what its answers say, is in the other modules.
"""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import orjson
from pydantic import SecretStr
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_random

from engine.address import normalise
from engine.errors import UsageError
from server import errors
from server.answers import Answer, malformed, refusal

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_RETRY_AFTER = 60.0
ATTEMPTS = 4  # of a read that the server answers with 429 or 5xx
ATTEMPTS_UNREACHABLE = 3  # of a read without an answer
MAX_REDIRECTS = 3
_IDLE_SECONDS = 4.0  # the server closes idle connections after 5 s
_USER_AGENT = "deletion-sync"
_backoff = wait_exponential(multiplier=0.5, max=8.0) + wait_random(0.0, 0.5)


class Transport:
    """HTTP to one server, with one credential, which goes to that server's origin only.

    ``kind`` is 'x-api-key' for an API key or 'bearer' for a session's access token (spec, Authentication).
    Raises UsageError for an address or a key that can be none.
    """

    def __init__(
        self,
        base_url: str,
        credential: SecretStr,
        *,
        kind: Literal["x-api-key", "bearer"] = "x-api-key",
        sleep: Callable[[float], None] = time.sleep,
        verify: ssl.SSLContext | bool = True,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
    ) -> None:
        self._base = httpx.URL(normalise(base_url))
        self._credential = _checked(credential)
        self._kind = kind
        self._sleep = sleep
        self._read_timeout = read_timeout
        self._timeout = httpx.Timeout(read_timeout, connect=connect_timeout)
        self._client = httpx.Client(
            verify=_trust(verify),
            trust_env=False,
            follow_redirects=False,
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=32, keepalive_expiry=_IDLE_SECONDS),
            headers={"User-Agent": _USER_AGENT},
        )

    def __repr__(self) -> str:
        return f"Transport({self.host})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every pooled connection."""
        self._client.close()

    @property
    def host(self) -> str:
        """Host, with the port where it is not the scheme's own: what errors name."""
        return _host(self._base)

    def pause(self, seconds: float) -> None:
        """Sleep, by the clock that was handed in."""
        self._sleep(seconds)

    def read(self, method: str, path: str, *, body: Any = None, accept: str | None = "application/json") -> Answer:
        """A request that changes nothing: retried after no answer, 429 and 5xx, never after another 4xx.

        ``path`` begins with ``/api``. ``accept`` None sends no Accept header. Raises ServerError.
        """
        retrying = Retrying(
            retry=retry_if_exception(_may_pass), stop=_enough, wait=_pause_for, sleep=self._sleep, reraise=True
        )
        return retrying(self._once, method, path, body, accept, self._timeout, MAX_REDIRECTS)

    def write(self, method: str, path: str, body: Any, *, read_timeout: float | None = None) -> Answer:
        """A request that changes the server: sent once, never again by itself. Raises ServerError."""
        timeout = httpx.Timeout(read_timeout or self._read_timeout, connect=self._timeout.connect)
        return self._once(method, path, body, "application/json", timeout, 0)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        accept: str | None = "application/json",
        timeout: httpx.Timeout | None = None,
        redirects: int = 0,
    ) -> Iterator[httpx.Response]:
        """An open 2xx answer whose body is not read yet; errors while it is read are ServerErrors too."""
        what = f"{method} {path}"
        url = self._base.copy_with(path=self._base.path.rstrip("/") + path)
        for hops_left in range(redirects, -1, -1):
            request = self._request(method, url, body, accept, timeout or self._timeout)
            with self._translated(what):
                response = self._client.send(request, stream=True, auth=self._authorize)
                try:
                    if not response.is_redirect:
                        if not response.is_success:
                            raise refusal(what, response, _whole(what, response, self._read_timeout), self._clean)
                        yield response
                        return
                    url = self._next(what, request, response, hops_left)
                finally:
                    response.close()

    def _once(
        self, method: str, path: str, body: Any, accept: str | None, timeout: httpx.Timeout, redirects: int
    ) -> Answer:
        with self.stream(method, path, body=body, accept=accept, timeout=timeout, redirects=redirects) as response:
            what = f"{method} {path}"
            content = _whole(what, response, timeout.read or self._read_timeout)
            return Answer(what, response.status_code, response.headers, content)

    def _request(
        self, method: str, url: httpx.URL, body: Any, accept: str | None, timeout: httpx.Timeout
    ) -> httpx.Request:
        content = None if body is None else orjson.dumps(body)
        headers = {} if content is None else {"Content-Type": "application/json"}
        request = self._client.build_request(method, url, content=content, headers=headers, timeout=timeout)
        if accept is None:
            del request.headers["Accept"]
        else:
            request.headers["Accept"] = accept
        return request

    def _authorize(self, request: httpx.Request) -> httpx.Request:
        # Here rather than among the client's headers, so that no variable of ours ever holds the key.
        if _origin(request.url) == _origin(self._base):
            if self._kind == "bearer":
                request.headers["Authorization"] = f"Bearer {self._credential.get_secret_value()}"
            else:
                request.headers["x-api-key"] = self._credential.get_secret_value()
        return request

    def _next(self, what: str, request: httpx.Request, response: httpx.Response, hops_left: int) -> httpx.URL:
        """Where a read's redirect leads, if it stays at this origin and keeps the request what it was."""
        try:
            url = request.url.join(response.headers.get("Location", ""))
        except httpx.InvalidURL:
            url = request.url
        keeps_method = request.method == "GET" or response.status_code in (307, 308)
        if hops_left == 0 or not keeps_method or _origin(url) != _origin(self._base):
            raise errors.RedirectRefused(
                f"{what}: {self.host} answered with a redirect to {url.scheme}://{_host(url)}, which was not followed.",
                "If that is the photo server, make it the server address; a login page before the server must let "
                "requests with an API key through.",
                response.status_code,
            )
        return url

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """httpx's errors as ours. ``from None``: the original holds the request, and that holds the key."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise self._no_connection(what, error) from None
        except httpx.TimeoutException:
            raise errors.ServerUnreachable(
                f"{what}: {self.host} did not answer in time.",
                "Check the server and the network, then run again.",
                True,
            ) from None
        except httpx.DecodingError:
            raise malformed(what, "cannot be decompressed") from None
        except httpx.HTTPError as error:
            raise errors.ServerUnreachable(
                f"{what}: the connection to {self.host} broke ({type(error).__name__}).",
                "Check the server and the network, then run again.",
                True,
            ) from None

    def _no_connection(self, what: str, error: BaseException) -> errors.ServerError:
        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return errors.CertificateError(
                    f"{what}: the certificate of {self.host} is not trusted ({cause.verify_message}).",
                    "Renew it, use the name it was made for, or install its authority on this computer.",
                )
        if any(isinstance(cause, ssl.SSLError) for cause in causes):
            return errors.ServerUnreachable(
                f"{what}: {self.host} does not speak TLS there.", "Check http or https, and the port, of the address."
            )
        reason = "took too long to connect" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
        return errors.ServerUnreachable(
            f"{what}: {self.host} {reason}.", "Check the server address, that the server runs, and the network."
        )

    def _clean(self, said: str) -> str:
        """What the server said: one line, short, without control characters and without the key."""
        said = said.replace(self._credential.get_secret_value(), "[key]")
        return " ".join("".join(c if c.isprintable() else " " for c in said).split())[:300]


def _checked(credential: SecretStr) -> SecretStr:
    """The credential without surrounding white space; a header can't hold anything but visible ASCII."""
    value = credential.get_secret_value().strip()
    if not value or any(not "!" <= c <= "~" for c in value):
        raise UsageError(
            "The API key is empty, or has a character that no key has.", "Copy it again from the server, whole."
        )
    return SecretStr(value)


def _trust(verify: ssl.SSLContext | bool) -> ssl.SSLContext | bool:
    return _authorities() if verify is True else verify


@functools.cache
def _authorities() -> ssl.SSLContext:
    """Read once in a process: it takes longer than most requests do."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()  # a home server's own authority is installed on the computer, not in Python
    return context


def _whole(what: str, response: httpx.Response, read_timeout: float) -> bytes:
    """The body, bounded in bytes and in time: the read timeout alone would let a server drip for ever."""
    content = bytearray()
    deadline = time.monotonic() + 5 * read_timeout
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise malformed(what, f"is larger than {MAX_ANSWER_BYTES // 2**20} MiB")
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer dripped")
    return bytes(content)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, errors.ServerUnreachable | errors.ServerFault | errors.RateLimited)


def _enough(state: RetryCallState) -> bool:
    unreachable = isinstance(_error_of(state), errors.ServerUnreachable)
    return state.attempt_number >= (ATTEMPTS_UNREACHABLE if unreachable else ATTEMPTS)


def _pause_for(state: RetryCallState) -> float:
    error = _error_of(state)
    if isinstance(error, errors.RateLimited) and error.retry_after is not None:
        return min(error.retry_after, MAX_RETRY_AFTER)
    return _backoff(state)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(url: httpx.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host if url.port is None else f"{host}:{url.port}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
