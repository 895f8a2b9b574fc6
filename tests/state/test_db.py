"""The database is one transaction at a time, and a damaged one is said and never deleted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.errors import PartitionBusy
from state import db, duck
from state.db import migrate, reading, writing
from state.errors import StateCorrupt, StateError, StateTooNew, StateUnreadable, StateUnwritable
from state.exclusions import add, list_exclusions, remove
from state.home import Home
from state.journal import Record, append, rfc3339
from state.partition import Partition
from state.runs import HISTORY_LOST, get_fact
from tests.state.helpers import NOW, OTHER_USER, ROOT, checksum, finish, partition_in, process

TABLES = {
    "meta": "key value",
    "observed": "checksum albums first_observed_at",
    "confirmed_deleted": "checksum confirmed_at cause",
    "edit_anchors": "library_id local_id checksum",
    "retired": "checksum library_id local_id run_id",
    "exclusions": "checksum excluded_at reason file_name",
    "detached": "checksum library_id detached_at",
    "file_only": "checksum",
    "local_index": "library_id local_id part checksum file_name size modified_ns file_identity captured_at albums "
    "in_trash",
    "accepted_losses": "library_id local_id",
    "libraries": "library_id kind label config added_at token enumerated_at snapshot",
    "runs": "run_id flow way dry_run started_at duration_ms outcome rail local_count server_count matched_count "
    "trashed_count plan_digest",
}


COLUMNS = """
SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY table_name, column_name
"""


def observe(partition: Partition, *numbers: int) -> None:
    with writing(partition) as con:
        con.executemany("INSERT INTO observed VALUES (?, [], ?)", [[checksum(n), NOW] for n in numbers])


def observed(partition: Partition) -> int:
    with reading(partition) as con:
        row = con.execute("SELECT count(*) FROM observed").fetchone()
    assert row is not None
    return int(row[0])


def test_lesson_50_the_names_of_tables_and_columns_are_frozen(partition: Partition) -> None:
    with reading(partition) as con:
        rows = con.execute(
            "SELECT table_name, string_agg(column_name, ' ' ORDER BY column_index) FROM duckdb_columns()"
            " WHERE NOT internal GROUP BY 1"
        ).fetchall()
        assert con.execute("SELECT * FROM meta").fetchall() == [("schema_version", "2")]
    assert dict(rows) == TABLES


def test_what_is_committed_is_there_and_what_failed_is_not(partition: Partition) -> None:
    observe(partition, 1)
    with pytest.raises(ZeroDivisionError), writing(partition) as con:
        con.execute("DELETE FROM observed")
        _ = 1 / 0
    assert observed(partition) == 1
    assert partition.database.stat().st_mode & 0o777 == 0o600
    assert not list(partition.path.glob("*.wal"))


def test_a_reader_cannot_write(partition: Partition) -> None:
    import duckdb

    with pytest.raises(duckdb.InvalidInputException, match="read-only"), reading(partition) as con:
        con.execute("DELETE FROM observed")


def test_times_are_utc_whatever_the_zone_of_the_computer(home: Home, partition: Partition) -> None:
    code = """
import sys
from pathlib import Path
from state.db import reading
from state.home import Home
from state.partition import by_name
with reading(by_name(Home(Path(sys.argv[1])), sys.argv[2])) as con:
    print(con.execute("SELECT '2026-01-01 12:00:00+00'::TIMESTAMPTZ::TIMESTAMP::VARCHAR").fetchone()[0])
"""
    environment = {**os.environ, "TZ": "Pacific/Auckland"}
    command = [sys.executable, "-c", code, str(home.root), partition.name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2026-01-01 12:00:00\n"


def test_readers_read_together_and_a_writer_waits_for_them(partition: Partition) -> None:
    observe(partition, 1)
    wrote = threading.Event()

    def write() -> None:
        observe(partition, 2)
        wrote.set()

    with reading(partition), reading(partition):
        writer = threading.Thread(target=write)
        writer.start()
        assert not wrote.wait(0.2)
    assert wrote.wait(20)
    writer.join()
    assert observed(partition) == 2


HOLD = """
import sys
from pathlib import Path
from engine.database import connect
con = connect(Path(sys.argv[1]))
print("open", flush=True)
input()
"""


def test_a_file_that_another_program_has_open_is_waited_for_then_said(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(partition, 1)
    child = process(HOLD, partition.database)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    monkeypatch.setattr(duck, "WAIT_SECONDS", 0.2)
    with pytest.raises(PartitionBusy, match="another program"):
        observed(partition)
    child.kill()
    finish(child)
    assert observed(partition) == 1


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


def test_a_newer_database_is_left_alone(partition: Partition) -> None:
    with writing(partition) as con:
        con.execute("UPDATE meta SET value = '99'")
    for use in (reading, writing):
        with pytest.raises(StateTooNew, match="Update deletion-sync"), use(partition):
            pass


def test_an_older_database_is_migrated_once_and_keeps_its_rows(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(partition, 1)
    now = db.SCHEMA_VERSION
    steps = {
        now: "ALTER TABLE observed ADD COLUMN one INTEGER DEFAULT 1",
        now + 1: "ALTER TABLE observed ADD COLUMN two INTEGER DEFAULT 2",
    }
    monkeypatch.setattr(db, "SCHEMA_VERSION", now + 2)
    monkeypatch.setattr(db, "MIGRATIONS", steps)
    for _ in range(2):
        with reading(partition) as con:
            assert con.execute("SELECT one, two FROM observed").fetchall() == [(1, 2)]
            assert get_fact(con, "schema_version") == str(now + 2)


def test_a_database_of_the_first_version_becomes_what_a_new_one_is(home: Home, partition: Partition) -> None:
    partition.path.mkdir(parents=True, exist_ok=True)
    first = Path(__file__).with_name("schema-1.sql").read_text(encoding="utf-8")
    with duck.built(partition.database) as con, duck.transaction(con):
        con.execute(first)
        con.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        con.execute(
            "INSERT INTO local_index VALUES ('lib', 'a', 'primary', ?, 'a.jpg', 1, 1, '', NULL, ['x'])", [checksum(1)]
        )
        con.execute("INSERT INTO libraries VALUES ('lib', 'folder', 'lib', '{}', ?, 'token', ?)", [NOW, NOW])
    with writing(partition) as con:
        assert con.execute("SELECT checksum, albums, in_trash FROM local_index").fetchall() == [
            (checksum(1), ["x"], False)
        ]
        migrated = con.execute(COLUMNS).fetchall()
    with reading(partition_in(home, OTHER_USER)) as con:
        assert migrated == con.execute(COLUMNS).fetchall()


def test_a_migration_that_fails_changes_nothing(partition: Partition) -> None:
    import duckdb

    observe(partition, 1)
    with pytest.raises(duckdb.CatalogException), writing(partition) as con:
        migrate(
            con, 1, 3, {1: "ALTER TABLE observed ADD COLUMN one INTEGER", 2: "ALTER TABLE nowhere ADD COLUMN x INTEGER"}
        )
    with reading(partition) as con:
        assert get_fact(con, "schema_version") == str(db.SCHEMA_VERSION)


def test_a_rebuilt_database_has_the_exclusions_of_the_journal_back(partition: Partition) -> None:
    add(partition, [checksum(1), checksum(2)], "mine", NOW, file_names={checksum(1): "a.jpg"})
    remove(partition, [checksum(2)], NOW)
    append(partition, [Record(at=rfc3339(NOW), run_id="r", status="trashed", asset_id="a")])
    before = list_exclusions(partition)
    partition.database.rename(partition.path / "old.duckdb")
    assert list_exclusions(partition) == before
    assert [e.checksum for e in before] == [checksum(1)]
    with reading(partition) as con:
        assert get_fact(con, HISTORY_LOST) is not None


def test_lesson_48_no_database_is_rebuilt_beside_a_journal_that_cannot_be_read(partition: Partition) -> None:
    partition.journal.mkdir()  # the exclusions in it would be lost without a word
    with pytest.raises(StateUnreadable):
        list_exclusions(partition)
    assert not partition.database.exists()


def test_a_first_database_beside_decisions_only_is_not_a_rebuilt_one(partition: Partition) -> None:
    append(partition, [Record(at=rfc3339(NOW), decision="settings", details={})])
    with reading(partition) as con:
        assert get_fact(con, HISTORY_LOST) is None


def test_lesson_47_accounts_at_one_address_share_no_row(home: Home, partition: Partition) -> None:
    observe(partition, 1)
    add(partition, [checksum(1)], "", NOW)
    other = partition_in(home, OTHER_USER)
    assert observed(other) == 0
    assert list_exclusions(other) == []
    assert not other.journal.exists()


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
