"""Small files are whole or not there, private, and the installation has one id."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from state.errors import StateCorrupt, StateUnreadable, StateUnwritable
from state.files import ensure_folder, read_bytes, write_atomic, writing_to
from state.home import Home
from tests.state.helpers import ROOT, finish, process


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_0600_in_folders_of_0700(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    write_atomic(path, b"{}")
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    write_atomic(path, b"{1}")
    assert (mode(path), path.read_bytes()) == (0o600, b"{1}")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomic(path, b"old")
    code = """
import resource, signal, sys
from pathlib import Path
from state.errors import StateUnwritable
from state.files import write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"x" * 100_000)
except StateUnwritable as error:
    print(error)
"""
    status, out = finish(process(code, path))
    assert (status, path.read_bytes(), list(tmp_path.iterdir())) == (0, b"old", [path])
    assert str(path) in out and "size limit" in out


def test_a_full_disk_is_said_with_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(StateUnwritable, match=r"No space left on device.*Free some space"),
        writing_to(tmp_path / "x"),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"x")


def test_a_folder_where_a_file_stands_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnwritable, match="cannot be written"):
        ensure_folder(tmp_path / "file" / "below")


def test_an_unreadable_file_is_not_an_absent_one(tmp_path: Path) -> None:
    assert read_bytes(tmp_path / "absent") is None
    with pytest.raises(StateUnreadable, match="Is a directory"):
        read_bytes(tmp_path)


def test_home_is_the_chosen_folder_else_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Home.locate({"DELETION_SYNC_HOME": str(tmp_path), "HOME": "/h"}).root == tmp_path
    monkeypatch.setattr(sys, "platform", "linux")
    assert Home.locate({"HOME": "/h"}).root == Path("/h/.local/share/deletion-sync")
    assert Home.locate({"HOME": "/h", "XDG_DATA_HOME": "/d", "DELETION_SYNC_HOME": ""}).root == Path("/d/deletion-sync")
    assert Home.locate({"HOME": "/h", "XDG_DATA_HOME": "relative"}).root == Path("/h/.local/share/deletion-sync")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Home.locate({"HOME": "/h"}).root == Path("/h/Library/Application Support/deletion-sync")


def test_the_device_id_is_made_once(home: Home) -> None:
    made = home.device_id()
    assert len(made) == 8
    assert Home(home.root).device_id() == made


def test_two_processes_that_ask_at_once_get_the_same_device_id(home: Home) -> None:
    code = """
import sys
from pathlib import Path
from state.home import Home
input()
print(Home(Path(sys.argv[1])).device_id())
"""
    children = [process(code, home.root) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert len({finish(child)[1] for child in children} | {f"{home.device_id()}\n"}) == 1


def test_a_damaged_device_id_is_said_and_kept(home: Home) -> None:
    write_atomic(home.root / "device-id", b"../../x")
    with pytest.raises(StateCorrupt, match="Delete it"):
        home.device_id()
    assert (home.root / "device-id").read_bytes() == b"../../x"


def test_importing_the_small_parts_of_the_state_loads_no_duckdb_and_no_pyarrow() -> None:
    code = """
import sys
import state.home, state.partition, state.credentials, state.identity, state.journal, state.settings_file
import state.db, state.exclusions
assert not {'duckdb', 'pyarrow', 'prefect', 'httpx'} & set(sys.modules), sorted(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
