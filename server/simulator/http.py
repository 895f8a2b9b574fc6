"""The simulator on a socket: Starlette on uvicorn in a thread, faults, compression, and TLS.

What a request means is in dispatch; this module only carries it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from server.simulator.dispatch import Incoming, log, rendered, respond
from server.simulator.faults import PROXY_PAGE, Fault
from server.simulator.spoiling import AS_IT_IS, End, sent
from server.simulator.wire import Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
COMPRESSED_FROM = 1024  # bytes
START_SECONDS = 30.0
TURNS_TO_CLOSE = 10  # of the event loop, in which aborted connections close their sockets


@dataclass(slots=True)
class _Site:
    """What the application needs beside the simulator: the server whose connections it may cut, and the end."""

    sim: Simulator
    server: uvicorn.Server | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def _application(site: _Site) -> Starlette:
    async def answer(request: HttpRequest) -> Response:
        return await _answer(site, request)

    return Starlette(routes=[Route("/{path:path}", answer, methods=METHODS)])


async def _answer(site: _Site, request: HttpRequest) -> Response:
    sim = site.sim
    incoming = Incoming(
        method=request.method,
        path=request.url.path,
        query=dict(request.query_params),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.body(),
    )
    with sim.lock:
        fault = sim.faults.take(incoming.method, incoming.path)
    if fault is None:
        reply = respond(sim, incoming)
    else:
        spoiled = fault.replaces_answer and fault.before_effect
        if not fault.before_effect:
            reply = respond(sim, incoming)
        if fault.delay is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(site.ending.wait(), fault.delay)
                return Response()  # the server stops: the request that hung never takes effect
        if fault.before_effect and not spoiled:
            reply = respond(sim, incoming)
        if fault.drop_connection:
            log(sim, incoming, None)
            _cut(site, request)
            return Response()
        if fault.replaces_answer:
            reply = _faulty(fault)
    log(sim, incoming, reply.status)
    if reply.lines is not None:
        return _streamed(site, request, incoming, reply)
    return _response(sim, incoming, reply)


def _faulty(fault: Fault) -> Reply:
    if fault.html:
        headers = {"content-type": "text/html; charset=utf-8", **fault.headers}
        return Reply(fault.status or 502, headers=headers, raw=PROXY_PAGE.encode())
    status = fault.status or 500
    if isinstance(fault.body, str):
        return Reply(
            status, headers={"content-type": "text/plain; charset=utf-8", **fault.headers}, raw=fault.body.encode()
        )
    return rendered(Reply(status, fault.body, fault.headers))


def _connection(site: _Site, request: HttpRequest) -> Any:
    """uvicorn's side of the request's connection, or None when the client is gone."""
    peer = request.client
    for connection in list(site.server.server_state.connections) if site.server else []:
        held: Any = connection
        if peer is not None and held.client == (peer.host, peer.port):
            return held
    return None


def _cut(site: _Site, request: HttpRequest) -> None:
    """Close the request's connection at once, without an answer or in the middle of one."""
    held = _connection(site, request)
    if held is not None:
        held.transport.abort()
        held.cycle.disconnected = True


def _streamed(site: _Site, request: HttpRequest, incoming: Incoming, reply: Reply) -> Response:
    """The answer of the change stream, spoiled where a test asked for it."""
    with site.sim.lock:
        fault = site.sim.faults.take_stream()
    gzipped = fault.gzip or "gzip" in incoming.headers.get("accept-encoding", "")
    headers = dict(reply.headers) | ({"content-encoding": "gzip", "vary": "Accept-Encoding"} if gzipped else {})
    assert reply.lines is not None
    pieces = sent(reply.lines, fault, gzipped=gzipped, hangs=reply.hangs)

    async def body() -> AsyncIterator[bytes]:
        held = _connection(site, request)
        if held is not None and fault is not AS_IT_IS:
            held.transport.set_write_buffer_limits(0)
        for piece in pieces:
            if piece is End.HANG:
                await site.ending.wait()
                _cut(site, request)
            elif piece is End.CUT:
                if held is not None and held.flow.write_paused:
                    await held.flow.drain()  # or the abort would take back what was just sent
                _cut(site, request)
            else:
                yield piece
            if fault.pause:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(site.ending.wait(), fault.pause)

    response = StreamingResponse(body(), reply.status, headers)
    response.headers["date"] = format_datetime(site.sim.now(), usegmt=True)
    return response


def _response(sim: Simulator, incoming: Incoming, reply: Reply) -> Response:
    content = reply.raw or b""
    headers = dict(reply.headers)
    if len(content) >= COMPRESSED_FROM and "gzip" in incoming.headers.get("accept-encoding", ""):
        kind = headers.get("content-type", "")
        if kind.startswith(("application/json", "text/")):
            content = gzip.compress(content, compresslevel=1)
            headers |= {"content-encoding": "gzip", "vary": "Accept-Encoding"}
    response = Response(content, reply.status, headers)
    response.headers["date"] = format_datetime(sim.now(), usegmt=True)
    for cookie in reply.cookies:
        response.headers.append("set-cookie", cookie)
    return response


@contextlib.contextmanager
def serving(sim: Simulator, *, port: int = 0, tls: bool = False) -> Iterator[str]:
    """Serve the simulator on 127.0.0.1 from a thread; yields the base URL, without /api and without a slash.

    ``port`` 0 takes a free one. With ``tls`` the certificate is self-signed and made for this call, so that a client
    that checks certificates must refuse it. Every connection is closed at the end, waiting requests included.
    """
    with contextlib.ExitStack() as cleanup:
        settings: dict[str, Any] = {}
        if tls:
            folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
            _write_certificate(folder / "cert.pem", folder / "key.pem")
            settings = {"ssl_certfile": folder / "cert.pem", "ssl_keyfile": folder / "key.pem"}
        listener = cleanup.enter_context(_listener(port))
        site = _Site(sim)
        site.server = uvicorn.Server(
            uvicorn.Config(
                _application(site),
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                date_header=False,
                server_header=False,
                **settings,
            )
        )
        started = threading.Event()
        loop = asyncio.new_event_loop()
        cleanup.callback(loop.close)
        thread = threading.Thread(target=loop.run_until_complete, args=(_run(site, listener, started),), daemon=True)
        thread.start()
        cleanup.callback(thread.join)
        cleanup.callback(loop.call_soon_threadsafe, site.ending.set)
        if not started.wait(START_SECONDS):
            raise RuntimeError("the simulator did not start")
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"


def _listener(port: int) -> socket.socket:
    """A listening socket. Its protocol is named, or asyncio would leave Nagle's delay of 40 ms per answer on."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


async def _run(site: _Site, listener: socket.socket, started: threading.Event) -> None:
    """uvicorn without its ticking loop and its unhurried shutdown: tests start and stop many servers."""
    server = site.server
    assert server is not None
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    started.set()
    await site.ending.wait()
    for one in server.servers:
        one.close()
    for connection in list(server.server_state.connections):
        held: Any = connection
        held.transport.abort()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(TURNS_TO_CLOSE):
        await asyncio.sleep(0)


def _write_certificate(certificate_path: Path, key_path: Path) -> None:
    """A self-signed certificate for 127.0.0.1, valid for a day."""
    import ipaddress
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "photo server simulator")])
    now = datetime.now(UTC)  # the real time: certificates are checked against it, not against the simulator's clock
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
