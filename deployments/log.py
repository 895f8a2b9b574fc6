"""The log of `up`: one file with what it and its processes said, and the one before it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from state.files import ensure_folder, writing_to

_LARGEST = 5_000_000  # bytes


@dataclass(slots=True)
class Log:
    """Lines of several threads, each with its moment (UTC) and who said it."""

    path: Path
    largest: int = _LARGEST
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, who: str, text: str) -> None:
        """Add a line. Raises StateUnwritable."""
        data = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {who:<6} {text}\n".encode(errors="replace")
        with self._lock, writing_to(self.path):
            ensure_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, data)
                full = os.fstat(descriptor).st_size > self.largest
            finally:
                os.close(descriptor)
            if full:
                self.path.replace(older(self.path))


def older(path: Path) -> Path:
    """Where the log before this one is."""
    return path.with_name(f"{path.name}.1")


def last(path: Path, count: int) -> list[str]:
    """The last lines of the log, the oldest first."""
    lines: list[str] = []
    for file in (older(path), path):
        if file.exists():
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-count:] if count else []


def followed(path: Path, count: int, wait: Callable[[], bool]) -> Iterator[str]:
    """The last lines, and each that is added, through the change to a new file, until ``wait`` says True."""
    file = path.open("rb") if path.exists() else None
    before = older(path).read_bytes() if older(path).exists() else b""
    *known, rest = (before + (b"" if file is None else file.read())).split(b"\n")
    yield from (line.decode(errors="replace") for line in (known[-count:] if count else []))
    try:
        while True:
            # Looked at before it is read: what was written up to the change is read before the change is followed.
            there = _inode(path)
            fresh = there is not None and (file is None or os.fstat(file.fileno()).st_ino != there)
            data = b"" if file is None else file.read()
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
            if fresh:
                if file is not None:
                    file.close()
                file = path.open("rb")
            elif not data and wait():
                return
    finally:
        if file is not None:
            file.close()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
