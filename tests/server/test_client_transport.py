"""Retries, time-outs, redirects, and every error class of server.errors, over real sockets."""

from __future__ import annotations

import pickle
import socket
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from pydantic import SecretStr

from engine.errors import UsageError
from server import errors
from server.client import PhotoServer
from server.http import ATTEMPTS, ATTEMPTS_UNREACHABLE, MAX_RETRY_AFTER
from server.simulator import Simulator, serving
from tests.server.client_support import BOTH, bare_server, reply, world

KEY = "a-key-that-must-not-show"


def client(url: str, waits: list[float] | None = None, timeout: float = 60.0) -> PhotoServer:
    sleep = (lambda s: None) if waits is None else waits.append
    return PhotoServer(url, SecretStr(KEY), sleep=sleep, read_timeout=timeout, connect_timeout=timeout)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens; it is held, so that no other process comes to listen on it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@BOTH
def test_a_read_outlives_a_server_that_fails_a_few_times(version: str) -> None:
    with world(version) as w:
        w.sim.faults.add("GET", "/api/server/version", status=503, times=ATTEMPTS - 1)
        assert str(w.server.version()) == version
        assert len(w.waits) == ATTEMPTS - 1
        assert w.waits == sorted(w.waits), "the waits grow"


def test_a_read_gives_up_after_its_attempts() -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/version", status=500, body={"message": "boom"}, times=None)
        with pytest.raises(errors.ServerFault) as caught:
            w.server.version()
        assert (caught.value.status, caught.value.server_message) == (500, "boom")
        assert len(w.requests("GET", "/api/server/version")) == ATTEMPTS


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
def test_lesson_42_a_4xx_is_never_asked_again(status: int) -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/version", status=status, body={"message": "no"}, times=None)
        with pytest.raises(errors.ServerError):
            w.server.version()
        assert len(w.requests("GET", "/api/server/version")) == 1
        assert w.waits == []


@pytest.mark.parametrize(("header", "waited"), [("7", 7.0), ("86400", MAX_RETRY_AFTER)])
def test_429_waits_as_long_as_the_server_says_up_to_a_limit(header: str, waited: float) -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/version", status=429, headers={"Retry-After": header})
        w.server.version()
        assert w.waits == [waited]


def test_429_for_ever_is_rate_limited() -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/version", status=429, headers={"Retry-After": "3"}, times=None)
        with pytest.raises(errors.RateLimited) as caught:
            w.server.version()
        assert caught.value.retry_after == 3.0


def test_a_cut_connection_is_tried_again_for_a_read() -> None:
    with world() as w:
        w.server.version()
        w.sim.faults.add("GET", "/api/server/version", drop_connection=True)
        w.server.version()
        assert len(w.waits) == 1


def test_a_write_is_sent_once_whatever_happens() -> None:
    for fault in ({"status": 503}, {"drop_connection": True}, {"status": 429}):
        with world() as w:
            w.sim.faults.add("PUT", "/api/tags", times=None, **fault)
            with pytest.raises(errors.ServerError):
                w.server.upsert_tag("tool/v1/run/x")
            assert len(w.requests("PUT", "/api/tags")) == 1
            assert w.waits == []


def test_lesson_40_a_server_that_is_not_there_is_told_soon(closed_port: int) -> None:
    waits: list[float] = []
    with (
        client(f"http://127.0.0.1:{closed_port}", waits) as server,
        pytest.raises(errors.ServerUnreachable) as caught,
    ):
        server.version()
    assert not caught.value.maybe_done
    assert len(waits) == ATTEMPTS_UNREACHABLE - 1
    assert sum(waits) < 5


def test_an_unknown_name_is_unreachable() -> None:
    with client("http://photos.invalid") as server, pytest.raises(errors.ServerUnreachable, match=r"photos\.invalid"):
        server.version()


def test_a_server_that_hangs_is_a_time_out() -> None:
    with world(timeout=0.2) as w:
        w.sim.faults.add("GET", "/api/server/version", delay=30.0, times=None)
        with pytest.raises(errors.ServerUnreachable, match="did not answer in time") as caught:
            w.server.version()
        assert caught.value.maybe_done


def test_an_answer_that_drips_does_not_hold_the_client_for_ever() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            handler.close_connection = True

    with (
        bare_server(drip) as (url, _),
        client(url, timeout=0.05) as server,
        pytest.raises((errors.ServerUnreachable, errors.AnswerMalformed)),
    ):
        server.version()


def test_an_untrusted_certificate_is_named_and_the_key_is_not_sent() -> None:
    sim = Simulator()
    with (
        serving(sim, tls=True) as url,
        client(url) as server,
        pytest.raises(errors.CertificateError, match="not trusted"),
    ):
        server.version()
    assert not sim.requests


def test_https_to_a_server_that_speaks_http_says_so() -> None:
    with (
        serving(Simulator()) as url,
        client(url.replace("http:", "https:")) as server,
        pytest.raises(errors.ServerUnreachable, match="TLS"),
    ):
        server.version()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed_and_the_key_stays(status: int) -> None:
    with bare_server(reply(200, b"{}")) as (elsewhere, seen):
        moved = reply(status, Location=f"{elsewhere}/login?token=secret-in-query")
        with bare_server(moved) as (url, _), client(url) as server, pytest.raises(errors.RedirectRefused) as caught:
            server.version()
        assert seen == []
    assert elsewhere.removeprefix("http://") in str(caught.value)
    assert "secret-in-query" not in str(caught.value)
    assert "/login" not in str(caught.value)


def test_a_redirect_to_another_scheme_is_not_followed() -> None:
    with bare_server(reply(301, Location="https://127.0.0.1/api/server/version")) as (url, seen), client(url) as server:
        with pytest.raises(errors.RedirectRefused):
            server.version()
        assert len(seen) == 1


def test_a_read_follows_a_redirect_within_the_server_but_not_in_circles() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.endswith("/there"):
            reply(200, b'{"major":3,"minor":1,"patch":0}', Content_Type="application/json")(handler)
        else:
            reply(307, Location="/api/there")(handler)

    with bare_server(answer) as (url, seen), client(url) as server:
        assert server.version().major == 3
        assert [s["x-api-key"] for s in seen] == [KEY, KEY]
    with bare_server(reply(307, Location="/again")) as (url, seen), client(url) as server:
        with pytest.raises(errors.RedirectRefused):
            server.version()
        assert len(seen) < 10


def test_a_write_is_never_redirected() -> None:
    with bare_server(reply(307, Location="/elsewhere")) as (url, seen), client(url) as server:
        with pytest.raises(errors.RedirectRefused):
            server.upsert_tag("x")
        assert len(seen) == 1


@pytest.mark.parametrize("status", [200, 401, 403, 404])
def test_a_web_page_is_not_a_photo_server(status: int) -> None:
    page = reply(status, b"<html>Sign in</html>", Content_Type="text/html")
    with bare_server(page) as (url, _), client(url) as server, pytest.raises(errors.NotAPhotoServer):
        server.version()


def test_a_proxys_page_for_a_dead_server_is_a_fault_of_the_server() -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/version", html=True, times=None)
        with pytest.raises(errors.ServerFault):
            w.server.version()


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"major":"3","minor":1,"patch":0}', b'{"major":true}'])
def test_an_answer_that_lacks_what_it_must_have_is_malformed(content: bytes) -> None:
    answer = reply(200, content, Content_Type="application/json")
    with bare_server(answer) as (url, _), client(url) as server, pytest.raises(errors.AnswerMalformed):
        server.version()


@BOTH
def test_a_wrong_key_is_refused(version: str) -> None:
    simulated = serving(Simulator(version=version))
    with simulated as url, client(url) as server, pytest.raises(errors.KeyRefused) as caught:
        server.key_scopes()
    assert caught.value.status == 401
    assert caught.value.correlation_id


@BOTH
def test_lesson_41_a_missing_scope_is_named_under_403(version: str) -> None:
    with world(version, {"asset.read"}) as w, pytest.raises(errors.MissingScope) as caught:
        w.server.list_tags()
    assert caught.value.scope == "tag.read"
    assert "Add the permission tag.read to the API key" in str(caught.value)


def test_lesson_41_a_missing_scope_is_named_under_401_too() -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/tags", status=401, body={"message": "Missing required permission: tag.read"})
        with pytest.raises(errors.MissingScope) as caught:
            w.server.list_tags()
    assert caught.value.scope == "tag.read"
    with world() as w:
        w.sim.faults.add("GET", "/api/tags", status=401, body={"message": "Elevated permission is required"})
        with pytest.raises(errors.NoAccess):
            w.server.list_tags()


def test_messages_of_both_versions_are_quoted() -> None:
    old = {"message": ["size must not be greater than 1000", "page must be a number"], "correlationId": "abc"}
    new = {"message": "Validation failed", "errors": [{"path": ["size"], "message": "Too big"}]}
    for body, said in ((old, "size must not be greater than 1000; page"), (new, "Validation failed; size: Too big")):
        with world() as w:
            w.sim.faults.add("GET", "/api/server/version", status=400, body=body)
            with pytest.raises(errors.BadRequest) as caught:
                w.server.version()
        assert caught.value.server_message.startswith(said)


def test_the_key_is_in_no_text_that_an_error_or_object_shows(closed_port: int) -> None:
    echo = reply(400, f'{{"message":"bad key {KEY} \\u001b[31m\\nhere"}}'.encode(), Content_Type="application/json")
    shown: list[str] = []
    with bare_server(echo) as (url, _), client(url) as server:
        shown += [repr(server), str(server), repr(vars(server)), repr(vars(server._transport))]
        with pytest.raises(errors.BadRequest) as caught:
            server.version()
        assert caught.value.server_message == "bad key [key] [31m here"
        shown += [str(caught.value), repr(caught.value), repr(caught.value.args)]
        shown += traceback.format_exception(caught.value)
    for url in (f"http://127.0.0.1:{closed_port}", "https://photos.invalid"):
        with client(url) as server, pytest.raises(errors.ServerUnreachable) as gone:
            server.version()
        shown += [repr(gone.value), *traceback.format_exception(gone.value)]
    assert not any(KEY in text for text in shown)


@pytest.mark.parametrize("key", ["", "  ", "ab\ncd", "schlüssel-geheim", "ab cd"])
def test_a_key_that_can_be_none_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        PhotoServer("http://127.0.0.1:1", SecretStr(key))
    assert not key.strip() or key not in str(caught.value)


def test_every_error_survives_pickling() -> None:
    made = [
        errors.ServerError("what", "next", 400, "said", "id"),
        errors.ServerUnreachable("what", "next", True),
        errors.MissingScope("tag.read", "what", 403, "said", "id"),
        errors.RateLimited("what", "next", 3.0, "said", "id"),
        errors.NotFound("what", "next", 400, "said", "id"),
    ]
    for error in made:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_only_the_configured_server_is_contacted_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with bare_server(reply(200, b"{}")) as (proxy, seen), world() as w:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        with PhotoServer(w.url, SecretStr(w.key)) as server:
            server.version()
        assert seen == []


@BOTH
def test_lesson_32_ping_sends_no_accept_header_and_addresses_may_end_in_api(version: str) -> None:
    pong = reply(200, b'{"res":"pong"}', Content_Type="text/html")
    with bare_server(pong) as (url, seen), client(url) as server:
        server.ping()
        assert "accept" not in seen[0]
    with world(version) as w:
        for address in (w.url, f"{w.url}/", f"{w.url}/api", f"{w.url}/api/"):
            with PhotoServer(address, SecretStr(w.key)) as server:
                server.ping()
                assert str(server.version()) == version


def test_lesson_32_ping_finds_the_older_path() -> None:
    def old(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/photos/api/server-info/ping":
            reply(200, b'{"res":"pong"}', Content_Type="text/html")(handler)
        else:
            reply(404, b'{"message":"Cannot GET"}', Content_Type="application/json")(handler)

    with bare_server(old) as (url, _), client(f"{url}/photos/api/") as server:
        server.ping()
    with bare_server(reply(200, b"<html>")) as (url, _), client(url) as server, pytest.raises(errors.NotAPhotoServer):
        server.ping()
