"""The journal keeps every line, and says which ones it cannot read."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from state.errors import StateUnwritable
from state.home import Home
from state.journal import Record, append, decision, fold, locked, read, rfc3339, state_of_run, stream
from state.partition import Partition
from tests.state.helpers import NOW, checksum, finish, partition_in, process


def outcome(number: int, status: str = "planned", run: str = "run-1", at: str = rfc3339(NOW)) -> Record:
    return Record(
        at=at, run_id=run, status=status, asset_id=f"asset-{number}", checksum=checksum(number), file_name="a.jpg"
    )


def lines(partition: Partition) -> list[bytes]:
    return partition.journal.read_bytes().split(b"\n")[:-1]


def test_what_is_appended_is_read_back_in_order(partition: Partition) -> None:
    append(partition, [outcome(1), outcome(2)])
    append(partition, [decision("approve", NOW, {"digest": "x"}, "run-1")])
    found = read(partition)
    assert [(r.seq, r.status, r.decision) for r in found.records] == [
        (1, "planned", None),
        (2, "planned", None),
        (3, None, "approve"),
    ]
    assert found.records[2].details == {"digest": "x"}
    assert (found.broken, found.chain_breaks) == ((), ())


def test_each_line_holds_the_digest_of_the_line_before(partition: Partition) -> None:
    append(partition, [outcome(1)])
    append(partition, [outcome(2), outcome(3)])
    raw = lines(partition)
    digests = [hashlib.sha256(line).hexdigest() for line in [b"", *raw]]
    assert [orjson.loads(line)["prev"] for line in raw] == digests[:-1]


def test_no_journal_is_an_empty_one(partition: Partition) -> None:
    assert read(partition).records == ()
    append(partition, [])
    assert not partition.journal.exists()


def test_the_journal_is_private(partition: Partition) -> None:
    append(partition, [outcome(1)])
    assert partition.journal.stat().st_mode & 0o777 == 0o600


def test_a_name_with_line_breaks_or_no_utf8_stays_one_line(partition: Partition) -> None:
    names = ["a\nb\r\u2028.jpg", os.fsdecode(b"caf\xe9.jpg")]
    append(partition, [Record(at=rfc3339(NOW), run_id="r", status="planned", asset_id=n, file_name=n) for n in names])
    found = read(partition)
    assert [r.file_name for r in found.records] == [names[0], "caf\\udce9.jpg"]
    assert len(lines(partition)) == 2


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_lesson_57_a_torn_last_line_swallows_no_later_record(partition: Partition, cut: int) -> None:
    append(partition, [outcome(1), outcome(2)])
    data = partition.journal.read_bytes()
    partition.journal.write_bytes(data[:-cut])
    append(partition, [outcome(3)])
    found = read(partition)
    assert [r.asset_id for r in found.records] == ["asset-1", *(["asset-2"] if cut == 1 else []), "asset-3"]
    assert found.broken == (() if cut == 1 else (2,))
    assert found.chain_breaks == ()
    assert found.records[-1].seq == 3


def test_lesson_57_an_invalid_byte_costs_one_line(partition: Partition) -> None:
    append(partition, [outcome(n) for n in range(1, 6)])
    data = partition.journal.read_bytes()
    partition.journal.write_bytes(data.replace(b"asset-3", b"asset-\xff"))
    found = read(partition)
    assert [r.asset_id for r in found.records] == ["asset-1", "asset-2", "asset-4", "asset-5"]
    assert (found.broken, found.chain_breaks) == ((3,), (4,))


@pytest.mark.parametrize(
    "junk", [b"", b"[]", b"null", b"{}", b'{"at":1,"status":"planned"}', b'{"at":"x"}', b"\x00" * 9]
)
def test_a_line_that_is_no_record_is_reported_by_number(partition: Partition, junk: bytes) -> None:
    append(partition, [outcome(1)])
    with partition.journal.open("ab") as file:
        file.write(junk + b"\n")
    append(partition, [outcome(2)])
    found = read(partition)
    assert ([r.asset_id for r in found.records], found.broken) == (["asset-1", "asset-2"], (2,))
    assert [r.seq for r in found.records] == [1, 3]


def test_a_changed_or_removed_line_breaks_the_chain_where_it_was(partition: Partition) -> None:
    append(partition, [outcome(n) for n in range(1, 6)])
    raw = lines(partition)
    partition.journal.write_bytes(b"\n".join([raw[0], raw[1].replace(b"planned", b"trashed"), *raw[2:], b""]))
    assert read(partition).chain_breaks == (3,)
    partition.journal.write_bytes(b"\n".join([raw[0], *raw[2:], b""]))
    assert read(partition).chain_breaks == (2,)


def test_a_file_of_nothing_but_junk_is_continued(partition: Partition) -> None:
    partition.journal.write_bytes(b"\xff\n" + b"x" * 200_000)
    append(partition, [outcome(1)])
    found = read(partition)
    assert (found.broken, [r.seq for r in found.records], found.chain_breaks) == ((1, 2), [3], ())


def test_the_last_status_counts_by_line_not_by_clock(partition: Partition) -> None:
    append(partition, [outcome(1, "planned"), outcome(2, "planned")])
    earlier = rfc3339(NOW - timedelta(days=400))
    append(partition, [outcome(1, "trashed", at=earlier), outcome(1, "failed", run="run-2", at=earlier)])
    records = read(partition).records
    assert {a: r.status for a, r in state_of_run(records, "run-1").items()} == {
        "asset-1": "trashed",
        "asset-2": "planned",
    }
    assert {run: len(assets) for run, assets in fold(records).items()} == {"run-1": 2, "run-2": 1}
    assert state_of_run(records, "run-3") == {}


def test_a_full_disk_leaves_the_journal_as_it_was(home: Home, partition: Partition) -> None:
    append(partition, [outcome(1)])
    before = partition.journal.read_bytes()
    code = """
import resource, signal, sys
from pathlib import Path
from state.errors import StateUnwritable
from state.home import Home
from state.journal import Record, append
from state.partition import by_name
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
partition = by_name(Home(Path(sys.argv[1])), sys.argv[2])
try:
    append(partition, [Record(at="x", run_id="r", status="planned", asset_id=str(n)) for n in range(1000)])
except StateUnwritable as error:
    print(error)
"""
    status, out = finish(process(code, home.root, partition.name))
    assert (status, partition.journal.read_bytes()) == (0, before)
    assert "deletion-journal.jsonl" in out
    append(partition, [outcome(2)])
    assert [r.seq for r in read(partition).records] == [1, 2]


def test_an_unwritable_journal_is_said(partition: Partition) -> None:
    partition.journal.mkdir()
    with pytest.raises(StateUnwritable):
        append(partition, [outcome(1)])


APPEND = """
import sys
from pathlib import Path
from state.home import Home
from state.journal import Record, append
from state.partition import by_name
partition = by_name(Home(Path(sys.argv[1])), sys.argv[2])
print("ready", flush=True)
input()
for n in range(int(sys.argv[4])):
    append(partition, [Record(at="x", run_id=sys.argv[3], status="planned", asset_id=f"{n}-{i}") for i in range(5)])
    print(n, flush=True)
"""


def test_two_processes_at_once_lose_no_record_and_keep_the_chain(home: Home, partition: Partition) -> None:
    children = [process(APPEND, home.root, partition.name, run, 20) for run in ("a", "b")]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert [finish(child)[0] for child in children] == [0, 0]
    found = read(partition)
    assert [r.seq for r in found.records] == list(range(1, 201))
    assert (found.broken, found.chain_breaks) == ((), ())


def test_killed_while_writing_every_acknowledged_batch_is_there(home: Home, partition: Partition) -> None:
    child = process(APPEND, home.root, partition.name, "a", 10_000)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    done = [child.stdout.readline() for _ in range(20)]
    child.kill()
    finish(child)
    append(partition, [outcome(1)])
    found = read(partition)
    assert len(found.records) >= 5 * (len(done) - 1) + 1
    assert found.records[-1].asset_id == "asset-1"
    assert found.chain_breaks == ()


def test_lines_that_are_appended_while_reading_are_left_for_the_next_time(partition: Partition) -> None:
    append(partition, [outcome(1), outcome(2)])
    seen = []
    for line in stream(partition):
        seen.append(line.number)
        append(partition, [outcome(3)])
    assert seen == [1, 2]


def test_a_hundred_thousand_records_are_read_in_about_a_second(partition: Partition) -> None:
    append(partition, [outcome(n) for n in range(100_000)])
    began = time.process_time()
    found = read(partition)
    assert (len(found.records), found.broken, found.chain_breaks) == (100_000, (), ())
    assert time.process_time() - began < 20  # of its own; what grows with the square of the lines takes minutes


def test_the_names_in_the_file_are_frozen(partition: Partition, tmp_path: Path) -> None:
    """Renaming a persisted name loses what was written under it (lesson 50)."""
    record = Record("t", "r", "trashed", "a", "c", "m", "mc", "f", "why", details={})
    append(partition, [record])
    assert list(orjson.loads(lines(partition)[0])) == [
        *("at", "run_id", "status", "asset_id", "checksum", "motion_id", "motion_checksum"),
        *("file_name", "reason", "details", "seq", "prev"),
    ]
    assert partition.journal.name == "deletion-journal.jsonl"
    assert partition_in(Home(tmp_path / "home")).database.name == "state.duckdb"


def test_an_append_waits_for_the_one_before_it(partition: Partition) -> None:
    written = threading.Event()

    def write() -> None:
        append(partition, [outcome(1)])
        written.set()

    with locked(partition):
        thread = threading.Thread(target=write)
        thread.start()
        assert not written.wait(0.2)
    assert written.wait(60)
    thread.join()
