"""`localhost` is led to the one origin of the UI, whatever is in the path that a link elsewhere can hold."""

from __future__ import annotations

import asyncio

import pytest

from deployments.guard import Message, Receive, Scope, Send, guarded

PORT = 4200


async def _unreached(_: Scope, __: Receive, ___: Send) -> None:
    raise AssertionError("a page of the alias is led away, not served")


async def _nothing() -> Message:
    return {"type": "http.request", "body": b""}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/%0d%0aSet-Cookie:%20a=b", "/\r\nSet-Cookie: a=b"),
        (b"/runs/%E2%82%AC", "/runs/€"),
        (b"/runs%3Fb%23c", "/runs?b#c"),
    ],
)
def test_a_path_is_led_on_as_it_was_asked_for_and_becomes_no_header(raw: bytes, path: str) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost:4200"), (b"accept", b"text/html")]
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": raw, "query_string": b"", "headers": headers
    }  # fmt: skip

    async def ask() -> None:
        await guarded(_unreached, PORT, lambda _: True)(scope, _nothing, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 307
    assert dict(sent[0]["headers"])[b"location"] == b"http://127.0.0.1:4200" + raw
