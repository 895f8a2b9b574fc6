"""Where a session's token is kept: the keyring where there is a real one, else a file that only its owner reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from engine.errors import PartlyDone
from state import session_store
from state.errors import StateCorrupt, StateError, StateUnreadable, StateUnwritable
from state.home import Home
from state.partition import Partition
from state.session_store import StoredSession
from tests.state.helpers import OTHER_USER, USER, partition_in

TOKEN = "the-secret-token"
SESSION = StoredSession(USER, "ann@example.com", SecretStr(TOKEN))

# A package named keyring, as small as it can be; what it keeps is in a file beside it.
KEYRING = """
import json, pathlib
from {backend} import Backend
def get_keyring(): return Backend()
"""
BACKEND = """
import json, pathlib
KEPT = pathlib.Path(__file__).with_name("kept.json")
class Backend:
    locked = {locked}
    def _all(self):
        if self.locked: raise RuntimeError("locked: {token}")
        return json.loads(KEPT.read_text()) if KEPT.exists() else {{}}
    def get_password(self, service, name): return self._all().get(service + name)
    def set_password(self, service, name, text): KEPT.write_text(json.dumps(self._all() | {{service + name: text}}))
    def delete_password(self, service, name):
        kept = self._all(); del kept[service + name]; KEPT.write_text(json.dumps(kept))
"""


class Keyrings:
    """Installs a keyring package with a backend of a module's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, backend: str, *, locked: bool = False) -> None:
        self.forget()
        for name, text in (
            ("keyring", KEYRING.format(backend=backend)),
            (backend, BACKEND.format(locked=locked, token=TOKEN)),
        ):
            path = self.folder.joinpath(*name.split("."))
            if name == "keyring":
                path.mkdir(parents=True, exist_ok=True)
                (path / "__init__.py").write_text(text)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".py").write_text(text)

    def forget(self) -> None:
        for name in [n for n in sys.modules if n.split(".")[0] in ("keyring", "keyrings", "real_backend")]:
            del sys.modules[name]


@pytest.fixture
def keyrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyrings]:
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = Keyrings(tmp_path / "packages")
    yield found
    found.forget()


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


@pytest.mark.usefixtures("no_keyring")
def test_without_a_keyring_the_token_is_in_a_file_of_its_owner_alone(partition: Partition) -> None:
    assert session_store.get(partition) is None
    where = session_store.put(partition, SESSION)
    path = partition.path / session_store.FILE
    assert where == str(path) and path.stat().st_mode & 0o777 == 0o600
    assert session_store.get(partition) == SESSION
    session_store.clear(partition)
    assert session_store.get(partition) is None and not path.exists()
    session_store.clear(partition)


def test_a_real_keyring_keeps_the_token_and_no_file_does(partition: Partition, keyrings: Keyrings) -> None:
    keyrings.install("real_backend")
    assert session_store.put(partition, SESSION) == "keyring"
    assert session_store.get(partition) == SESSION
    assert not [path for path in partition.path.rglob("*") if path.is_file() and TOKEN in path.read_text()]
    session_store.clear(partition)
    assert session_store.get(partition) is None


@pytest.mark.usefixtures("no_keyring")
def test_a_token_that_moves_into_the_keyring_leaves_no_file_behind(
    partition: Partition, keyrings: Keyrings, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_store.put(partition, SESSION)
    monkeypatch.delitem(sys.modules, "keyring")
    keyrings.install("real_backend")
    assert session_store.get(partition) == SESSION
    session_store.put(partition, SESSION)
    assert not (partition.path / session_store.FILE).exists() and session_store.get(partition) == SESSION


def test_a_keyring_that_keeps_plain_text_is_not_used(partition: Partition, keyrings: Keyrings) -> None:
    keyrings.install("keyrings.alt")
    assert session_store.put(partition, SESSION) == str(partition.path / session_store.FILE)


def test_lesson_48_a_locked_keyring_is_not_a_missing_session(partition: Partition, keyrings: Keyrings) -> None:
    keyrings.install("real_backend", locked=True)
    for call, kind in (
        (lambda: session_store.get(partition), StateUnreadable),
        (lambda: session_store.put(partition, SESSION), StateUnwritable),
        (lambda: session_store.clear(partition), PartlyDone),
    ):
        with pytest.raises((StateError, PartlyDone)) as refused:
            call()
        assert type(refused.value) is kind and TOKEN not in repr(refused.value)


def test_lesson_48_a_keyring_that_cannot_begin_is_not_a_missing_session(
    partition: Partition, keyrings: Keyrings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    session_store.put(partition, SESSION)
    monkeypatch.delitem(sys.modules, "keyring")
    keyrings.install("real_backend")
    (keyrings.folder / "keyring" / "__init__.py").write_text("def get_keyring(): raise RuntimeError('no bus')")
    with pytest.raises(StateUnreadable):
        session_store.get(partition)
    with pytest.raises(PartlyDone):
        session_store.clear(partition)
    assert not (partition.path / session_store.FILE).exists(), "the other place is cleared all the same"


@pytest.mark.usefixtures("no_keyring")
def test_lesson_48_a_broken_file_is_not_a_missing_session(partition: Partition) -> None:
    no_header = [f'{{"user_id":"{USER}","email":"","token":"{TOKEN}{end}"}}' for end in (r"\n", r"\u0000", " ", "é")]
    for content in (*no_header, TOKEN, "{}", f'{{"user_id":1,"email":"","token":"{TOKEN}"}}', "[]"):
        (partition.path / session_store.FILE).write_text(content)
        with pytest.raises(StateCorrupt) as refused:
            session_store.get(partition)
        assert TOKEN not in repr(refused.value)


@pytest.mark.usefixtures("no_keyring")
def test_another_users_session_is_nobodys(home: Home) -> None:
    partition = partition_in(home)
    session_store.put(partition, StoredSession(OTHER_USER, "", SecretStr(TOKEN)))
    assert session_store.get(partition) is None
    assert session_store.get(partition_in(home, OTHER_USER)) is None


def test_no_token_is_in_a_repr() -> None:
    assert TOKEN not in repr(SESSION) + str(SESSION)
