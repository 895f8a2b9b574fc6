"""The rules of the change stream, line by line: in bulk, one by one, and wherever the chunks begin and end."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import stream_bulk
from server.rows import rows
from server.stream import blocks
from server.stream_errors import StreamBroken, StreamDataError
from server.stream_parse import Batch, Parsed, parse
from tests.server.client_support import checksum
from tests.server.replaying import FOLDER

OWNER = "dddddddd-0000-4000-8000-000000000000"
COMPLETE = b'{"type":"SyncCompleteV1","data":{},"ack":"SyncCompleteV1|c"}'
RESET = b'{"type":"SyncResetV1","data":{},"ack":"SyncResetV1|reset"}'


def uuid_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def asset(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": uuid_of(number),
        "ownerId": OWNER,
        "originalFileName": f"é☀𝄞 {number}.jpg",
        "checksum": checksum(str(number)),
        "thumbhash": "x",
        "livePhotoVideoId": None,
        "deletedAt": None,
        "visibility": "timeline",
        "isFavorite": False,
        "type": "IMAGE",
        "fileCreatedAt": "2025-01-10T10:00:00.123Z",
        "fileModifiedAt": "2025-01-10T10:00:00Z",
        "localDateTime": "2025-01-10T11:00:00.000Z",
        "width": 320,
        "height": None,
        "duration": None,
        "stackId": None,
        "libraryId": None,
        "isEdited": False,
    } | changes


def event(kind: str, data: Any, ack: Any = ...) -> bytes:
    return json.dumps(
        {"type": kind, "data": data, "ack": f"{kind}|{abs(hash(json.dumps(data)))}" if ack is ... else ack},
        ensure_ascii=False,
    ).encode()


def upsert(number: int, kind: str = "AssetV1", ack: Any = ..., **changes: Any) -> bytes:
    return event(kind, asset(number, **changes), ack)


def delete(number: int) -> bytes:
    return event("AssetDeleteV1", {"assetId": uuid_of(number)}, f"AssetDeleteV1|{number}")


def parsed(*lines: bytes) -> Parsed:
    return parse(b"\n".join(lines) + b"\n", bulk_bytes=0)


def one(*lines: bytes) -> Batch:
    found = parsed(*lines)
    assert found.error is None and len(found.batches) == 1
    return found.batches[0]


def ids(batch: Batch) -> list[str]:
    found: list[str] = batch.upserts["asset_id"].to_pylist()
    return found


# A line that the bulk parser refuses, so that the block is read line by line; it says nothing.
ODD = b'{"type":"HologramV9","data":[1],"ack":null}'


@pytest.mark.parametrize("odd", [(), (ODD,)], ids=["in bulk", "line by line"])
class TestEachRule:
    """Both ways of parsing keep every rule."""

    def test_both_versions_of_an_asset_are_read(self, odd: tuple[bytes, ...]) -> None:
        second = upsert(2, "AssetV2", duration=1500, createdAt="2026-01-01T00:00:00Z")
        batch = one(*odd, upsert(1, duration="0:00:01"), second, delete(3), COMPLETE)
        assert ids(batch) == [uuid_of(1), uuid_of(2)] and batch.deletes["asset_id"].to_pylist() == [uuid_of(3)]
        assert batch.complete and set(batch.acks) == {"AssetV1", "AssetV2", "AssetDeleteV1", "SyncCompleteV1"}

    def test_the_last_ack_per_type_is_kept(self, odd: tuple[bytes, ...]) -> None:
        assert one(*odd, upsert(1, ack="a"), upsert(2, ack="b"), delete(3)).acks == {
            "AssetV1": "b",
            "AssetDeleteV1": "AssetDeleteV1|3",
        }

    def test_an_unknown_type_is_ignored_and_its_ack_kept(self, odd: tuple[bytes, ...]) -> None:
        batch = one(*odd, event("TagV1", {"id": "1"}, "TagV1|t"), upsert(1, ack="a"))
        assert batch.acks == {"TagV1": "TagV1|t", "AssetV1": "a"} and len(ids(batch)) == 1

    def test_a_known_type_without_ack_is_ignored_with_its_data(self, odd: tuple[bytes, ...]) -> None:
        batch = one(*odd, upsert(1, ack=None), event("AssetDeleteV1", {"assetId": 7}, None), upsert(2, ack="a"))
        assert ids(batch) == [uuid_of(2)] and batch.acks == {"AssetV1": "a"} and len(batch.deletes) == 0

    def test_a_complete_or_reset_without_ack_is_none(self, odd: tuple[bytes, ...]) -> None:
        lines = (event("SyncCompleteV1", {}, None), event("SyncResetV1", {}, None))
        batch = one(*odd, *lines, upsert(1))
        assert not batch.complete and not batch.reset and len(ids(batch)) == 1

    def test_a_sync_ack_is_ignored_and_logged(self, odd: tuple[bytes, ...], caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO):
            assert one(*odd, event("SyncAckV1", {}, "AssetV1|x"), upsert(1, ack="a")).acks == {"AssetV1": "a"}
        assert "SyncAckV1" in caplog.text

    def test_a_reset_is_a_batch_of_its_own_and_the_end(self, odd: tuple[bytes, ...]) -> None:
        before, reset = parsed(*odd, upsert(1, ack="a"), RESET, upsert(2)).batches
        assert before.acks == {"AssetV1": "a"} and not before.reset
        assert reset == Batch(reset.upserts, reset.deletes, {"SyncResetV1": "SyncResetV1|reset"}, False, True, 1)

    def test_nothing_after_the_complete_is_read(self, odd: tuple[bytes, ...]) -> None:
        batch = one(*odd, upsert(1), COMPLETE, upsert(2), b"<html>")
        assert batch.complete and ids(batch) == [uuid_of(1)]

    def test_blank_lines_are_skipped_and_counted(self, odd: tuple[bytes, ...]) -> None:
        found = parsed(b"", *odd, b"", b"", upsert(1), b"", upsert(2), b"", upsert(3, checksum="?"))
        assert ids(found.batches[0]) == [uuid_of(1), uuid_of(2)]
        assert isinstance(found.error, StreamDataError) and f"Line {8 + len(odd)} " in str(found.error)

    def test_a_line_that_is_no_json_comes_after_the_events_before_it(self, odd: tuple[bytes, ...]) -> None:
        for wrong in (b"<html>", b'{"type":"AssetV1"', b"\xff\xfe", b"{}{}", b"nul", upsert(9)[:-1] + b"\xff}"):
            found = parsed(*odd, upsert(1), wrong, upsert(2))
            assert isinstance(found.error, StreamBroken), wrong
            assert f"Line {2 + len(odd)} " in str(found.error) and ids(found.batches[0]) == [uuid_of(1)]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("id", "1"), ("id", None), ("id", 7), ("ownerId", None), ("checksum", None), ("checksum", "c29tZQ=="),
            ("originalFileName", None), ("originalFileName", 3), ("livePhotoVideoId", "x"), ("visibility", "private"),
            ("visibility", None), ("type", None), ("isFavorite", "no"), ("fileCreatedAt", "yesterday"),
            ("deletedAt", True), ("localDateTime", "2025-13-01T00:00:00Z"), ("width", "wide"), ("height", 1.5),
        ],
    )  # fmt: skip
    def test_wrong_data_of_a_known_type_is_an_error(self, odd: tuple[bytes, ...], field: str, value: Any) -> None:
        found = parsed(*odd, upsert(1), upsert(2, **{field: value}), upsert(3))
        assert isinstance(found.error, StreamDataError) and field in str(found.error).replace("type of asset", "type")
        assert f"Line {2 + len(odd)} " in str(found.error) and ids(found.batches[0]) == [uuid_of(1)]

    def test_data_that_is_no_object_or_missing_is_an_error(self, odd: tuple[bytes, ...]) -> None:
        for wrong in (
            event("AssetV1", None),
            event("AssetV1", [1]),
            event("AssetV1", "x"),
            event("AssetDeleteV1", {}),
            b'{"type":"AssetV2","ack":"x"}',
            event("AssetDeleteV1", {"assetId": "1"}),
            event("AssetV1", asset(2), 7),
            b'{"data":{},"ack":"x"}',
            b"[]",
        ):
            found = parsed(*odd, upsert(1), wrong)
            assert isinstance(found.error, StreamDataError), wrong
            assert found.batches[0].events == 1 + len(odd)

    def test_dates_with_fractions_of_any_length_or_none_are_read(self, odd: tuple[bytes, ...]) -> None:
        texts = ("2025-01-10T10:00:00Z", "2025-01-10T10:00:00.5Z", "2025-01-10T10:00:00.123456+02:00", None)
        batch = one(*odd, *(upsert(n, fileCreatedAt=text) for n, text in enumerate(texts)))
        assert [str(t) for t in batch.upserts["file_created_at"].to_pylist()] == [
            "2025-01-10 10:00:00", "2025-01-10 10:00:00.500000", "2025-01-10 08:00:00.123456", "None",
        ]  # fmt: skip

    def test_the_values_are_those_of_a_search(self, odd: tuple[bytes, ...]) -> None:
        changes: list[dict[str, Any]] = [
            {},
            {"type": "VIDEO", "visibility": "hidden", "isFavorite": True},
            {"deletedAt": "2026-01-01T00:00:00.000Z", "visibility": "archive"},
            {"livePhotoVideoId": uuid_of(77).upper(), "libraryId": uuid_of(5), "checksum": "path"},
            {"id": uuid_of(0xABCDEF).upper(), "fileCreatedAt": None, "localDateTime": "+012345-01-01T00:00:00.000Z"},
            {"fileCreatedAt": "1969-12-31T23:59:59Z", "localDateTime": "2025-01-10T10:00:00"},
        ]
        items = [asset(n, **change) for n, change in enumerate(changes)]
        listed = rows([{**item, "isTrashed": item["deletedAt"] is not None} for item in items], what="a page")
        got = one(*odd, *(event("AssetV1", item) for item in items)).upserts
        renamed = {"captured_at": "file_created_at", "local_captured_at": "local_date_time"}
        for name in listed.column_names:
            column = pc.is_valid(got["deleted_at"]) if name == "is_trashed" else got[renamed.get(name, name)]
            assert column.to_pylist() == listed[name].to_pylist(), name


def test_a_block_without_anything_odd_is_read_in_bulk_and_says_the_same() -> None:
    lines = [delete(1), b"", upsert(2), event("TagV1", {"id": "1"}), upsert(3, "AssetV2", ack=None), COMPLETE]
    lines[2] = upsert(2, fileModifiedAt="2025-01-10T10:00:00.000Z", libraryId="path", checksum='"\\x')
    lines[4] = upsert(3, "AssetV2", ack=None, fileModifiedAt=None)
    block = b"\n".join(lines) + b"\n"
    assert stream_bulk.read(block, 6) is not None
    assert parse(block, bulk_bytes=0) == parse(block)


SAID: list[Any] = (
    [None, True, 0, 7, -1, 1.5, 2**31, "", "7", "-1.5e3", "true", "null", "NaN", "[", "{", "x", "K", "é\n\"\\",
     "\u0000", [1], {"a": 1}, "epoch", "2025-01-10", "2025-01-10T10:00:00.123Z", "2025-02-30T10:00:00.123Z",
     "0000-01-01T00:00:00.000Z", "+012345-01-01T00:00:00.000Z", "2025-1-010T10:00:00.123Z", "timeline", "locked",
     "IMAGE", uuid_of(1), uuid_of(0xABC).upper(), "{" + uuid_of(1) + "}", checksum("a"), "A" * 28]
)  # fmt: skip


@pytest.mark.parametrize("field", sorted({*asset(1)} - {"duration", "stackId", "thumbhash", "isEdited"}))
def test_in_bulk_and_line_by_line_every_value_is_taken_or_refused_alike(field: str) -> None:
    for value in SAID:
        for library in (None, "path") if field == "checksum" else (None,):
            plain: dict[str, Any] = {"fileModifiedAt": None, "libraryId": library}
            block = b"\n".join([upsert(1, **plain), upsert(2, **{**plain, field: value}), delete(3)]) + b"\n"
            bulk, single = parse(block, bulk_bytes=0), parse(block)
            assert bulk.batches == single.batches and repr(bulk.error) == repr(single.error), value


@pytest.mark.parametrize("field", ["type", "ack", "data", "assetId"])
def test_in_bulk_and_line_by_line_every_envelope_is_taken_or_refused_alike(field: str) -> None:
    for value in SAID:
        line = {"type": "AssetDeleteV1", "data": {"assetId": uuid_of(5)}, "ack": "a"}
        line |= {"data": {"assetId": value}} if field == "assetId" else {field: value}
        block = b"\n".join([upsert(1, fileModifiedAt=None), json.dumps(line).encode()]) + b"\n"
        bulk, single = parse(block, bulk_bytes=0), parse(block)
        assert bulk.batches == single.batches and repr(bulk.error) == repr(single.error), value


def test_a_break_inside_an_event_is_no_json_even_if_the_counts_agree() -> None:
    split = upsert(2).replace(b', "ack"', b',\n"ack"')
    assert split.count(b"\n") == 1
    found = parse(upsert(1) + b"\n" + split + b"\n" + delete(3) + delete(4) + b"\n", bulk_bytes=0)
    assert isinstance(found.error, StreamBroken) and ids(found.batches[0]) == [uuid_of(1)]


def _recorded() -> list[bytes]:
    """A stream as a real server sent it, as far as it was recorded; else one of our own."""
    found = []
    for path in sorted(FOLDER.glob("*/60-sync.json")):
        for exchange in json.loads(path.read_text(encoding="utf-8"))["exchanges"]:
            body = exchange.get("response", {}).get("body")
            if exchange.get("response", {}).get("status") == 200 and isinstance(body, dict) and "lines" in body:
                lines = [line.encode() for line in body["lines"]]
                whole = [line for line in lines if line.endswith(b'"}') and line.startswith(b'{"type"')]
                found.append(b"\n".join(whole) + b"\n")
    return found


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no server recordings here")
def test_every_recorded_stream_is_read_without_an_error() -> None:
    kinds = set()
    for stream in _recorded():
        found = parse(stream, bulk_bytes=0)
        assert found.error is None
        kinds |= {kind for batch in found.batches for kind in batch.acks}
    assert kinds >= {"AssetV1", "AssetV2", "AssetDeleteV1", "SyncCompleteV1", "SyncResetV1"}


def _seen(chunks: list[bytes], block_bytes: int) -> tuple[list[Any], dict[str, str], bool]:
    events: list[Any] = []
    acks: dict[str, str] = {}
    complete, lines = False, 0
    for block in blocks(chunks, block_bytes, 10**6):
        found = parse(block, lines)
        assert found.error is None
        lines += found.lines
        for batch in found.batches:
            both = batch.upserts.to_pylist() + batch.deletes.to_pylist()
            events += [{**row, "position": None} for row in sorted(both, key=lambda row: int(row["position"]))]
            acks |= batch.acks
            complete = complete or batch.complete
    return events, acks, complete


def test_a_chunk_may_end_at_every_byte() -> None:
    recorded = max(_recorded(), key=len, default=b"").replace(b"IMG_", "é☀𝄞".encode())
    stream = recorded[: recorded.rfind(b"\n", 0, 4000) + 1] + b"\n".join([delete(1), b"", upsert(2), COMPLETE]) + b"\n"
    whole = _seen([stream], 10**6)
    assert whole[2] and len(whole[0]) >= 2
    for at in range(len(stream) + 1):
        assert _seen([stream[:at], stream[at:]], 10**6) == whole, at
    assert _seen([stream[n : n + 1] for n in range(len(stream))], 1) == whole
    assert _seen([stream[:-1]], 10**6) == whole, "a last line without a break is a line"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 700), max_size=30), st.integers(1, 3000))
def test_any_chunks_give_the_same_events(sizes: list[int], block_bytes: int) -> None:
    stream = b"\n".join([delete(1), upsert(2), b"", upsert(3, "AssetV2"), ODD, upsert(4), COMPLETE]) + b"\n"
    chunks, at = [], 0
    for size in sizes:
        chunks.append(stream[at : at + size])
        at += size
    assert _seen([*chunks, stream[at:]], block_bytes) == _seen([stream], 10**6)


def test_a_line_that_is_too_long_is_refused_without_being_held() -> None:
    given_out = 0

    def chunks() -> Any:
        nonlocal given_out
        yield upsert(1) + b"\n"
        while True:
            given_out += 1000
            yield b"x" * 1000

    blocks_seen = []
    with pytest.raises(StreamBroken, match="longer than"):
        for block in blocks(chunks(), 10, 5000):
            blocks_seen.append(block)
    assert given_out <= 7000 and blocks_seen == [upsert(1) + b"\n"]
