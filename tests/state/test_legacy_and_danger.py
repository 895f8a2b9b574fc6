"""An earlier client's files are read in once and whole; what forgets something forgets all of it and no more."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.errors import PartitionBusy, PartlyDone, SettingsError, UsageError
from engine.settings import Settings
from state import hash_cache
from state.danger import RESET_TABLES, clear_journal, reset_index, sign_out
from state.db import reading, writing
from state.errors import StateCorrupt
from state.exclusions import add, list_exclusions
from state.files import write_atomic
from state.home import Home
from state.identity import Identity, cached, remember
from state.journal import append, decision, read
from state.legacy import CONFIRMED_KEY, Imported, export_state, import_legacy, import_state
from state.lock import partition_lock
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, FIRST_DRY_RUN, HISTORY_LOST, get_fact, set_fact
from state.settings_file import load, save
from tests.state.helpers import NOW, OTHER_USER, URL, USER, checksum, credentials, partition_in
from tests.state.test_hash_cache import hashed, row

ONE, TWO, THREE = checksum(1), checksum(2), checksum(3)
LATER = NOW + timedelta(days=3)


def rows(partition: Partition, query: str) -> list[Any]:
    with reading(partition) as con:
        return con.execute(query).fetchall()


def fact(partition: Partition, key: str) -> str | None:
    with reading(partition) as con:
        return get_fact(con, key)


def put(folder: Path, name: str, document: object) -> None:
    write_atomic(folder / name, document if isinstance(document, bytes) else json.dumps(document).encode())


def fill(partition: Partition) -> None:
    """One row in every table that remembers something, and the facts of a partition in use."""
    with writing(partition) as con:
        con.execute("INSERT INTO observed VALUES (?, ['x'], ?)", [ONE, NOW])
        con.execute("INSERT INTO confirmed_deleted VALUES (?, ?, 'deleted')", [ONE, NOW])
        con.execute("INSERT INTO edit_anchors VALUES ('lib', 'a', ?)", [ONE])
        con.execute("INSERT INTO retired VALUES (?, 'lib', 'a', 'run')", [ONE])
        con.execute("INSERT INTO detached VALUES (?, 'lib', ?)", [ONE, NOW])
        con.execute(
            "INSERT INTO local_index (library_id, local_id, part, checksum, file_name) "
            "VALUES ('lib', 'a', 'primary', ?, 'a.jpg')",
            [ONE],
        )
        con.execute("INSERT INTO libraries VALUES ('lib', 'folder', 'lib', '{}', ?, 'token', ?, 1)", [NOW, NOW])
        set_fact(con, FIRST_DRY_RUN, "x")
        set_fact(con, FIRST_DELETE_CONFIRMED, "x")
    add(partition, [TWO], "mine", NOW)


@pytest.mark.parametrize(
    "document",
    [[ONE, TWO], {ONE: [], TWO: []}, {"entries": [ONE, TWO]}, {"entries": {ONE: [], TWO: []}}],
)
def test_the_plain_and_the_tagged_format_are_both_read(partition: Partition, document: object) -> None:
    put(partition.path, "ever-seen.json", document)
    assert import_legacy(partition, NOW) == Imported(observed=2)
    assert rows(partition, "SELECT checksum, albums FROM observed ORDER BY 1") == sorted([(ONE, []), (TWO, [])])


def test_album_tags_are_read(partition: Partition) -> None:
    put(partition.path, "ever-seen.json", {ONE: ["holiday", "2024"]})
    import_legacy(partition, NOW)
    assert rows(partition, "SELECT albums FROM observed") == [(["holiday", "2024"],)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_lesson_50_confirmed_dates_are_read_under_the_name_they_were_written(
    partition: Partition, wrapped: bool
) -> None:
    dates = {ONE: "2026-01-02T03:04:05Z", TWO: "2026-01-02T03:04:05.250+02:00", THREE: "2026-01-02"}
    put(partition.path, "confirmed-deleted.json", {CONFIRMED_KEY: dates} if wrapped else dates)
    assert CONFIRMED_KEY == "confirmedFromPhotoKit"
    assert import_legacy(partition, NOW) == Imported(confirmed=3)
    found = dict(rows(partition, "SELECT checksum, confirmed_at::VARCHAR FROM confirmed_deleted"))
    assert found == {ONE: "2026-01-02 03:04:05", TWO: "2026-01-02 01:04:05.25", THREE: "2026-01-02 00:00:00"}


@pytest.mark.parametrize(
    "document", [[ONE], [{"checksum": ONE, "fileName": "a.jpg"}], {"exclusions": [ONE]}, {ONE: "2026-01-02T03:04:05Z"}]
)
def test_exclusions_are_read_in_every_form(partition: Partition, document: object) -> None:
    put(partition.path, "exclusions.json", document)
    assert import_legacy(partition, NOW) == Imported(excluded=1)
    assert [e.checksum for e in list_exclusions(partition)] == [ONE]
    assert [r.decision for r in read(partition).records] == ["exclude_add"]


def test_files_are_imported_once_and_kept_under_another_name(partition: Partition) -> None:
    put(partition.path, "ever-seen.json", [ONE])
    import_legacy(partition, NOW)
    assert (partition.path / "ever-seen.json.imported").read_bytes() == json.dumps([ONE]).encode()
    assert not (partition.path / "ever-seen.json").exists()
    put(partition.path, "ever-seen.json", [ONE, TWO])
    assert import_legacy(partition, NOW) is None
    assert rows(partition, "SELECT checksum FROM observed") == [(ONE,)]


def test_an_import_sends_the_next_runs_candidates_to_review(partition: Partition) -> None:
    put(partition.path, "ever-seen.json", [ONE])
    import_legacy(partition, NOW)
    assert fact(partition, HISTORY_LOST) is not None
    assert fact(partition, FIRST_DRY_RUN) is None


def test_a_partition_with_rows_of_its_own_imports_nothing(partition: Partition) -> None:
    fill(partition)
    put(partition.path, "ever-seen.json", [THREE])
    found = import_legacy(partition, NOW)
    assert found is not None and "left alone" in found.notes[0]
    assert rows(partition, "SELECT checksum FROM observed") == [(ONE,)]
    assert (partition.path / "ever-seen.json").exists()


@pytest.mark.parametrize(
    ("name", "document", "told"),
    [
        ("ever-seen.json", b'[\n"' + ONE.encode() + b'",\n]', r"ever-seen\.json.*line 3"),
        ("ever-seen.json", b"[\n\xff]", "line 2"),
        ("ever-seen.json", [ONE, "x"], "Entry 2"),
        ("ever-seen.json", {ONE: "album"}, "Entry 1"),
        ("ever-seen.json", 5, "neither a list"),
        ("confirmed-deleted.json", {ONE: "yesterday"}, "ISO 8601"),
        ("confirmed-deleted.json", {ONE: 5}, "ISO 8601"),
        ("confirmed-deleted.json", [ONE], "no object"),
        ("exclusions.json", [{"fileName": "x"}], "Entry 1"),
    ],
)
def test_a_damaged_file_is_said_and_nothing_is_imported_by_halves(
    partition: Partition, name: str, document: object, told: str
) -> None:
    for good in ("ever-seen.json", "exclusions.json"):
        put(partition.path, good, [TWO])
    put(partition.path, name, document)
    with pytest.raises(StateCorrupt, match=told):
        import_legacy(partition, NOW)
    assert rows(partition, "SELECT checksum FROM observed UNION SELECT checksum FROM exclusions") == []
    assert (partition.path / "ever-seen.json").exists()


def test_what_is_exported_can_be_imported(home: Home, partition: Partition, tmp_path: Path) -> None:
    fill(partition)
    save(partition, Settings(quarantineDays=3))
    names = [p.name for p in export_state(partition, tmp_path / "out")]
    assert len(names) == 5
    other = partition_in(home, OTHER_USER)
    # The exclusion came with the journal, from which a new database takes it.
    assert import_state(other, tmp_path / "out", LATER) == Imported(observed=1, confirmed=1, excluded=0)
    for query in ("SELECT checksum, albums FROM observed", "FROM confirmed_deleted", "FROM exclusions"):
        assert rows(other, query) == rows(partition, query)
    assert load(other).quarantineDays == 3
    assert [r.decision for r in read(other).records] == ["exclude_add", "import"]
    assert read(other).chain_breaks == ()
    with pytest.raises(UsageError, match="Choose an empty folder"):
        export_state(partition, tmp_path / "out")


def test_lesson_59_an_import_overwrites_neither_settings_nor_exclusions_nor_the_journal(
    home: Home, partition: Partition, tmp_path: Path
) -> None:
    fill(partition)
    save(partition, Settings(quarantineDays=3))
    export_state(partition, tmp_path / "out")
    other = partition_in(home, OTHER_USER)
    save(other, Settings(quarantineDays=7))
    add(other, [TWO, THREE], "theirs", LATER)
    with writing(other) as con:
        con.execute("INSERT INTO confirmed_deleted VALUES (?, ?, 'limbo')", [ONE, LATER])
    done = import_state(other, tmp_path / "out", LATER)
    assert (done.observed, done.confirmed, done.excluded, len(done.notes)) == (1, 0, 0, 2)
    assert load(other).quarantineDays == 7
    assert {(e.checksum, e.excluded_at) for e in list_exclusions(other)} == {(TWO, LATER), (THREE, LATER)}
    assert rows(other, "FROM confirmed_deleted") == [(ONE, LATER, "limbo")]
    import_state(other, tmp_path / "out", LATER, overwrite=True)
    assert load(other).quarantineDays == 3
    assert {(e.checksum, e.excluded_at) for e in list_exclusions(other)} == {(TWO, NOW), (THREE, LATER)}


def test_after_an_import_the_next_run_counts_as_a_first_run(partition: Partition, tmp_path: Path) -> None:
    fill(partition)
    export_state(partition, tmp_path / "out")
    import_state(partition, tmp_path / "out", LATER)
    assert fact(partition, FIRST_DRY_RUN) is None and fact(partition, FIRST_DELETE_CONFIRMED) is None
    assert fact(partition, HISTORY_LOST) is not None


def test_an_import_of_nothing_or_of_damaged_settings_is_refused(partition: Partition, tmp_path: Path) -> None:
    for folder in (tmp_path / "absent", tmp_path):
        with pytest.raises(UsageError):
            import_state(partition, folder, NOW)
    put(tmp_path / "in", "tool-settings.json", {"quarantineDays": 1000})
    with pytest.raises(SettingsError):
        import_state(partition, tmp_path / "in", NOW)
    assert not partition.settings_file.exists()


def test_resetting_the_index_forgets_it_and_keeps_what_the_user_decided(home: Home, partition: Partition) -> None:
    fill(partition)
    save(partition, Settings(quarantineDays=3))
    hash_cache.remember(home, hashed(row(checksum=ONE)))
    remember(home, credentials(), Identity(USER, "", ""))
    reset_index(home, partition, LATER)
    for table in RESET_TABLES:
        assert rows(partition, f"FROM {table}") == [], table
    assert hash_cache.cached_checksums(home).num_rows == 0
    assert rows(partition, "SELECT library_id, token, snapshot FROM libraries") == [("lib", None, 2)]
    assert (fact(partition, FIRST_DRY_RUN), fact(partition, FIRST_DELETE_CONFIRMED)) == (None, None)
    assert [e.checksum for e in list_exclusions(partition)] == [TWO]
    assert load(partition).quarantineDays == 3
    assert cached(home, credentials()) is not None
    assert [r.decision for r in read(partition).records] == ["exclude_add", "reset_index"]


def test_every_table_is_reset_or_kept_on_purpose(partition: Partition) -> None:
    tables = {r[0] for r in rows(partition, "SELECT table_name FROM duckdb_tables()")}
    assert tables - set(RESET_TABLES) == {"meta", "exclusions", "libraries", "runs"}


def test_lesson_49_a_reset_that_fails_in_part_does_the_rest_and_says_what_failed(
    home: Home, partition: Partition
) -> None:
    fill(partition)
    hash_cache.remember(home, hashed(row(checksum=ONE)))
    partition.database.write_bytes(b"junk")
    with pytest.raises(PartlyDone, match=r"Could not wipe the partition's index: .*state\.duckdb.*damaged"):
        reset_index(home, partition, LATER)
    assert hash_cache.cached_checksums(home).num_rows == 0


def test_nothing_is_reset_or_cleared_or_imported_under_a_run(home: Home, partition: Partition, tmp_path: Path) -> None:
    fill(partition)
    export_state(partition, tmp_path / "out")
    with partition_lock(partition, "reconcile"):
        for action in (
            lambda: reset_index(home, partition, NOW),
            lambda: clear_journal(partition),
            lambda: import_state(partition, tmp_path / "out", NOW),
        ):
            with pytest.raises(PartitionBusy):
                action()
    assert rows(partition, "SELECT count(*) FROM observed") == [(1,)]


def test_signing_out_keeps_the_index_and_leaves_the_users_file_alone(home: Home, partition: Partition) -> None:
    fill(partition)
    remember(home, credentials(), Identity(USER, "", ""))
    (note,) = sign_out(home, URL, partition, LATER)
    assert ".env" in note
    assert cached(home, credentials()) is None
    assert rows(partition, "SELECT count(*) FROM observed") == [(1,)]
    assert read(partition).records[-1].decision == "sign_out"


def test_lesson_49_a_sign_out_that_fails_says_so(home: Home, partition: Partition) -> None:
    append(partition, [decision("approve", NOW)])
    write_atomic(home.identities, b"{")
    with pytest.raises(PartlyDone, match=r"Could not forget the identity: .*identities\.json"):
        sign_out(home, URL, partition, NOW)
    with pytest.raises(StateCorrupt):
        sign_out(home, URL, None, NOW)


def test_clearing_the_journal_deletes_it_and_a_new_one_begins(partition: Partition) -> None:
    append(partition, [decision("approve", NOW)])
    clear_journal(partition)
    clear_journal(partition)
    assert not partition.journal.exists()
    append(partition, [decision("approve", NOW)])
    assert [r.seq for r in read(partition).records] == [1]
