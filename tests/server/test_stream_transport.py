"""The change stream and sessions over a socket: what is sent, what each refusal becomes, and where no secret goes."""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from engine.errors import UsageError
from server.session import login, logout
from server.shapes import Version
from server.stream import SyncStream
from server.stream_errors import (
    MissingScope,
    SessionExpired,
    SessionRequired,
    SignInRefused,
    StreamBroken,
    StreamIncomplete,
    StreamUnavailable,
    SyncError,
    TypeRefused,
)
from server.stream_types import BY_MAJOR, KNOWN, MINIMUM, VERIFIED, asset_types, unfit, unknown_of_assets
from tests.server.client_support import bare_server, reply
from tests.server.test_stream_rules import COMPLETE, ids, upsert

TOKEN = "the-secret-token-value"
PASSWORD = "the secret password"
JSON = {"Content_Type": "application/json; charset=utf-8"}
LINES = {"Content_Type": "application/jsonlines+json"}


def said(status: int, message: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    return reply(status, orjson.dumps({"message": message}), **JSON)


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None], **options: Any) -> Any:
    with (
        bare_server(answer) as (url, seen),
        SyncStream(url, SecretStr(TOKEN), sleep=lambda seconds: None, **options) as stream,
    ):
        yield stream, seen


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (said(401, "Invalid user token"), SessionExpired, 401),
        (said(403, "Missing required permission: sync.stream"), MissingScope, 403),
        (said(403, "Sync endpoints cannot be used with API keys"), SessionRequired, 403),
        (said(400, ["each value in types must be one of"]), TypeRefused, 400),
        (said(500, "Internal server error"), StreamUnavailable, 500),
        (reply(502, b"<html>", Content_Type="text/html"), StreamUnavailable, 502),
        (reply(200, b"", **LINES), StreamIncomplete, None),
        (reply(200, upsert(1) + b"\n", **LINES), StreamIncomplete, None),
        (reply(302, b"", Location="https://elsewhere.example/"), StreamUnavailable, 302),
        (reply(200, b"not gzip", Content_Encoding="gzip", **LINES), StreamUnavailable, None),
    ],
)
def test_each_refusal_of_the_stream_is_an_error_of_its_own(answer: Any, kind: type[SyncError], status: Any) -> None:
    with served(answer) as (stream, seen):
        with pytest.raises(SyncError) as refused:
            list(stream.stream(["AssetsV1"]))
        assert type(refused.value) is kind and refused.value.status == status
        assert len(seen) == 1, "a refused stream is not asked for again by itself"
        assert TOKEN not in repr(refused.value) + str(refused.value)
        if status == 401:
            assert refused.value.body == "Invalid user token"
        if isinstance(refused.value, MissingScope):
            assert refused.value.scope == "sync.stream" and "sync.stream" in str(refused.value)


def test_lesson_34_the_token_goes_as_bearer_alone_and_no_cookie_comes_back() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = b"[]" if handler.command == "GET" else COMPLETE + b"\n"
        reply(200, body, Set_Cookie="immich_access_token=x; Path=/", **(JSON if body == b"[]" else LINES))(handler)

    with served(answer) as (stream, seen):
        assert stream.acks() == {}
        assert [batch.complete for batch in stream.stream(["AssetsV1"])] == [True]
        assert TOKEN not in repr(stream)
    for headers in seen:
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert "x-api-key" not in headers
        assert headers[":path"].startswith("/api/sync/")


def test_a_compressed_stream_is_asked_for_and_read() -> None:
    body = gzip.compress(b"\n".join([upsert(1), upsert(2), COMPLETE]) + b"\n")
    with served(reply(200, body, Content_Encoding="gzip", **LINES)) as (stream, seen):
        (batch,) = stream.stream(["AssetsV1"])
        assert len(ids(batch)) == 2 and "gzip" in seen[0]["accept-encoding"]


def test_lesson_40_a_stream_that_stops_gives_what_came_and_then_the_error() -> None:
    release = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/jsonlines+json")
        handler.send_header("Content-Length", "999999")
        handler.end_headers()
        handler.wfile.write(upsert(1) + b"\n" + upsert(2)[:50])
        release.wait(60)

    with served(answer, read_timeout=3.0) as (stream, _):
        batches = stream.stream(["AssetsV1"])
        assert len(ids(next(batches))) == 1
        with pytest.raises(StreamUnavailable, match="in time"):
            next(batches)
        release.set()


def test_a_stream_that_drips_for_ever_is_left() -> None:
    ticks = iter(range(0, 10**6, 600))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/jsonlines+json")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"\n" * 100_000)
        except OSError:
            pass

    with (
        served(answer, clock=lambda: float(next(ticks))) as (stream, _),
        pytest.raises(StreamUnavailable, match="30 minutes"),
    ):
        list(stream.stream(["AssetsV1"]))


def test_an_endless_line_is_refused() -> None:
    body = upsert(1) + b"\n" + b'{"type":"' + b"x" * 3_000_000
    with served(reply(200, body, **LINES), max_line_bytes=2**20) as (stream, _):
        batches = stream.stream(["AssetsV1"])
        assert len(ids(next(batches))) == 1
        with pytest.raises(StreamBroken, match="longer than 1 MiB"):
            next(batches)


def test_acks_go_a_thousand_a_request_and_never_none() -> None:

    def answer(handler: BaseHTTPRequestHandler) -> None:
        reply(204)(handler)

    with served(answer) as (stream, seen):
        with pytest.raises(UsageError):
            stream.send_acks([])
        assert seen == []
        stream.send_acks(f"AssetV1|{n}" for n in range(2001))
        assert len(seen) == 3
        stream.delete_acks()
        assert seen[-1][":path"] == "/api/sync/ack" and seen[-1]["content-length"] == "2"


def test_acks_that_are_none_are_not_believed() -> None:
    with served(reply(200, b'[{"type":"AssetV1"}]', **JSON)) as (stream, _), pytest.raises(StreamUnavailable):
        stream.acks()


def test_each_version_is_asked_for_its_own_type_and_none_that_the_table_does_not_have() -> None:
    assert asset_types(Version(2, 7, 5)) == ("AssetsV1",)
    assert asset_types(Version(3, 0, 0)) == asset_types(Version(3, 9, 0)) == ("AssetsV2",)
    for major in range(9):
        assert (unfit(Version(major, 0, 0)) is None) == (major in BY_MAJOR)
    assert MINIMUM[0] == min(BY_MAJOR) and VERIFIED[0] == max(BY_MAJOR)


def test_only_an_unknown_form_of_assets_is_one_to_stop_at() -> None:
    others = ["AssetExifV1", "AssetFaceV2", "AssetHologramV9", "PartnerAssetV2", "UserV1", "assetv9", "XAssetV9"]
    assert unknown_of_assets([*KNOWN, *others]) == []
    assert unknown_of_assets(["AssetV3", *KNOWN, "AssetDeleteV2", "AssetV10"]) == [
        "AssetDeleteV2",
        "AssetV10",
        "AssetV3",
    ]


SIGNED_IN = {
    "accessToken": TOKEN,
    "userId": "DDDDDDDD-0000-4000-8000-000000000000",
    "userEmail": "ann@example.com",
    "name": "Ann",
}


def test_a_login_sends_the_password_once_and_neither_key_nor_cookie(caplog: pytest.LogCaptureFixture) -> None:
    cookie = "immich_access_token=x; Path=/"
    with (
        caplog.at_level(logging.INFO),
        bare_server(reply(201, orjson.dumps(SIGNED_IN), Set_Cookie=cookie, **JSON)) as (
            url,
            seen,
        ),
    ):
        session = login(f"{url}/api", "ann@example.com", SecretStr(PASSWORD))
        logout(url, session.token)
    assert session.user_id == SIGNED_IN["userId"].lower() and session.token.get_secret_value() == TOKEN
    assert TOKEN not in repr(session) and TOKEN not in caplog.text and PASSWORD not in caplog.text
    first, second = seen
    assert first[":path"] == "/api/auth/login" and "authorization" not in first and "x-api-key" not in first
    assert second[":path"] == "/api/auth/logout" and second["authorization"] == f"Bearer {TOKEN}"
    assert "cookie" not in first and "cookie" not in second


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (said(401, f"Incorrect email or password {PASSWORD}"), SignInRefused),
        (said(400, "Validation failed"), SignInRefused),
        (said(500, "x"), StreamUnavailable),
        (reply(200, b"<html>", Content_Type="text/html"), StreamUnavailable),
        (reply(201, b'{"accessToken":"","userId":"x"}', **JSON), StreamUnavailable),
        (reply(201, b"[]", **JSON), StreamUnavailable),
        (reply(302, b"", Location="https://elsewhere.example/"), StreamUnavailable),
        (reply(201, b"x" * (2**20 + 1), **JSON), StreamUnavailable),
    ],
)
def test_a_refused_login_says_why_without_the_password(answer: Any, kind: type[SyncError]) -> None:
    with bare_server(answer) as (url, seen):
        with pytest.raises(SyncError) as refused:
            login(url, "ann@example.com", SecretStr(PASSWORD))
        assert type(refused.value) is kind and len(seen) == 1
        assert PASSWORD not in repr(refused.value) + str(refused.value)
        assert refused.value.__cause__ is None


def test_a_server_that_is_not_there_is_said_without_the_password() -> None:
    with bare_server(reply(200)) as (url, _):
        pass
    with pytest.raises(StreamUnavailable) as refused:
        login(url, "ann@example.com", SecretStr(PASSWORD), connect_timeout=1.0)
    assert PASSWORD not in repr(refused.value)
    with pytest.raises(StreamUnavailable):
        logout(url, SecretStr(TOKEN))
