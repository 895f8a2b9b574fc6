"""A database that was killed, damaged or out of room is said and kept, and what was committed is there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from state.db import reading, writing
from state.errors import StateCorrupt, StateError, StateUnwritable
from state.home import Home
from state.journal import Record, append
from state.partition import Partition
from tests.state.helpers import finish, observe, observed, partition_in, process


def test_killed_in_a_transaction_nothing_of_it_is_there(home: Home, partition: Partition) -> None:
    observe(partition, 1)
    code = """
import os, signal, sys
from pathlib import Path
from state.db import writing
from state.home import Home
from state.partition import by_name
with writing(by_name(Home(Path(sys.argv[1])), sys.argv[2])) as con:
    con.execute("DELETE FROM observed")
    con.execute("INSERT INTO detached SELECT i::VARCHAR, 'x', TIMESTAMP '2026-01-01' FROM range(200000) t(i)")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert finish(process(code, home.root, partition.name))[0] == -9
    assert observed(partition) == 1
    observe(partition, 2)
    assert observed(partition) == 2


def test_killed_after_a_commit_all_of_it_is_there(partition: Partition) -> None:
    observe(partition, 1)
    code = """
import os, signal, sys
from pathlib import Path
from engine.database import connect
con = connect(Path(sys.argv[1]))
con.execute("UPDATE observed SET albums = ['x']")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert finish(process(code, partition.database))[0] == -9
    with reading(partition) as con:
        assert con.execute("SELECT albums FROM observed").fetchall() == [(["x"],)]


def test_killed_while_it_is_made_the_database_is_made_again(home: Home, partition: Partition) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from state.duck import built
with built(Path(sys.argv[1])) as con:
    con.execute("CREATE TABLE half (x INTEGER)")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert finish(process(code, partition.database))[0] == -9
    assert not partition.database.exists()
    assert observed(partition) == 0
    assert not list(partition.path.glob("*.new*"))


def damage_empty(data: bytes) -> bytes:
    return b""


def damage_truncated(data: bytes) -> bytes:
    return data[:6000]


def damage_header(data: bytes) -> bytes:
    return b"\x07" * 4096 + data[4096:]


def damage_blocks(data: bytes) -> bytes:
    return data[:12288] + b"\x07" * (len(data) - 12288)


def damage_text(data: bytes) -> bytes:
    return b"hello"


@pytest.mark.parametrize("damage", [damage_empty, damage_truncated, damage_header, damage_blocks, damage_text])
def test_a_damaged_database_is_said_and_kept(partition: Partition, damage: object) -> None:
    assert callable(damage)
    observe(partition, *range(100))
    bad = damage(partition.database.read_bytes())
    partition.database.write_bytes(bad)
    with pytest.raises(StateCorrupt, match=r"state\.duckdb.*Move it out.*exclusions come back.*first run"):
        observed(partition)
    with pytest.raises(StateCorrupt):
        observe(partition, 1)
    assert partition.database.read_bytes() == bad


def test_another_programs_database_is_refused(partition: Partition) -> None:
    from engine.database import connect

    connect(partition.database).close()
    with pytest.raises(StateCorrupt, match="not a database of this program"):
        observed(partition)


def test_garbage_in_the_write_ahead_log_costs_nothing_that_was_closed(partition: Partition) -> None:
    observe(partition, 1)
    log = partition.database.with_name("state.duckdb.wal")
    log.write_bytes(b"\x07" * 5000)
    assert observed(partition) == 1
    observe(partition, 2)
    assert observed(partition) == 2


def test_a_log_left_behind_is_not_replayed_into_a_new_database(partition: Partition) -> None:
    log = partition.database.with_name("state.duckdb.wal")
    log.write_bytes(b"old")
    assert observed(partition) == 0
    assert log.with_name("state.duckdb.wal.damaged-1").read_bytes() == b"old"


def test_a_full_disk_is_said_and_what_was_saved_before_stands(home: Home, partition: Partition) -> None:
    observe(partition, 1)
    code = """
import resource, signal, sys
from pathlib import Path
from state.db import reading, writing
from state.errors import StateUnwritable
from state.home import Home
from state.partition import by_name
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
partition = by_name(Home(Path(sys.argv[1])), sys.argv[2])
limit = partition.database.stat().st_size + 4096
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with writing(partition) as con:
        con.execute("INSERT INTO detached SELECT md5(i::VARCHAR), 'x', TIMESTAMP '2026-01-01' FROM range(300000) t(i)")
except StateUnwritable as error:
    print(error)
"""
    status, out = finish(process(code, home.root, partition.name))
    assert status == 0
    assert "state.duckdb cannot be written" in out and "stands" in out
    assert observed(partition) == 1
    observe(partition, 2)
    assert observed(partition) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tiny file system needs root")
def test_on_a_really_full_file_system_nothing_is_half_written(tmp_path: Path) -> None:
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tiny)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        partition = partition_in(Home(tiny))
        observe(partition, 1)
        append(partition, [Record(at="x", decision="approve")])
        free = os.statvfs(tiny)
        (tiny / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize))
        before = partition.journal.read_bytes()
        with pytest.raises(StateUnwritable, match="No space left"):
            append(partition, [Record(at="x", decision="approve", details={"x": "y" * 10_000})] * 20)
        assert partition.journal.read_bytes() == before
        with pytest.raises(StateUnwritable, match="No space left"), writing(partition) as con:
            con.execute("INSERT INTO detached SELECT md5(i::VARCHAR), 'x', now()::TIMESTAMP FROM range(300000) t(i)")
        (tiny / "filler").unlink()
        assert observed(partition) == 1
    finally:
        subprocess.run(["umount", str(tiny)], check=True)


def test_after_an_error_that_ended_everything_open_a_file_is_not_called_damaged(partition: Partition) -> None:
    import duckdb

    observe(partition, 1)
    with pytest.raises(StateError, match="Run it again") as error, reading(partition):
        raise duckdb.FatalException("FATAL Error: the database has been invalidated because of a previous fatal error.")
    assert not isinstance(error.value, StateCorrupt)
    assert observed(partition) == 1


def test_a_new_file_whose_rows_are_in_its_log_alone_does_not_take_the_name(partition: Partition) -> None:
    from state.duck import built

    observe(partition, 1)
    with pytest.raises(StateUnwritable, match=r"state\.duckdb cannot be written"), built(partition.database) as con:
        con.execute("CREATE TABLE lost (x INTEGER)")
        con.execute("CHECKPOINT")
        log = partition.database.with_name(".state.duckdb.new.wal")
        log.unlink(missing_ok=True)
        log.mkdir()  # as if it could not be written back
    assert observed(partition) == 1
