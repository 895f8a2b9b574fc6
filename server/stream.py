"""The change stream of the server and its acknowledgements (spec, Endpoints; Stream handling rules).

What the lines say is in stream_parse.py; what is done with it, and when it may be acknowledged, is the caller's.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from types import TracebackType
from typing import Self

import httpx
from pydantic import SecretStr

from engine.errors import UsageError
from server import errors
from server.http import Transport
from server.stream_errors import (
    MissingScope,
    SessionExpired,
    SessionRequired,
    StreamBroken,
    StreamIncomplete,
    StreamUnavailable,
    SyncError,
    TypeRefused,
)
from server.stream_parse import Batch, Parsed, parse

__all__ = ["MAX_ACKS", "Batch", "SyncStream", "translated"]

STREAM, ACKS = "/api/sync/stream", "/api/sync/ack"
MAX_ACKS = 1000
BLOCK_BYTES = 16 * 2**20
MAX_SECONDS = 30 * 60  # spec, Limits: stream request timeout
MAX_LINE_BYTES = 100 * 2**20
_SEARCH_INSTEAD = "This run lists by search instead."
_SIGN_IN = "Sign in again with `deletion-sync login`."


class SyncStream:
    """A context manager, for one session. Every call raises server.stream_errors.SyncError for what goes wrong.

    The token goes to the server's origin only, never with an API key, and is in no repr, log or error.
    """

    def __init__(
        self,
        base_url: str,
        token: SecretStr,
        *,
        sleep: Callable[[float], None] = time.sleep,
        verify: ssl.SSLContext | bool = True,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
        block_bytes: int = BLOCK_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._block_bytes = block_bytes
        self._max_line_bytes = max_line_bytes
        self._clock = clock
        self._open: httpx.Response | None = None  # the stream's answer while it is read
        self._transport = Transport(
            base_url,
            token,
            kind="bearer",
            sleep=sleep,
            verify=verify,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
        )

    def __repr__(self) -> str:
        return f"SyncStream({self._transport.host})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def acks(self) -> dict[str, str]:
        """The session's cursor: the acknowledged position per entity type."""
        with translated():
            answer = self._transport.read("GET", ACKS)
            found: dict[str, str] = {}
            for item in answer.json_list():
                kind, ack = (item.get("type"), item.get("ack")) if isinstance(item, dict) else (None, None)
                if not isinstance(kind, str) or not isinstance(ack, str):
                    raise errors.AnswerMalformed(f"{answer.what}: the answer lists no acknowledgements.")
                found[kind] = ack
            return found

    def send_acks(self, acks: Iterable[str]) -> None:
        """Advance the cursor, at most 1000 acknowledgements a request. Raises UsageError for none at all."""
        wanted = list(acks)
        if not wanted:
            raise UsageError("There is nothing to acknowledge.")
        with translated():
            for start in range(0, len(wanted), MAX_ACKS):
                self._transport.write("POST", ACKS, {"acks": wanted[start : start + MAX_ACKS]})

    def delete_acks(self) -> None:
        """Forget the cursor: the next stream begins at the start."""
        with translated():
            self._transport.write("DELETE", ACKS, {})

    def stream(self, types: Sequence[str]) -> Generator[Batch]:
        """Batches of the changes since the cursor, until the one that is ``complete`` or a ``reset``.

        Nothing is acknowledged. Memory does not grow with the stream. When something goes wrong, the events before it
        come first, then the SyncError; StreamIncomplete when neither end came. Closing it does not wait for the server.
        """
        # While a caller deals with a full block, the next one is read and parsed; after a lesser one it may be long.
        with ExitStack() as leaving:
            source = leaving.enter_context(closing(self._parsed({"types": list(types)})))
            ahead = ThreadPoolExecutor(1, "deletion-sync-stream")
            leaving.callback(ahead.shutdown, cancel_futures=True)
            leaving.callback(self._hang_up)
            following: Future[tuple[Parsed, bool] | None] | None = None
            while (found := next(source, None) if following is None else following.result()) is not None:
                parsed, full = found
                ended = parsed.error is not None or any(batch.complete or batch.reset for batch in parsed.batches)
                following = ahead.submit(next, source, None) if full and not ended else None
                yield from parsed.batches
                if parsed.error is not None:
                    raise parsed.error
                if ended:
                    return
        raise StreamIncomplete("The change stream ended before it was complete.", _SEARCH_INSTEAD)

    def _parsed(self, body: dict[str, object]) -> Generator[tuple[Parsed, bool]]:
        """Each block parsed, and whether it was a full one."""
        lines = 0
        for block in self._blocks(body):
            parsed = parse(block, lines)
            lines += parsed.lines
            yield parsed, len(block) >= self._block_bytes

    def _blocks(self, body: dict[str, object]) -> Iterator[bytes]:
        with (
            translated(),
            self._transport.stream("POST", STREAM, body=body, accept="application/jsonlines+json") as response,
        ):
            self._open = response
            try:
                chunks = self._in_time(response.iter_bytes())
                yield from blocks(chunks, self._block_bytes, self._max_line_bytes)
            finally:
                self._open = None

    def _hang_up(self) -> None:
        """Wake who reads ahead, or leaving would take as long as the server drips: closing alone wakes nobody."""
        answer = self._open
        if answer is None:
            return
        connection = answer.extensions["network_stream"].get_extra_info("socket")
        if isinstance(connection, socket.socket):
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # the TLS layer's own is not for two threads

    def _in_time(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, for half an hour: a server that drips would pass the read timeout for ever."""
        until = self._clock() + MAX_SECONDS
        for chunk in chunks:
            yield chunk
            if self._clock() > until:
                raise StreamUnavailable(
                    f"The change stream took longer than {MAX_SECONDS // 60} minutes.",
                    f"What came is kept, and the next run goes on from there. {_SEARCH_INSTEAD}",
                )


def blocks(chunks: Iterable[bytes], block_bytes: int, max_line_bytes: int) -> Iterator[bytes]:
    """Complete lines, each with its break, of about ``block_bytes`` at a time; a last line without break gets one.

    Raises StreamBroken for a line over ``max_line_bytes``. When ``chunks`` raises, the complete lines come first.
    """
    ready: list[bytes] = []  # complete lines
    rest: list[bytes] = []  # the beginning of the next one
    held = open_bytes = 0
    try:
        for chunk in chunks:
            first = chunk.find(b"\n")
            if open_bytes + (len(chunk) if first < 0 else first) > max_line_bytes:
                raise StreamBroken(
                    f"A line of the change stream is longer than {max_line_bytes // 2**20} MiB.", _SEARCH_INSTEAD
                )
            if first < 0:
                rest.append(chunk)
                open_bytes += len(chunk)
                continue
            cut = chunk.rfind(b"\n") + 1
            ready += [*rest, chunk[:cut]]
            held += open_bytes + cut
            rest, open_bytes = [chunk[cut:]], len(chunk) - cut
            if held >= block_bytes:
                yield b"".join(ready)
                ready, held = [], 0
    except Exception:
        if ready:
            yield b"".join(ready)
        raise
    if open_bytes:
        ready += [*rest, b"\n"]
    if ready:
        yield b"".join(ready)


@contextmanager
def translated() -> Iterator[None]:
    """What the transport raises, as a SyncError: the one kind after which the caller lists by search."""
    try:
        yield
    except errors.MissingScope as error:
        raise MissingScope(error.scope, error.what, error.status, error.server_message) from None
    except errors.ServerError as error:
        raise _sync_error(error) from None


def _sync_error(error: errors.ServerError) -> SyncError:
    said = error.server_message
    if error.status == 401:
        return SessionExpired("The server does not know the session any more.", _SIGN_IN, 401, said)
    if error.status == 403 and "api key" in said.lower():
        return SessionRequired("The change stream takes a session, not an API key.", _SIGN_IN, 403, said)
    if error.status == 400:
        return TypeRefused(error.what, "Check that the server's version is supported.", 400, said)
    return StreamUnavailable(error.what, error.next_step or _SEARCH_INSTEAD, error.status, said)
