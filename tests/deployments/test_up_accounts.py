"""The accounts of `up`: what names one, where its credentials are, and what becomes of one that is not there any more."""

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
