"""A phone that does not exist behind a real adb server's protocol on a real socket: what the tests of phones talk to.

The media index is an SQLite table, as on a phone, and `content query` prints it as a phone does: nothing is escaped.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import socketserver
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

PRIMARY = "external_primary"
CAMERA = "/storage/emulated/0/DCIM/Camera"
MODIFIED = 1_714_564_800  # 2024-05-01 12:00:00 UTC
_PIECE = 65536
_FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir,apex,abb,sendrecv_v2"
_COLUMNS = {
    "_id": "INTEGER PRIMARY KEY AUTOINCREMENT", "_data": "BLOB", "_display_name": "BLOB", "_size": "INTEGER",
    "date_modified": "INTEGER", "date_added": "INTEGER", "datetaken": "INTEGER", "date_expires": "INTEGER",
    "generation_added": "INTEGER", "generation_modified": "INTEGER", "media_type": "INTEGER", "mime_type": "TEXT",
    "is_trashed": "INTEGER", "is_pending": "INTEGER", "bucket_id": "INTEGER", "bucket_display_name": "BLOB",
    "volume_name": "TEXT",
}  # fmt: skip
_AGGREGATE = re.compile(r"(?:COUNT|MAX|MIN)\((\w+)\)")

# What is called with the name of a service just before it is served. A number: cut the line after so many bytes of it.
Fault = Callable[[str], "int | None"]


class Content(Protocol):
    """The bytes of a file, in pieces, so that a large one needs no memory."""

    @property
    def size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Bytes:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), _PIECE):
            yield self.data[start : start + _PIECE]


@dataclass(frozen=True)
class Large:
    """A file of a repeated piece."""

    size: int

    def pieces(self) -> Iterator[bytes]:
        piece = bytes(range(256)) * 256
        for start in range(0, self.size, _PIECE):
            yield piece[: self.size - start]


@dataclass
class FakePhone:
    """A phone's media index and files. Every change of a row makes a new generation, as on a phone."""

    serial: str = "R58M123ABC"
    state: str = "device"
    hardware: str = ""
    version: str = "1409:0d5a8a2e-6f6b-4c5e-9d3e-5b1f0e2a7c11"
    generation: int = 1000
    has_generation: bool = True
    connected: Callable[[], bool] = lambda: True
    volumes: dict[str, str] = field(default_factory=lambda: {"emulated;0": "mounted null"})
    files: dict[bytes, tuple[Content, int]] = field(default_factory=dict)
    before: Fault = lambda _: None
    refuses: Callable[[str], str] = lambda _: ""  # what a command fails with
    shows: int | None = None  # rows of an answer at most
    stop_server: Callable[[], None] = lambda: None  # as `adb kill-server` does
    index: sqlite3.Connection = field(init=False)
    lock: threading.RLock = field(default_factory=threading.RLock)
    services: list[str] = field(default_factory=list)
    shells: int = 0  # shell commands that were sent, of one service or several

    def __post_init__(self) -> None:
        self.hardware = self.hardware or self.serial
        self.index = sqlite3.connect(":memory:", check_same_thread=False)
        self.index.execute(f"CREATE TABLE files ({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})")

    def add(
        self, path: str | bytes, content: bytes | Content = b"photo", *, modified: int = MODIFIED, **columns: object
    ) -> int:
        """A file and its row; returns its number. A name without a folder goes to the camera's."""
        raw = os.fsencode(path) if isinstance(path, str) else path
        raw = raw if raw.startswith(b"/") else os.fsencode(CAMERA) + b"/" + raw
        stored = Bytes(content) if isinstance(content, bytes) else content
        folder, _, name = raw.rpartition(b"/")
        is_video = name.lower().endswith((b".mp4", b".mov"))
        with self.lock:
            self.generation += 1
            self.files[raw] = (stored, modified)
            row: dict[str, object] = {
                "_data": raw, "_display_name": name, "_size": stored.size, "date_modified": modified,
                "date_added": modified, "datetaken": None, "date_expires": None,
                "generation_added": self.generation, "generation_modified": self.generation,
                "media_type": 3 if is_video else 1, "mime_type": "video/mp4" if is_video else "image/jpeg",
                "is_trashed": 0, "is_pending": 0, "bucket_id": _bucket(folder),
                "bucket_display_name": folder.rpartition(b"/")[2], "volume_name": PRIMARY, **columns,
            }  # fmt: skip
            marks = ", ".join("?" * len(row))
            cursor = self.index.execute(f"INSERT INTO files ({', '.join(row)}) VALUES ({marks})", list(row.values()))
            return int(cursor.lastrowid or 0)

    def path(self, number: int) -> bytes:
        return bytes(self.index.execute("SELECT _data FROM files WHERE _id = ?", [number]).fetchone()[0])

    def update(self, number: int, **columns: object) -> None:
        with self.lock:
            self.generation += 1
            columns = {"generation_modified": self.generation, **columns}
            changes = ", ".join(f"{name} = ?" for name in columns)
            self.index.execute(f"UPDATE files SET {changes} WHERE _id = ?", [*columns.values(), number])

    def edit(self, number: int, content: bytes, modified: int) -> None:
        with self.lock:
            self.files[self.path(number)] = (Bytes(content), modified)
            self.update(number, _size=len(content), date_modified=modified)

    def delete(self, number: int) -> None:
        with self.lock:
            self.files.pop(self.path(number), None)
            self.generation += 1
            self.index.execute("DELETE FROM files WHERE _id = ?", [number])

    def trash(self, number: int, expires: int = MODIFIED + 30 * 86400) -> None:
        """What a gallery does on "move to trash": the row is flagged, and the file renamed where it is."""
        folder, _, name = self.path(number).rpartition(b"/")
        self._rename(number, folder + b"/.trashed-%d-" % expires + name, is_trashed=1, date_expires=expires)

    def untrash(self, number: int) -> None:
        folder, _, name = self.path(number).rpartition(b"/")
        self._rename(number, folder + b"/" + name.split(b"-", 2)[2], is_trashed=0, date_expires=None)

    def move(self, number: int, path: str, **columns: object) -> None:
        """Move a file, as an app does with its own trash folder; the row follows."""
        self._rename(number, os.fsencode(path), **columns)

    def _rename(self, number: int, path: bytes, **columns: object) -> None:
        with self.lock:
            self.files[path] = self.files.pop(self.path(number))
            self.update(number, _data=path, **columns)

    def close(self) -> None:
        self.index.close()


def _bucket(folder: bytes) -> int:
    value = 0
    for character in folder.decode("utf-8", "replace").lower():
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@contextmanager
def fake_adb(*phones: FakePhone) -> Iterator[tuple[str, int]]:
    """An adb server on a free port of this computer; yields its host and port. Skips the test without adbutils."""
    pytest.importorskip("adbutils")
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.phones = list(phones)
        for phone in phones:
            phone.stop_server = server.stop
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield "127.0.0.1", int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
    for phone in phones:
        phone.close()


class _Cut(Exception):
    """The line is cut here."""


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    phones: list[FakePhone]

    def stop(self) -> None:
        self.shutdown()
        self.socket.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is part of the tests."""


class _Handler(socketserver.BaseRequestHandler):
    request: socket.socket
    server: _Server
    budget: int | None = None

    def handle(self) -> None:
        phone: FakePhone | None = None
        try:
            while True:
                service = self._exactly(int(self._exactly(4), 16)).decode()
                if phone is not None:
                    return self._serve(phone, service)
                if service == "host:devices":
                    lines = "".join(f"{p.serial}\t{p.state}\n" for p in self._present())
                    return self._send(b"OKAY" + _block(lines.encode()))
                if service.startswith("host:tport:serial:"):
                    phone = self._ready(service.removeprefix("host:tport:serial:"))
                    if phone is None:
                        return None
                    self._send(b"OKAY" + struct.pack("<Q", 1))
                elif service.startswith("host-serial:") and service.endswith(":features"):
                    if self._ready(service.removeprefix("host-serial:").removesuffix(":features")) is not None:
                        self._send(b"OKAY" + _block(_FEATURES.encode()))
                    return None
                else:
                    return self._send(b"FAIL" + _block(b"unknown host service"))
        except (_Cut, ConnectionError, EOFError, ValueError):
            return None

    def _present(self) -> list[FakePhone]:
        return [phone for phone in self.server.phones if phone.connected()]

    def _ready(self, serial: str) -> FakePhone | None:
        phone = next((phone for phone in self._present() if phone.serial == serial), None)
        if phone is not None and phone.state == "device":
            return phone
        text = f"device '{serial}' not found"
        if phone is not None and phone.state == "unauthorized":
            text = (
                "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\nTry 'adb kill-server' if that "
                "seems wrong.\nOtherwise check for a confirmation dialog on your device."
            )
        elif phone is not None:
            text = f"device {phone.state}"
        self._send(b"FAIL" + _block(text.encode()))
        return None

    def _serve(self, phone: FakePhone, service: str) -> None:
        if service == "sync:":
            self._send(b"OKAY")
            while True:
                request, length = struct.unpack("<4sI", self._exactly(8))
                self._synchronise(phone, request, self._exactly(length))
        if service.startswith("shell,v2:"):
            phone.shells += 1
            self._send(b"OKAY")
            for words in _commands(service.removeprefix("shell,v2:")):
                command = shlex.join(words)
                if words[0] != "echo":
                    phone.services.append(command)
                    self.budget = phone.before(command)
                failure = phone.refuses(command)
                out, err = (b"", f"{failure}\n".encode()) if failure else _run(phone, words)
                for stream, content in ((1, out), (2, err)):
                    for start in range(0, len(content), 4096):
                        piece = content[start : start + 4096]
                        self._send(struct.pack("<BI", stream, len(piece)) + piece)
            self._send(struct.pack("<BIB", 3, 1, 0))
        else:
            self._send(b"FAIL" + _block(b"closed"))

    def _synchronise(self, phone: FakePhone, request: bytes, path: bytes) -> None:
        name = f"{request.decode()} {os.fsdecode(path)}"
        phone.services.append(name)
        self.budget = phone.before(name)
        stored = phone.files.get(path)
        if request == b"STA2":
            if stored is None:
                self._send(b"STA2" + struct.pack("<IQQIIIIQqqq", 2, *[0] * 10))
            else:
                content, modified = stored
                moments = (modified, modified, modified)
                self._send(b"STA2" + struct.pack("<IQQIIIIQqqq", 0, 5, 7, 0o100660, 1, 0, 0, content.size, *moments))
        elif request == b"RECV":
            if stored is None:
                text = b"open failed: No such file or directory"
                return self._send(b"FAIL" + struct.pack("<I", len(text)) + text)
            for piece in stored[0].pieces():
                self._send(b"DATA" + struct.pack("<I", len(piece)) + piece)
            self._send(b"DONE" + struct.pack("<I", 0))
        else:
            raise _Cut
        return None

    def _send(self, data: bytes) -> None:
        if self.budget is not None:
            data, missing = data[: self.budget], len(data) - self.budget
            self.budget -= len(data)
            self.request.sendall(data)
            if missing > 0:
                raise _Cut
        else:
            self.request.sendall(data)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.request.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


def _block(content: bytes) -> bytes:
    return b"%04x" % len(content) + content


def _commands(line: str) -> list[list[str]]:
    """The words of each command of a line that joins them by `&&`, as the phone's shell takes it."""
    commands: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word == "&&":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _run(phone: FakePhone, words: list[str]) -> tuple[bytes, bytes]:
    """Standard output and error of a command, as the phone prints them."""
    options = {words[i]: words[i + 1] for i in range(2, len(words) - 1, 1) if words[i].startswith("--")}
    extras = [words[i + 1] for i in range(len(words) - 1) if words[i] == "--extra"]
    if words[0] == "echo":
        return " ".join(words[1:]).encode() + b"\n", b""
    if words[:2] == ["getprop", "ro.serialno"]:
        return phone.hardware.encode() + b"\n", b""
    if words == ["sm", "list-volumes", "all"]:
        lines = [f"{name} {state}" for name, state in phone.volumes.items()]
        return "".join(f"{line}\n" for line in ["private mounted null", *lines]).encode(), b""
    if words[:2] == ["content", "call"]:
        return _call(phone, options["--method"])
    if words[:2] == ["content", "query"]:
        with phone.lock:
            return _query(phone, options, extras)
    return b"", f"/system/bin/sh: {words[0]}: inaccessible or not found\n".encode()


def _call(phone: FakePhone, method: str) -> tuple[bytes, bytes]:
    if method == "get_version":
        return f"Result: Bundle[{{android.intent.extra.TEXT={phone.version}}}]\n".encode(), b""
    if method == "get_generation" and phone.has_generation:
        return f"Result: Bundle[{{android.intent.extra.INDEX={phone.generation}}}]\n".encode(), b""
    return b"", f"Error while accessing provider:media\nUnsupportedOperationException: {method}\n".encode()


def _query(phone: FakePhone, options: dict[str, str], extras: list[str]) -> tuple[bytes, bytes]:
    columns = options["--projection"].split(":")
    for column in columns:
        found = _AGGREGATE.fullmatch(column)
        if (found[1] if found else column) not in _COLUMNS:
            return b"", b"Error while accessing provider:media\njava.lang.IllegalArgumentException: Invalid column\n"
    (volume,) = re.fullmatch(r"content://media/([^/]+)/file", options["--uri"]).groups()  # type: ignore[union-attr]
    conditions = [f"volume_name = '{volume}'"]
    for state in ("pending", "trashed"):
        if rf"android\:query-arg-match-{state}:i:1" not in extras:
            conditions.append(f"is_{state} = 0")
    conditions.append(f"({options.get('--where', '1')})")
    sql = f"SELECT {', '.join(columns)} FROM files WHERE {' AND '.join(conditions)}"
    try:
        rows = phone.index.execute(sql + (f" ORDER BY {options['--sort']}" if "--sort" in options else "")).fetchall()
    except sqlite3.Error as error:
        return b"", f"Error while accessing provider:media\nandroid.database.sqlite.SQLiteException: {error}\n".encode()
    if not rows:
        return b"No result found.\n", b""
    lines = (
        b"Row: %d " % at
        + b", ".join(name.encode() + b"=" + _shown(value) for name, value in zip(columns, row, strict=True))
        for at, row in enumerate(rows[: phone.shows])
    )
    return b"\n".join(lines) + b"\n", b""


def _shown(value: object) -> bytes:
    if value is None:
        return b"NULL"
    return value if isinstance(value, bytes) else str(value).encode()
