"""Settings are read with care and changed on record; exclusions hold at once."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import pytest

from engine.errors import SettingsError, UsageError
from engine.settings import Settings, Strictness
from state.errors import StateUnwritable
from state.exclusions import add, held_exclusions, list_exclusions, remove
from state.home import Home
from state.journal import read
from state.lock import partition_lock
from state.partition import Partition
from state.settings_file import load, save, set_value
from tests.state.helpers import NOW, checksum, finish, process

LATER = NOW + timedelta(days=3)


def decisions(partition: Partition) -> list[str | None]:
    return [r.decision for r in read(partition).records]


def test_a_missing_file_and_a_missing_key_mean_the_defaults(partition: Partition) -> None:
    assert load(partition) == Settings()
    partition.settings_file.write_text('{"quarantineDays": 3}')
    assert load(partition) == Settings(quarantineDays=3)


def test_a_key_that_this_version_does_not_know_is_kept(partition: Partition) -> None:
    partition.settings_file.write_text('{"fromTheFuture": [1], "quarantineDays": 3}')
    save(partition, Settings(quarantineDays=4))
    set_value(partition, "deletionStrictness", "strict", NOW)
    found = json.loads(partition.settings_file.read_text())
    assert (found["fromTheFuture"], found["quarantineDays"], found["deletionStrictness"]) == ([1], 4, "strict")
    assert partition.settings_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{\n "quarantineDays": 3,\n}', "line 3"),
        (b"", "line 1"),
        (b"[]", "no JSON object"),
        (b"\xff{}", "UTF-8"),
        (b'{"thresholdPercent": NaN}', "JSON"),
        (b'{"quarantineDays": 91}', "quarantineDays"),
    ],
)
def test_a_damaged_settings_file_is_said_and_kept(partition: Partition, text: bytes, told: str) -> None:
    partition.settings_file.write_bytes(text)
    with pytest.raises(SettingsError, match=told):
        load(partition)
    with pytest.raises(SettingsError):
        set_value(partition, "pageSize", "10", NOW)
    assert partition.settings_file.read_bytes() == text


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("quarantineDays", "0", 0),
        ("thresholdPercent", "2.5", 2.5),
        ("useIncrementalServerSync", "false", False),
        ("deletionStrictness", "strict", Strictness.STRICT),
        ("indexingScope", "fullLibrary", "fullLibrary"),
    ],
)
def test_what_a_person_types_becomes_the_settings_type(
    partition: Partition, key: str, text: str, value: object
) -> None:
    assert getattr(set_value(partition, key, text, NOW), key) == value
    assert getattr(load(partition), key) == value
    assert decisions(partition) == ["settings"]


def test_a_scope_is_typed_as_json(partition: Partition) -> None:
    set_value(partition, "indexingScope", '{"selectedAlbums": []}', NOW)
    assert load(partition).selected_albums == ()
    (record,) = read(partition).records
    assert record.details == {"key": "indexingScope", "old": "fullLibrary", "new": {"selectedAlbums": []}}


@pytest.mark.parametrize(
    ("key", "text"),
    [("quarantineDays", "91"), ("quarantineDays", "soon"), ("thresholdPercent", "NaN"), ("pageSize", "true")],
)
def test_a_value_out_of_its_range_changes_nothing(partition: Partition, key: str, text: str) -> None:
    with pytest.raises(SettingsError, match=key):
        set_value(partition, key, text, NOW)
    assert not partition.settings_file.exists() and decisions(partition) == []


def test_an_unknown_key_is_refused_with_the_known_ones(partition: Partition) -> None:
    with pytest.raises(UsageError, match="quarantineDays"):
        set_value(partition, "verboseLogging", "true", NOW)


def test_a_change_that_cannot_be_journaled_does_not_happen(partition: Partition) -> None:
    assert list_exclusions(partition) == []
    partition.journal.mkdir()
    with pytest.raises(StateUnwritable):
        set_value(partition, "quarantineDays", "0", NOW)
    assert load(partition).quarantineDays == 14
    with pytest.raises(StateUnwritable):
        add(partition, [checksum(1)], "", NOW)
    assert list_exclusions(partition) == []


def test_an_exclusion_keeps_its_first_date_unless_it_is_renewed(partition: Partition) -> None:
    assert add(partition, [checksum(1)], "mine", NOW, file_names={checksum(1): "a.jpg"}) == 1
    assert add(partition, [checksum(1), checksum(1)], "again", LATER) == 0
    (kept,) = list_exclusions(partition)
    assert (kept.excluded_at, kept.reason, kept.file_name) == (NOW, "mine", "a.jpg")
    assert add(partition, [checksum(1)], "again", LATER, renew=True) == 0
    assert [e.excluded_at for e in list_exclusions(partition)] == [LATER]
    assert decisions(partition) == ["exclude_add", "exclude_add"]


def test_an_exclusion_that_was_lifted_and_made_again_has_the_new_date(partition: Partition) -> None:
    add(partition, [checksum(1)], "", NOW)
    assert remove(partition, [checksum(1), checksum(2)], NOW) == 1
    assert remove(partition, [checksum(1)], NOW) == 0
    add(partition, [checksum(1)], "", LATER)
    assert [e.excluded_at for e in list_exclusions(partition)] == [LATER]
    assert decisions(partition) == ["exclude_add", "exclude_remove", "exclude_add"]


@pytest.mark.parametrize("bad", ["", "x", "a" * 28, checksum(1)[:-2] + "B=", checksum(1) + "\n", "IMG_1.jpg"])
def test_what_is_no_checksum_is_refused_and_nothing_is_excluded(partition: Partition, bad: str) -> None:
    with pytest.raises(UsageError, match="base64 SHA-1"):
        add(partition, [checksum(1), bad], "", NOW)
    assert list_exclusions(partition) == []


EXCLUDE = """
import sys
from datetime import datetime
from pathlib import Path
from state.exclusions import add
from state.home import Home
from state.partition import by_name
print("ready", flush=True)
print(add(by_name(Home(Path(sys.argv[1])), sys.argv[2]), [sys.argv[3]], "", datetime.fromisoformat("2026-01-01")))
"""


def test_an_exclusion_can_be_made_while_a_run_holds_the_partition(home: Home, partition: Partition) -> None:
    with partition_lock(partition, "reconcile"):
        assert finish(process(EXCLUDE, home.root, partition.name, checksum(1))) == (0, "ready\n1\n")
        with held_exclusions(partition) as excluded:
            assert excluded == {checksum(1)}


def test_an_exclusion_made_during_a_delete_waits_for_its_end(partition: Partition) -> None:
    excluded = threading.Event()

    def exclude() -> None:
        add(partition, [checksum(2)], "", NOW)
        excluded.set()

    add(partition, [checksum(1)], "", NOW)
    with held_exclusions(partition) as before:
        thread = threading.Thread(target=exclude)
        thread.start()
        assert not excluded.wait(0.2)
        assert before == {checksum(1)}
    assert excluded.wait(60)
    thread.join()
    with held_exclusions(partition) as after:
        assert after == {checksum(1), checksum(2)}


def test_lesson_6_a_retry_sees_the_exclusion_made_since_the_first_try(partition: Partition) -> None:
    with held_exclusions(partition) as first:
        assert first == frozenset()
    add(partition, [checksum(1)], "", NOW)
    with held_exclusions(partition) as second:
        assert second == {checksum(1)}


def test_two_processes_that_exclude_at_once_both_succeed(home: Home, partition: Partition) -> None:
    children = [process(EXCLUDE, home.root, partition.name, checksum(n)) for n in range(4)]
    assert [finish(child) for child in children] == [(0, "ready\n1\n")] * 4
    assert {e.checksum for e in list_exclusions(partition)} == {checksum(n) for n in range(4)}
    assert len(decisions(partition)) == 4
