"""One folder per (server URL, user id): accounts never see each other's state."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import time
from pathlib import Path

import pytest

from engine.address import sanitized
from engine.errors import PartitionBusy, UsageError
from state.errors import PartitionMismatch, StateCorrupt
from state.home import Home
from state.lock import file_lock, holder, partition_lock
from state.partition import Partition, activate, by_name, list_partitions
from tests.state.helpers import OTHER_USER, URL, USER, finish, partition_in, process

BASE = sanitized(URL)


def legacy_folder(home: Home, mark: str = "legacy") -> Path:
    folder = home.partitions / BASE
    folder.mkdir(parents=True)
    (folder / "mark").write_text(mark)
    return folder


def test_a_partition_is_named_by_address_and_user(home: Home) -> None:
    partition = activate(home, f"{URL}/api/", USER.upper(), print, email="me@example.org")
    assert partition == Partition(home.partitions / f"{BASE}__{USER}", URL, USER, f"{BASE}__{USER}")
    card = json.loads((partition.path / "partition.json").read_text())
    assert (card["url"], card["user_id"], card["email"]) == (URL, USER, "me@example.org")
    assert partition.path.stat().st_mode & 0o777 == 0o700
    assert activate(home, URL, USER, print) == partition
    assert json.loads((partition.path / "partition.json").read_text()) == card


def test_two_accounts_at_one_address_have_two_partitions(home: Home) -> None:
    assert partition_in(home, USER).path != partition_in(home, OTHER_USER).path


def test_without_a_user_id_the_folder_is_named_by_the_address_alone(home: Home) -> None:
    partition = partition_in(home, None)
    assert (partition.name, partition.user_id) == (BASE, None)


def test_the_address_only_folder_becomes_the_first_users(home: Home) -> None:
    before = partition_in(home, None)
    (before.path / "mark").write_text("kept")
    lines: list[str] = []
    after = activate(home, URL, USER, lines.append)
    assert (after.path / "mark").read_text() == "kept"
    assert not before.path.exists()
    assert json.loads((after.path / "partition.json").read_text())["user_id"] == USER
    assert len(lines) == 1


def test_an_earlier_clients_folder_without_a_card_becomes_the_first_users(home: Home) -> None:
    legacy_folder(home)
    assert (partition_in(home).path / "mark").exists()


def test_lesson_47_a_left_over_folder_is_not_resurrected_for_a_second_account(home: Home) -> None:
    first = partition_in(home, USER)
    legacy_folder(home, "whose?")
    second = partition_in(home, OTHER_USER)
    assert not (second.path / "mark").exists()
    assert not (first.path / "mark").exists()
    assert (home.partitions / BASE / "mark").exists()


def test_lesson_47_a_folder_that_could_not_be_renamed_is_shown_to_nobody_else(home: Home) -> None:
    folder = legacy_folder(home)
    (folder / "partition.json").write_text("{")  # unreadable: whose it is cannot be told
    lines: list[str] = []
    first = activate(home, URL, USER, lines.append)
    assert "empty partition" in lines[0]
    assert not (first.path / "mark").exists()
    (folder / "partition.json").unlink()
    assert not (partition_in(home, OTHER_USER).path / "mark").exists()
    unknown = partition_in(home, None)
    assert unknown.path != folder and not (unknown.path / "mark").exists()
    assert (folder / "mark").exists()


def test_a_folder_of_another_account_is_left_alone(home: Home) -> None:
    folder = legacy_folder(home)
    (folder / "partition.json").write_text(json.dumps({"url": URL, "user_id": OTHER_USER}))
    lines: list[str] = []
    assert not (activate(home, URL, USER, lines.append).path / "mark").exists()
    assert "left alone" in lines[0]


def test_both_folders_there_the_older_one_is_left_alone(home: Home) -> None:
    legacy_folder(home)
    (home.partitions / f"{BASE}__{USER}").mkdir()
    assert not (partition_in(home).path / "mark").exists()
    assert (home.partitions / BASE / "mark").exists()


def test_a_killed_rename_is_finished_by_the_next_start(home: Home) -> None:
    legacy_folder(home)
    claim = {BASE: {"user_id": USER, "left_over": True}}
    (home.partitions / "claims.json").write_text(json.dumps(claim))
    assert (partition_in(home).path / "mark").exists()


def test_a_folder_is_not_renamed_under_a_run(home: Home) -> None:
    before = partition_in(home, None)
    with partition_lock(before, "reconcile"), pytest.raises(PartitionBusy):
        partition_in(home)
    (before.path / "mark").write_text("")
    assert (partition_in(home).path / "mark").exists()


def test_a_folder_that_says_another_address_or_user_is_refused(home: Home) -> None:
    partition = partition_in(home)
    for card in ({"url": "http://other", "user_id": USER}, {"url": URL, "user_id": OTHER_USER}):
        (partition.path / "partition.json").write_text(json.dumps(card))
        with pytest.raises(PartitionMismatch, match="Move it out"):
            partition_in(home)


@pytest.mark.parametrize("card", ["", "[]", "{}", '{"url": 1, "user_id": null}'])
def test_a_damaged_card_is_said(home: Home, card: str) -> None:
    (partition_in(home).path / "partition.json").write_text(card)
    with pytest.raises(StateCorrupt, match=r"partition\.json"):
        partition_in(home)


@pytest.mark.parametrize("user", ["", "../../etc", "me@example.org", USER + "/.."])
def test_only_a_uuid_becomes_part_of_a_path(home: Home, user: str) -> None:
    with pytest.raises(UsageError):
        partition_in(home, user)
    assert list_partitions(home) == []


def test_partitions_are_listed_and_found_by_name(home: Home) -> None:
    assert list_partitions(home) == []
    one, other = partition_in(home, USER), partition_in(home, OTHER_USER)
    assert list_partitions(home) == [one, other]
    assert by_name(home, other.name) == other
    for name in ("nobody", "..", f"../partitions/{one.name}"):
        with pytest.raises(UsageError, match=one.name.replace("+", r"\+")):
            by_name(home, name)


def test_two_processes_that_activate_at_once_agree(home: Home) -> None:
    legacy_folder(home)
    code = """
import sys
from pathlib import Path
from state.home import Home
from state.partition import activate
input()
print(activate(Home(Path(sys.argv[1])), sys.argv[2], sys.argv[3], lambda line: None).path)
"""
    children = [process(code, home.root, URL, USER) for _ in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    ends = {finish(child) for child in children}
    assert ends == {(0, f"{home.partitions / f'{BASE}__{USER}'}\n")}
    assert (home.partitions / f"{BASE}__{USER}" / "mark").exists()


HOLD = """
import sys
from pathlib import Path
from state.home import Home
from state.lock import partition_lock
from state.partition import by_name
with partition_lock(by_name(Home(Path(sys.argv[1])), sys.argv[2]), "reconcile"):
    print("held", flush=True)
    input()
"""


def lock_it(partition: Partition) -> None:
    with partition_lock(partition, "apply"):
        pass


def test_lesson_52_a_second_run_is_told_who_holds_the_partition(
    home: Home, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = process(HOLD, home.root, partition.name)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(PartitionBusy) as error:
        lock_it(partition)
    assert re.search(rf"run \(reconcile, pid {child.pid}\) .* since \d\d:\d\d UTC", str(error.value))
    now = holder(partition)
    assert now is not None and (now.pid, now.what) == (child.pid, "reconcile")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(platform, "node", lambda: "another-host")
        with pytest.raises(PartitionBusy, match=f"on {re.escape(now.host)} holds .* look at it there"):
            lock_it(partition)
    child.kill()  # SIGKILL: nothing of the process runs any more
    finish(child)
    assert holder(partition) is None
    lock_it(partition)


def test_lesson_52_two_flows_of_one_process_exclude_each_other(partition: Partition) -> None:
    with partition_lock(partition, "one"):
        with pytest.raises(PartitionBusy, match=r"Another run .one, pid"), partition_lock(partition, "two"):
            pass
        assert holder(partition) is not None
    with partition_lock(partition, "two"):
        pass


def test_whoever_only_looks_who_holds_a_partition_keeps_no_run_from_it(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as looking:
        looking.enter_context(file_lock(partition.run_lock, 0, shared=True))  # as `status` does, for a moment
        monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())
        with partition_lock(partition, "reconcile"):
            found = holder(partition)
            assert found is not None and found.what == "reconcile"


def test_partitions_do_not_lock_each_other(home: Home) -> None:
    with partition_lock(partition_in(home, USER), "one"), partition_lock(partition_in(home, OTHER_USER), "two"):
        pass
