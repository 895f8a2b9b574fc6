"""Where state lives on this computer, and the installation's short id. What is in a partition lives in partition.py."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from state.errors import StateCorrupt
from state.files import read_bytes, write_atomic
from state.lock import file_lock


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of everything that is remembered (design, Decisions: where state lives)."""

    root: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str]) -> Home:
        """DELETION_SYNC_HOME, else the platform's data folder. Nothing is made yet."""
        if chosen := environ.get("DELETION_SYNC_HOME", "").strip():
            return cls(Path(chosen).expanduser().absolute())
        user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        if sys.platform == "darwin":
            return cls(user / "Library" / "Application Support" / "deletion-sync")
        data = Path(environ.get("XDG_DATA_HOME", ""))
        # A relative XDG_DATA_HOME is to be ignored, says the XDG base directory specification.
        return cls((data if data.is_absolute() else user / ".local" / "share") / "deletion-sync")

    @property
    def partitions(self) -> Path:
        return self.root / "partitions"

    @property
    def hash_cache(self) -> Path:
        return self.root / "hash-cache.duckdb"

    @property
    def identities(self) -> Path:
        return self.root / "identities.json"

    def device_id(self) -> str:
        """Eight hexadecimal digits, made once per installation; two processes that ask at once get the same ones."""
        path = self.root / "device-id"
        with file_lock(self.root / "device-id.lock", wait_seconds=10):
            kept = read_bytes(path)
            if kept is None:
                made = secrets.token_hex(4)
                write_atomic(path, f"{made}\n".encode())
                return made
        text = kept.decode("ascii", "replace").strip()
        if not re.fullmatch(r"[0-9a-f]{8}", text):
            raise StateCorrupt(
                f"{path} does not hold a device id.", "Delete it; a new id is made and past runs stay readable."
            )
        return text
