"""The database is one transaction at a time, migrated once, and rebuilt beside its journal."""

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
from state.errors import StateTooNew, StateUnreadable
from state.exclusions import add, list_exclusions, remove
from state.home import Home
from state.journal import Record, append, rfc3339
from state.partition import Partition
from state.runs import HISTORY_LOST, get_fact
from tests.state.helpers import NOW, OTHER_USER, ROOT, checksum, finish, observe, observed, partition_in, process

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
    assert wrote.wait(60)
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
