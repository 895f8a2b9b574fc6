"""The change stream into the server cache, against DuckDB's own read_json of the same bytes into a table.

python -m bench.stream [--events 1000000]

Prints the ratio of elapsed and of processor time, over a socket and from the file (there one step after the other), the
memory above the interpreter's, and the time of a stream with nothing new: from the request to the snapshot that the
candidates are computed from. The server is a process of its own that serves a file.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
from pydantic import SecretStr

from engine.relations import SERVER
from server.stream import BLOCK_BYTES, MAX_LINE_BYTES, SyncStream, blocks
from server.stream_parse import parse
from state.home import Home
from state.partition import activate
from state.server_cache import apply, server_cache, server_rows
from tasks.server_changes import sync

USER = "d542518a-e5dc-4a64-8279-df89e072fb7d"
COMPLETE = b'{"type":"SyncCompleteV1","data":{},"ack":"SyncCompleteV1|01a1fb7e-ee7a-7e25-b384-24ae5b288698"}\n'

LINES = """
COPY (
    SELECT 'AssetV2' AS type, {{
            'id': format('{{:08x}}-0000-4000-8000-{{:012x}}', n, hash(n) % 281474976710656), 'ownerId': '{user}',
            'originalFileName': format('IMG_{{:08d}}.JPG', n), 'fileCreatedAt': '2025-01-10T10:00:00.000Z',
            'fileModifiedAt': '2025-03-04T05:06:07.000Z', 'createdAt': '2026-01-10T10:00:00.000Z',
            'localDateTime': '2025-01-10T10:00:00.000Z', 'type': 'IMAGE', 'deletedAt': NULL, 'isFavorite': false,
            'visibility': 'timeline', 'duration': NULL, 'livePhotoVideoId': NULL, 'stackId': NULL, 'libraryId': NULL,
            'width': 4032, 'height': 3024, 'isEdited': false,
            'checksum': replace(base64(from_hex(sha1(n::VARCHAR)))::VARCHAR, '/', '+'),
            'thumbhash': 'pMQFDYKzv1eJd4fPJVWGZbOJL5v4' }} AS data,
        format('AssetV2|{{:08x}}-0000-7000-8000-000000000000', n) AS ack
    FROM range({count}) t(n)
) TO '{path}' (FORMAT json)
"""


def _serve(path: Path, told: Connection) -> None:
    """Serve the file as the stream of a session without acknowledgements; with them, a stream with nothing new."""
    acks: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            listed = ",".join(f'{{"type":"{kind}","ack":"{ack}"}}' for kind, ack in acks.items())
            self.answer(200, f"[{listed}]".encode())

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            acks.clear()
            self.answer(204, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/ack"):
                for ack in body.decode().split('"')[3::2]:
                    acks[ack.partition("|")[0]] = ack
                self.answer(204, b"")
                return
            if acks:
                self.answer(200, COMPLETE)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size + len(COMPLETE)))
            self.end_headers()
            with path.open("rb") as file:
                while chunk := file.read(1 << 18):
                    self.wfile.write(chunk)
            self.wfile.write(COMPLETE)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        told.send(http.server_address[1])
        http.serve_forever()


@contextmanager
def _served(path: Path) -> Iterator[str]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(path, theirs), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def _peer(path: Path, told: Connection) -> None:
    cpu, begun = time.process_time(), time.perf_counter()
    with duckdb.connect(str(path.with_name("peer.duckdb"))) as con:
        con.execute(f"CREATE TABLE events AS FROM read_json('{path}', format = 'newline_delimited')")
    told.send((time.perf_counter() - begun, time.process_time() - cpu))


def _peer_seconds(path: Path) -> tuple[float, float]:
    """Elapsed and processor seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    peer = context.Process(target=_peer, args=(path, theirs))
    peer.start()
    elapsed, cpu = ours.recv()
    peer.join()
    return float(elapsed), float(cpu)


def _from_file(path: Path, home: Path) -> tuple[float, float]:
    """Elapsed and processor seconds of the same bytes without a server."""
    cpu, begun = time.process_time(), time.perf_counter()
    partition = activate(Home(home), "https://photos.example", USER, lambda line: None)
    with path.open("rb") as file, server_cache(partition) as cache:
        chunks = itertools.chain(iter(lambda: file.read(1 << 16), b""), [COMPLETE])
        for block in blocks(chunks, BLOCK_BYTES, MAX_LINE_BYTES):
            for batch in parse(block).batches:
                apply(cache, batch, _now())
    return time.perf_counter() - begun, time.process_time() - cpu


def _peak() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000)
    count = options.parse_args().events
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "stream.jsonl"
        if os.fork() == 0:  # made in a process of its own, so that its memory does not count
            duckdb.connect().execute(LINES.format(user=USER, count=count, path=path))
            os._exit(0)
        os.wait()
        size = path.stat().st_size
        limit, limit_cpu = _peer_seconds(path)
        partition = activate(Home(folder / "home"), "https://photos.example", USER, lambda line: None)
        types, empty, snapshot = ("AssetsV2",), SERVER.empty_table(), folder / "server.parquet"
        with _served(path) as url:
            before, cpu, begun = _peak(), time.process_time(), time.perf_counter()
            with SyncStream(url, SecretStr("token")) as stream, server_cache(partition) as cache:
                sync(stream, cache, lambda: empty, types, _now)
            first, cpu = time.perf_counter() - begun, time.process_time() - cpu
            above = _peak() - before
            begun = time.perf_counter()
            with SyncStream(url, SecretStr("token")) as stream, server_cache(partition) as cache:
                outcome = sync(stream, cache, lambda: empty, types, _now)
                rows = server_rows(cache, snapshot)
            again = time.perf_counter() - begun
        alone, alone_cpu = _from_file(path, folder / "another")
        assert rows == count and outcome.events == 1
        print(f"{count} events, {size / count:.0f} bytes each, {size / 2**20:.0f} MB")
        print(f"DuckDB's read_json into a table: {limit:.2f} s, {limit_cpu:.2f} s of CPU")
        for how, elapsed, used in (("over a socket", first, cpu), ("from the file", alone, alone_cpu)):
            print(f"into the cache {how}: {elapsed:.2f} s (ratio {elapsed / limit:.2f}), ", end="")
            print(f"{used:.2f} s of CPU (ratio {used / limit_cpu:.2f})")
        print(f"memory over a socket: {above:.0f} MB above the interpreter with its modules")
        print(f"nothing new, from the request to the snapshot of {rows} assets: {again:.2f} s")


if __name__ == "__main__":
    main()
