"""One instance of DuckDB for what a process opens: files are let go of, nothing leaks, an error spoils nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from engine import database as engine_database
from engine.database import connect, database

WRITES = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('INSERT INTO t VALUES (7)')"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "it's.duckdb"
    with connect(found) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
    yield found


def written_by_another_process(path: Path) -> bool:
    return subprocess.run([sys.executable, "-c", WRITES, path], capture_output=True, check=False).returncode == 0


def rows(path: Path) -> list[int]:
    with database(path, read_only=True) as con:
        return [x for (x,) in con.execute("SELECT x FROM t ORDER BY x").fetchall()]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_is_held_while_it_is_open_and_free_afterwards(path: Path, read_only: bool) -> None:
    with database() as around, database(path, read_only=read_only) as con:
        assert con.execute("SELECT x FROM t").fetchall() == [(1,)]
        assert not written_by_another_process(path)
        assert around.execute("SELECT 1").fetchall() == [(1,)]
    assert written_by_another_process(path)
    assert rows(path) == [1, 7]


def test_what_was_written_is_in_the_file_itself_when_it_is_left(path: Path) -> None:
    with database(path) as con:
        con.execute("INSERT INTO t VALUES (2)")
    assert not path.with_name(f"{path.name}.wal").exists()
    copy = path.with_name("copy.duckdb")
    copy.write_bytes(path.read_bytes())
    assert rows(copy) == [1, 2]


def test_readers_share_a_file_and_the_last_one_lets_go_of_it(path: Path) -> None:
    link = path.with_name("link.duckdb")
    link.symlink_to(path)
    with database(path, read_only=True) as outer:
        assert rows(path) == rows(link) == [1]
        assert outer.execute("SELECT x FROM t").fetchall() == [(1,)]
        assert not written_by_another_process(path)
    assert written_by_another_process(path)


def test_a_reader_cannot_write(path: Path) -> None:
    with pytest.raises(duckdb.Error, match="read-only"), database(path, read_only=True) as con:
        con.execute("INSERT INTO t VALUES (2)")
    assert rows(path) == [1]


def test_databases_in_memory_know_nothing_of_each_other_nor_of_files(path: Path) -> None:
    with database() as one, database() as two, database(path, read_only=True):
        one.execute("CREATE TABLE mine AS SELECT 1")
        one.execute("CREATE TEMP TABLE also_mine AS SELECT 1")
        for name in ("mine", "also_mine", "t"):
            with pytest.raises(duckdb.CatalogException):
                two.execute(f"FROM {name}")
    with database() as three, pytest.raises(duckdb.CatalogException):
        three.execute("FROM mine")


def test_an_error_in_a_query_leaves_no_file_open_and_the_next_one_works(path: Path) -> None:
    with pytest.raises(duckdb.ConversionException), database(path) as con:
        con.execute("INSERT INTO t SELECT 'no number'")
    assert written_by_another_process(path)
    assert rows(path) == [1, 7]


def test_a_disk_that_is_full_spoils_nothing_that_is_opened_later(path: Path) -> None:
    other = path.with_name("other.duckdb")
    other.write_bytes(path.read_bytes())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(duckdb.Error, match="File too large"), database(path) as con:
            con.execute("INSERT INTO t SELECT hash(range) % 2000000000 FROM range(1000000)")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert rows(other) == rows(path) == [1]


def test_a_file_that_is_none_of_duckdbs_spoils_nothing(path: Path) -> None:
    other = path.with_name("other.duckdb")
    other.write_bytes(b"no database" * 1000)
    with database() as before:
        before.execute("CREATE TABLE kept AS SELECT 1")
        with pytest.raises(duckdb.Error, match="not a valid DuckDB"), database(other):
            pass
        assert before.execute("FROM kept").fetchall() == [(1,)]
    assert rows(path) == [1]


def test_an_interruption_at_any_moment_of_opening_leaves_the_file_free(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        """Ctrl-C right after a statement of this kind was carried out; instead of it, where it is to close."""

        def __init__(self, con: duckdb.DuckDBPyConnection, after: str) -> None:
            self.con, self.after = con, after

        def execute(self, statement: str) -> None:
            comes = statement.startswith(self.after)
            if not comes or self.after != "DETACH":
                self.con.execute(statement)
            if comes:
                self.after = "never again"
                raise KeyboardInterrupt

        def cursor(self) -> object:
            return Interrupted(self.con.cursor(), self.after) if self.after == "USE" else self.con.cursor()

        def close(self) -> None:
            self.con.close()

    for after in ("ATTACH", "USE", "DETACH"):
        with monkeypatch.context() as patched:
            patched.setattr(engine_database, "_shared", engine_database._Instance(Interrupted(connect(), after), path))  # type: ignore[arg-type]
            patched.setattr(engine_database, "_open", set())
            with pytest.raises(KeyboardInterrupt), database(path, read_only=True):
                pass
            assert written_by_another_process(path), after


def test_a_forked_process_makes_an_instance_of_its_own(path: Path) -> None:
    with database(path, read_only=True):
        ours = engine_database._shared
        child = os.fork()
        if not child:
            try:
                with database() as con:
                    sound = con.execute("SELECT sum(x) FROM range(100000) AS r(x)").fetchall() == [(4999950000,)]
                os._exit(0 if sound and engine_database._shared not in (None, ours) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_to_spill_there_is_a_place_of_ours_and_none_in_the_working_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_database, "_shared", None)
    spill = "SELECT current_setting('temp_directory')"
    with database(path) as con:
        assert con.execute(spill).fetchall() == [(f"{path}.tmp",)]
    with database(spill=path.with_name("run")) as con:
        assert con.execute(spill).fetchall() == [(str(path.with_name("run")),)]
    with database(path) as con:
        assert con.execute(spill).fetchall() == [(str(path.with_name("run")),)]
    monkeypatch.setattr(engine_database, "_shared", None)
    with database() as con:
        assert con.execute(spill).fetchall() == [("",)]
    with database(path) as con:
        assert con.execute(spill).fetchall() == [(f"{path}.tmp",)], "what is large in a file has somewhere to go"
    monkeypatch.setattr(engine_database, "_shared", None)
    with database() as con, database(spill=path.with_name("elsewhere")) as told:
        assert told.execute(spill).fetchall() == [(str(path.with_name("elsewhere")),)]
        assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("error", [duckdb.FatalException("the database has been invalidated"), KeyboardInterrupt()])
def test_after_an_error_that_may_have_spoiled_it_another_instance_is_made(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), database(path):
        spoiled = engine_database._shared
        raise error
    assert rows(path) == [1]
    assert engine_database._shared is not spoiled


def test_what_another_thread_opens_shares_no_fate_with_what_is_open_here(path: Path) -> None:
    with database() as con:
        ours = engine_database._shared
        seen: list[object] = []

        def work() -> None:
            with pytest.raises(duckdb.FatalException), database(path, read_only=True) as other:
                seen.append(other.execute("SELECT x FROM t").fetchall())
                raise duckdb.FatalException("its database has been invalidated")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [[(1,)]] and engine_database._shared is ours
        assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_memory_is_given_back_when_nobody_has_a_connection(path: Path) -> None:
    with database(path, read_only=True) as con:
        engine_database.let_go()
        assert engine_database._shared is not None
        assert con.execute("SELECT x FROM t").fetchall() == [(1,)]
    engine_database.let_go()
    assert engine_database._shared is None
    assert rows(path) == [1]
