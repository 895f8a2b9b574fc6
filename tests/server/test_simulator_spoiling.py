"""The simulator's change stream with the faults that a test can ask for: cut, hung, slow, or with lines that lie."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from server.simulator.spoiling import (
    BLANK,
    GZIP,
    NOT_JSON,
    PIECE,
    UNKNOWN_TYPE,
    WITHOUT_ACK,
    WRONG_DATA,
    StreamFault,
    long_line,
)
from tests.server.simulator_support import House, house, patient

TYPES = {"types": ["AssetsV2"]}
PATIENCE = 3.0  # seconds without a byte, after which a test calls it a hang; what does come may come late


@dataclass(slots=True)
class Received:
    """What arrived of one stream, piece by piece as it was on the wire, and the error that ended it."""

    pieces: list[bytes]
    headers: httpx.Headers
    error: Exception | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def lines(self) -> list[bytes]:
        return self.body.splitlines()


@dataclass(frozen=True, slots=True)
class Phone:
    house: House
    client: httpx.Client

    def receive(self, fault: StreamFault | None = None, encoding: str = "identity", **sent: Any) -> Received:
        if fault is not None:
            self.house.sim.faults.add_stream(fault)
        headers = {"accept-encoding": encoding}
        got = Received([], httpx.Headers())
        with self.client.stream("POST", "/api/sync/stream", json=TYPES, headers=headers, **sent) as answer:
            got.headers = answer.headers
            assert answer.status_code == 200
            try:
                for piece in answer.iter_raw():
                    got.pieces.append(piece)  # one by one: those before the error are wanted too
            except httpx.TransportError as error:
                got.error = error
        return got


@pytest.fixture
def phone() -> Iterator[Phone]:
    """A session of a user with three assets, one of them with a name of several bytes a letter."""
    with house() as one, contextlib.ExitStack() as cleanup:
        for name in ("a.jpg", "größe.jpg", "c.jpg"):
            one.add(name)
        headers = {"Authorization": f"Bearer {one.sim.add_session(one.user_id)}"}
        client = httpx.Client(**patient(one.base_url, headers))
        yield Phone(one, cleanup.enter_context(client))


def test_a_fault_spoils_the_next_stream_only_or_as_many_as_asked(phone: Phone) -> None:
    phone.house.sim.faults.add_stream(StreamFault(no_complete=True), times=2)
    assert [len(phone.receive().lines) for _ in range(3)] == [3, 3, 4]
    phone.house.sim.faults.add_stream(StreamFault(no_complete=True))
    phone.house.sim.faults.clear()
    assert len(phone.receive().lines) == 4


def test_a_stream_without_its_complete_ends_well(phone: Phone) -> None:
    got = phone.receive(StreamFault(no_complete=True))
    assert got.error is None
    assert [json.loads(line)["type"] for line in got.lines] == ["AssetV2"] * 3


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_the_connection_is_cut_after_so_many_lines(phone: Phone, count: int) -> None:
    got = phone.receive(StreamFault(cut_after_lines=count))
    assert isinstance(got.error, httpx.RemoteProtocolError)
    assert len(got.lines) == count
    assert count == 0 or got.body.endswith(b"\n")


def test_the_connection_is_cut_in_the_middle_of_a_letter(phone: Phone) -> None:
    whole = phone.receive().body
    place = whole.index("ö".encode()) + 1
    got = phone.receive(StreamFault(cut_after_bytes=place))
    assert isinstance(got.error, httpx.RemoteProtocolError)
    assert got.body == whole[:place]
    with pytest.raises(UnicodeDecodeError):
        got.body.decode()


def test_a_cut_loses_nothing_of_what_was_sent_before_it(phone: Phone) -> None:
    count = 25 * PIECE  # the last piece is a large one, which the socket does not take at once
    got = phone.receive(StreamFault(insert={0: long_line(30 * PIECE)}, cut_after_bytes=count))
    assert isinstance(got.error, httpx.RemoteProtocolError)
    assert len(got.body) == count


def test_the_connection_is_cut_in_the_middle_of_a_compressed_block(phone: Phone) -> None:
    whole = phone.receive(encoding="gzip")
    assert whole.headers["content-encoding"] == "gzip"
    text = zlib.decompress(whole.body, GZIP)
    assert text.count(b"\n") == 4
    half = len(whole.body) // 2
    got = phone.receive(StreamFault(cut_after_bytes=half), encoding="gzip")
    assert isinstance(got.error, httpx.RemoteProtocolError)
    assert len(got.body) == half
    unpacker = zlib.decompressobj(GZIP)
    assert text.startswith(unpacker.decompress(got.body)[:100])
    assert not unpacker.eof


def test_a_stream_can_be_compressed_unasked(phone: Phone) -> None:
    got = phone.receive(StreamFault(gzip=True))
    assert got.headers["content-encoding"] == "gzip"
    assert len(zlib.decompress(got.body, GZIP).splitlines()) == 4


@pytest.mark.parametrize(
    ("fault", "lines"), [(StreamFault(hang_after_lines=2), 2), (StreamFault(hang_after_bytes=30), 1)]
)
def test_a_hung_stream_sends_so_much_and_then_nothing(phone: Phone, fault: StreamFault, lines: int) -> None:
    got = phone.receive(fault, timeout=PATIENCE)
    assert isinstance(got.error, httpx.ReadTimeout)
    assert len(got.lines) == lines


def test_a_slow_stream_pauses_between_its_chunks_and_is_whole(phone: Phone) -> None:
    whole = phone.receive().body.splitlines()[:3]
    got = phone.receive(StreamFault(chunk_bytes=500, pause=0.01))
    assert got.error is None
    assert got.lines[:3] == whole
    slow = phone.receive(StreamFault(chunk_bytes=500, pause=60), timeout=PATIENCE)
    assert isinstance(slow.error, httpx.ReadTimeout)
    assert len(slow.body) == 500


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_chunks_can_end_at_every_byte(phone: Phone, encoding: str) -> None:
    whole = phone.receive().lines
    got = phone.receive(StreamFault(chunk_bytes=1), encoding=encoding)
    assert {len(piece) for piece in got.pieces} == {1}
    body = zlib.decompress(got.body, GZIP) if encoding == "gzip" else got.body
    assert body.splitlines()[:3] == whole[:3]


@pytest.mark.parametrize("line", [UNKNOWN_TYPE, WITHOUT_ACK, WRONG_DATA, NOT_JSON, BLANK])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_a_line_can_be_put_anywhere(phone: Phone, line: bytes, place: int) -> None:
    got = phone.receive(StreamFault(insert={place: line}))
    assert got.error is None
    assert len(got.lines) == 5
    assert got.lines[place if place >= 0 else -2] == line
    assert json.loads(got.lines[-1])["type"] == "SyncCompleteV1"


def test_the_lines_to_put_in_are_what_their_names_say() -> None:
    known = {"AssetV1", "AssetV2", "AssetDeleteV1", "SyncCompleteV1"}
    assert json.loads(UNKNOWN_TYPE)["type"] not in known
    assert json.loads(WITHOUT_ACK)["type"] in known
    assert "ack" not in json.loads(WITHOUT_ACK)
    assert "assetId" not in json.loads(WRONG_DATA)["data"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(NOT_JSON)


def test_a_line_can_have_a_hundred_megabytes(phone: Phone) -> None:
    size = 100 * 1024 * 1024
    line = long_line(size)
    assert size <= len(line) < size + 1024
    assert isinstance(json.loads(long_line(1000)), dict)
    phone.house.sim.faults.add_stream(StreamFault(insert={1: line}))
    count = 0
    headers = {"accept-encoding": "identity"}
    with phone.client.stream("POST", "/api/sync/stream", json=TYPES, headers=headers) as answer:
        for piece in answer.iter_raw():
            count += len(piece)
    assert count > size


@pytest.mark.parametrize("status", [400, 401, 403, 500, 502])
def test_a_stream_can_be_refused_with_any_status(phone: Phone, status: int) -> None:
    phone.house.sim.faults.add("POST", "/api/sync/stream", status=status, body={"message": "no"})
    assert phone.client.post("/api/sync/stream", json=TYPES).status_code == status
    assert phone.client.post("/api/sync/stream", json=TYPES).status_code == 200


def test_a_refused_stream_keeps_the_fault_for_the_next_one(phone: Phone) -> None:
    phone.house.sim.faults.add_stream(StreamFault(no_complete=True))
    assert phone.client.post("/api/sync/stream", json={"types": ["Nope"]}).status_code == 400
    assert len(phone.receive().lines) == 3


def test_a_hung_stream_ends_with_the_server() -> None:
    with house() as one:
        one.add("a.jpg")
        one.sim.faults.add_stream(StreamFault(hang_after_lines=1))
        headers = {"Authorization": f"Bearer {one.sim.add_session(one.user_id)}"}
        with pytest.raises(httpx.ReadTimeout):
            one.client.post("/api/sync/stream", json=TYPES, headers=headers, timeout=PATIENCE)
