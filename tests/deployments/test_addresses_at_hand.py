"""Where notices go is known to the flow run alone: its account's .env, and never Prefect's server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployments import accounts
from deployments.flow_run import _use_credentials
from deployments.place import ACCOUNTS, without_credentials
from state.credentials import KEY, NOTIFY, URL


def test_a_run_has_the_addresses_of_its_account_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (URL, KEY, NOTIFY):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    lines = [f"{URL}=http://127.0.0.1:9", f"{KEY}=k", f"{NOTIFY}=json://127.0.0.1:9/a json://127.0.0.1:9/b"]
    (tmp_path / ".env").write_text("\n".join(lines))
    accounts.save(tmp_path / "accounts.json", [accounts.Account(tmp_path)])
    monkeypatch.setenv(ACCOUNTS, str(tmp_path / "accounts.json"))
    _use_credentials("default")
    assert os.environ[NOTIFY] == "json://127.0.0.1:9/a json://127.0.0.1:9/b"


def test_prefect_s_server_is_told_neither_key_nor_addresses() -> None:
    assert without_credentials({URL: "u", KEY: "k", NOTIFY: "n", "PATH": "p"}) == {"PATH": "p"}
