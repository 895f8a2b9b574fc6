"""Leaving the stream while the server drips: after an error of the reader's caller, and after Ctrl-C."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import SecretStr

from server.stream import SyncStream
from tests.cli.program import heed_interrupts
from tests.server.test_stream_rules import upsert

ROOT = Path(__file__).resolve().parents[2]
WITHIN = 60.0  # seconds, on a machine however busy; the server drips for three minutes

CERTIFICATE = """
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1
 -keyout {key} -out {certificate}
"""

READ = """
import sys
from pydantic import SecretStr
from server.stream import SyncStream
with SyncStream(sys.argv[1], SecretStr("token"), block_bytes=1) as stream:
    for batch in stream.stream(["AssetsV2"]):
        print("a batch", flush=True)
"""


@contextmanager
def dripping(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that sends two events, and then a space now and then: the third line never ends."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/jsonlines+json")
            self.end_headers()
            until = time.monotonic() + 180
            try:
                self.wfile.write(upsert(1, "AssetV2") + b"\n" + upsert(2, "AssetV2") + b"\n")
                while not over.wait(0.1) and time.monotonic() < until:
                    self.wfile.write(b" ")
            except OSError:
                pass

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http{'' if tls is None else 's'}://127.0.0.1:{http.server_address[1]}"
        finally:
            over.set()
            http.shutdown()
            thread.join()


def left(url: str, verify: ssl.SSLContext | bool = True) -> float:
    """Seconds from an error of the caller's until the stream is left."""
    begun = time.monotonic()
    with (
        pytest.raises(ZeroDivisionError),
        SyncStream(url, SecretStr("token"), block_bytes=1, verify=verify) as stream,
    ):
        for _ in stream.stream(["AssetsV2"]):
            begun = time.monotonic()
            raise ZeroDivisionError
    return time.monotonic() - begun


def test_an_error_of_the_caller_ends_a_stream_that_drips_at_once() -> None:
    with dripping() as url:
        assert left(url) < WITHIN


def test_an_error_of_the_caller_ends_an_encrypted_stream_that_drips_at_once(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = CERTIFICATE.format(key=key, certificate=certificate).split()
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate, key)
    with dripping(theirs) as url:
        assert left(url, ssl.create_default_context(cafile=str(certificate))) < WITHIN


def test_ctrl_c_ends_a_stream_that_drips_at_once() -> None:
    with dripping() as url:
        child = subprocess.Popen(
            [sys.executable, "-c", READ, url], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=heed_interrupts,  # noqa: PLW1509  (it takes no lock)
        )  # fmt: skip
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "a batch\n"
            begun = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=90)
            assert time.monotonic() - begun < WITHIN
            assert said.rstrip().endswith("KeyboardInterrupt")
        finally:
            child.kill()
            child.communicate()
