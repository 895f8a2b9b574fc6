"""The accounts of `up`: what names one, where its credentials are, and what becomes of one that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments import accounts
from engine.errors import UsageError


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
