"""deletion-journal.jsonl: what became of each asset, and what the user decided. Append-only, one JSON object a line.

Each line carries the SHA-256 of the line before, so that a change in the middle shows. Nothing here decides anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson

from state.files import ensure_folder, reading_from, sync_folder, writing_to
from state.lock import file_lock
from state.partition import Partition

RUN_FINISHED = "run_finished"
_CHUNK = 1 << 16
_LOCK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Record:
    """One line: an asset's outcome (``status`` is set), or a decision (``decision`` is set).

    ``at`` is UTC, RFC 3339. ``seq`` and ``prev`` are given by append. ``motion_id`` is the linked video's asset id.
    """

    at: str
    run_id: str | None = None
    status: str | None = None
    asset_id: str | None = None
    checksum: str | None = None
    motion_id: str | None = None
    motion_checksum: str | None = None
    file_name: str | None = None
    reason: str | None = None
    decision: str | None = None
    details: Mapping[str, Any] | None = None
    seq: int = 0
    prev: str = ""


_FIELDS = tuple(Record.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class JournalContents:
    """Every readable record in order; the numbers of the lines that are not, and of those whose chain is broken."""

    records: tuple[Record, ...]
    broken: tuple[int, ...]
    chain_breaks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: ``record`` is None when it is broken; ``chained`` says whether it follows the line before it."""

    number: int
    record: Record | None
    chained: bool


def rfc3339(moment: datetime) -> str:
    """The journal's form of a moment; one without a zone is UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def decision(name: str, now: datetime, details: Mapping[str, Any] | None = None, run_id: str | None = None) -> Record:
    """A record of what the user decided, such as ``exclude_add`` or ``approve``."""
    return Record(at=rfc3339(now), run_id=run_id, decision=name, details=details or {})


def append(partition: Partition, records: Iterable[Record]) -> None:
    """Writes a batch durably, in one write: when this returns, it is on the disk (design, Decisions: journal record).

    A last line that was torn by a crash gets its newline first, so that it swallows nothing (lesson 57).
    Raises StateUnwritable, and then the batch is not in the file; PartitionBusy after 30 seconds.
    """
    batch = list(records)
    if not batch:
        return
    path = partition.journal
    ensure_folder(path.parent)
    with locked(partition), writing_to(path):
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            with os.fdopen(os.dup(descriptor), "rb") as file:
                torn, seq, prev = _end(file, size)
            lines = [b""] if torn else []
            for record in batch:
                seq += 1
                line = _encoded(replace(record, seq=seq, prev=prev))
                prev = hashlib.sha256(line).hexdigest()
                lines.append(line)
            _write_all(descriptor, b"\n".join([*lines, b""]), size)
            if new:
                sync_folder(path.parent)
        finally:
            os.close(descriptor)


def read(partition: Partition) -> JournalContents:
    """The whole journal. A damaged line is reported by number, and costs no other line."""
    records: list[Record] = []
    broken: list[int] = []
    breaks: list[int] = []
    for line in stream(partition):
        if line.record is None:
            broken.append(line.number)
            continue
        records.append(line.record)
        if not line.chained:
            breaks.append(line.number)
    return JournalContents(tuple(records), tuple(broken), tuple(breaks))


def stream(partition: Partition) -> Iterator[Line]:
    """The journal line by line, in constant memory. What is appended meanwhile is not part of it.

    An absent journal is empty; one that is there and cannot be read is StateUnreadable.
    """
    with reading_from(partition.journal):
        try:
            journal = partition.journal.open("rb")
        except FileNotFoundError:
            return
    with journal as file:
        with locked(partition):  # never in the middle of another process's line
            left = os.fstat(file.fileno()).st_size
        prev = hashlib.sha256(b"").hexdigest()
        for number, raw in enumerate(file, start=1):
            left -= len(raw)
            if left < 0:
                return
            line = raw.removesuffix(b"\n")
            record = _decoded(line)
            yield Line(number, record, record is not None and record.prev == prev)
            prev = hashlib.sha256(line).hexdigest()


def fold(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Per run id, per asset id: the last record written. The order of the lines counts, not the clock."""
    runs: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.status is not None and record.run_id is not None and record.asset_id is not None:
            runs.setdefault(record.run_id, {})[record.asset_id] = record
    return runs


def in_trash(records: Iterable[Record]) -> dict[str, str]:
    """Each checksum of which the last word of a run is that it is in the server's trash, and when that was."""
    found: dict[str, str] = {}
    for line in records:
        for checksum in (line.checksum, line.motion_checksum) if line.status in ("trashed", "restored") else ():
            if checksum and line.status == "trashed":
                found[checksum] = line.at
            elif checksum:
                found.pop(checksum, None)
    return found


def state_of_run(records: Iterable[Record], run_id: str) -> dict[str, Record]:
    """Per asset id of one run: the last record written."""
    return fold(r for r in records if r.run_id == run_id).get(run_id, {})


def finished(records: Iterable[Record]) -> set[str]:
    """The runs that carried their plan out as far as it can be: it is not approved again."""
    return {line.run_id for line in records if line.decision == RUN_FINISHED and line.run_id is not None}


def locked(partition: Partition) -> contextlib.AbstractContextManager[None]:
    """The journal's own short lock, so that a decision can be recorded while a run holds the partition."""
    return file_lock(partition.path / "journal.lock", _LOCK_SECONDS, why="another command is writing the journal")


def _encoded(record: Record) -> bytes:
    fields = {name: value for name in _FIELDS if (value := getattr(record, name)) is not None}
    try:
        return orjson.dumps(fields)
    except TypeError:
        return orjson.dumps(_printable(fields))


def _printable(value: Any) -> Any:
    """The value with what UTF-8 has no bytes for (undecodable file names) written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_printable(k): _printable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(v) for v in value]
    return value


def _decoded(line: bytes) -> Record | None:
    try:
        found = orjson.loads(line)
        record = Record(**{name: found[name] for name in _FIELDS if name in found})
    except (ValueError, TypeError, AttributeError):
        return None
    if not isinstance(record.at, str) or not isinstance(record.seq, int):
        return None
    if isinstance(record.status, str) == isinstance(record.decision, str):
        return None
    return record


def _write_all(descriptor: int, data: bytes, size: int) -> None:
    """Appends and syncs, or restores the file to its size and raises OSError."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _end(file: BinaryIO, size: int) -> tuple[bool, int, str]:
    """Whether the last line lacks its newline, the last seq, and the digest of the last line."""
    torn, last, bad = False, b"", 0
    for number, line in enumerate(_lines_backwards(file, size)):
        if number == 0 and not line:
            continue  # what follows the final newline: nothing
        torn |= number == 0
        last = last or line
        record = _decoded(line)
        if record is not None:
            return torn, record.seq + bad, hashlib.sha256(last).hexdigest()
        bad += 1
    return torn, bad, hashlib.sha256(last).hexdigest()


def _lines_backwards(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines from the last to the first; the first one given is empty when the file ends in a newline."""
    tail, position = b"", size
    while position > 0:
        step = min(_CHUNK, position)
        position -= step
        file.seek(position)
        parts = (file.read(step) + tail).split(b"\n")
        tail = parts[0]
        yield from reversed(parts[1:])
    if size:
        yield tail
