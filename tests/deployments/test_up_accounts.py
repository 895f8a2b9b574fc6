"""The accounts of `up`: what names one, where its credentials are, and what becomes of one that is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployments import accounts
from deployments.accounts import Account
from deployments.flow_run import limit_of
from deployments.place import LIMIT
from engine.errors import UsageError
from state.home import Home
from state.partition import Partition
from tasks.opening import find_partition
from tests.world import small_world


@pytest.mark.parametrize("name", ["SERVER_URL", "SERVER_API_KEY", "NOTIFY_URLS"])
def test_nothing_of_the_environment_stands_for_several_accounts(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="NOTIFY_URLS") as error:
        accounts.checked_credentials(tmp_path, {name: "ntfys://secret.example/x"}, alone=False)
    assert "secret.example" not in str(error.value)


@pytest.mark.parametrize("name", ["anna", "Jörg 2.0", "a-b"])
def test_a_folder_name_that_a_deployment_can_have_is_the_label(tmp_path: Path, name: str) -> None:
    assert accounts.checked_label(tmp_path / name) == name


@pytest.mark.parametrize("name", ["a%2Fb", "a&b", "<b>", "a\nb", 'a"b'])
def test_a_folder_name_that_no_deployment_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot end the name of a deployment") as error:
        accounts.checked_label(tmp_path / name)
    assert error.value.next_step


def test_the_root_folder_is_no_further_account() -> None:
    with pytest.raises(UsageError):
        accounts.checked_label(Path("/"))


PARTITION = "https_photos__anna"


@pytest.fixture
def known(tmp_path: Path) -> list[Account]:
    """Two accounts whose folders are there."""
    for name in ("me", "anna"):
        (tmp_path / name).mkdir()
    return [Account(tmp_path / "me"), Account(tmp_path / "anna", PARTITION, "anna")]


def test_a_run_finds_its_account_by_its_partition(tmp_path: Path, known: list[Account]) -> None:
    home = Home(tmp_path / "home")
    assert accounts.account_of(known, home, {}, PARTITION) == known[1]
    assert accounts.account_of(known, home, {}, "default") == known[0]


def test_a_run_of_an_account_that_up_has_no_more_gets_nobody_elses_key(tmp_path: Path, known: list[Account]) -> None:
    with pytest.raises(accounts.AccountGone) as error:
        accounts.account_of(known[:1], Home(tmp_path / "home"), {}, PARTITION)
    assert PARTITION not in str(error.value) and "--account" in error.value.next_step


def test_the_first_accounts_own_partition_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_world(tmp_path, monkeypatch) as world:
        world.backed_up("a.jpg")
        world.reconcile()
        _, partition = find_partition()
        (tmp_path / "me").mkdir()
        known = [Account(tmp_path / "me")]
        home = Home(world.home)
        assert accounts.account_of(known, home, os.environ, partition.name) == known[0]
        with pytest.raises(accounts.AccountGone):
            accounts.account_of(known, home, {**os.environ, "SERVER_API_KEY": "another"}, partition.name)


@pytest.mark.parametrize("partition", ["default", PARTITION])
def test_a_folder_that_vanished_is_told_with_the_next_step(
    tmp_path: Path, known: list[Account], partition: str
) -> None:
    for account in known:
        account.directory.rmdir()
    with pytest.raises(accounts.AccountGone, match="is gone") as error:
        accounts.account_of(known, Home(tmp_path / "home"), {}, partition)
    assert str(tmp_path) not in str(error.value) and ".env" in error.value.next_step


def test_the_limit_of_an_account_names_neither_its_server_nor_its_user(tmp_path: Path) -> None:
    one, other = (
        Partition(tmp_path, "https://photos.example", user, f"https_photos.example__{user}") for user in ("u1", "u2")
    )
    assert limit_of(one).startswith(LIMIT) and limit_of(one) != limit_of(other)
    assert "photos" not in limit_of(one) and "u1" not in limit_of(one)
