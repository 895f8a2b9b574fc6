"""Real folders and files for the tests of local libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from library.folder import FolderLibrary
from library.identity import register_folder
from library.protocol import Enumeration

REPOSITORY = Path(__file__).resolve().parents[2]
MODIFIED_NS = 1_714_564_800_123_456_789  # 2024-05-01 12:00:00 UTC


def put(root: Path, *names: str, content: bytes | None = None) -> None:
    """Write files below ``root``, each with its own content unless one is given, and a fixed modification time."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() if content is None else content)
        os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))


def library_of(root: Path, library_id: str = "L") -> FolderLibrary:
    """A folder, registered and opened."""
    return FolderLibrary(library_id, "Photos", register_folder(root))


def parts(listing: Enumeration) -> list[tuple[str, str, str]]:
    """(local id, part, file name) of each row, in order."""
    rows: list[dict[str, Any]] = listing.table.to_pylist()
    return [(row["local_id"], row["part"], row["file_name"]) for row in rows]


def ids(listing: Enumeration) -> list[str]:
    """The local id of each row, in order."""
    return [row[0] for row in parts(listing)]


def run_python(code: str, *arguments: object, prefix: Sequence[str] = ()) -> str:
    """The standard output of a Python program that can import the repository; fails the test when it fails."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_own_mounts(code: str, *arguments: object) -> str:
    """``run_python`` in a mount namespace of its own, as root there; skips where the system does not allow it."""
    for prefix in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        try:
            probe = subprocess.run(
                [*prefix, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False, timeout=60
            )
        except FileNotFoundError:
            break
        if probe.returncode == 0:
            return run_python(code, *arguments, prefix=prefix)
    pytest.skip("this system allows no mounts to a test")


def trashed_ids(listing: Enumeration) -> frozenset[str]:
    """The local ids that the listing says lie in the platform's trash."""
    return frozenset(row["local_id"] for row in listing.table.to_pylist() if row["in_trash"])
