"""Credentials come from the environment or .env, and are shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UsageError
from state.credentials import fingerprint, load_credentials
from state.errors import StateCorrupt, StateUnreadable
from state.files import write_atomic
from state.home import Home
from state.identity import Identity, cached, forget, remember
from tests.state.helpers import URL, USER, credentials

SECRET = "k3y-that-nobody-may-see"


def dotenv(folder: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = folder / ".env"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return folder


def test_the_environment_wins_over_dotenv(tmp_path: Path) -> None:
    dotenv(tmp_path, f"SERVER_URL=http://other/api\nSERVER_API_KEY='{SECRET}'\n")
    found = load_credentials({"SERVER_URL": "https://Photos.Example.org/api"}, tmp_path)
    assert (found.server_url, found.api_key.get_secret_value(), found.notes) == (URL, SECRET, ())


def test_a_key_is_taken_literally(tmp_path: Path) -> None:
    dotenv(tmp_path, "SERVER_URL=http://host\nSERVER_API_KEY='a${HOME}$b#c'\n")
    assert load_credentials({}, tmp_path).api_key.get_secret_value() == "a${HOME}$b#c"


def test_what_is_missing_is_named_with_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SERVER_URL and SERVER_API_KEY are not set.*\.env"):
        load_credentials({}, tmp_path)
    dotenv(tmp_path, "SERVER_URL=http://host\nSERVER_API_KEY=\n")
    with pytest.raises(UsageError, match=r"^SERVER_API_KEY is not set"):
        load_credentials({}, tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'SERVER_URL=http://host\nSERVER_API_KEY="{SECRET}\n', "Line 2"),
        (f"# a comment\n\n{SECRET} and more\n", "Line 3"),
        (f"SERVER_URL=http://host\nSERVER_API_KEY={SECRET}".encode() + b"\xff\n", "Line 2"),
    ],
)
def test_a_malformed_dotenv_is_told_by_line_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | bytes, line: str
) -> None:
    dotenv(tmp_path, text)
    with pytest.raises(UsageError) as error:
        load_credentials({}, tmp_path)
    assert str(error.value).startswith(line)
    assert SECRET not in str(error.value) + repr(error.value) + caplog.text


@pytest.mark.parametrize("key", [f"{SECRET}\nx", f"{SECRET}é", f"{SECRET} x", f"{SECRET}\x00"])
def test_a_key_that_no_server_made_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError) as error:
        load_credentials({"SERVER_URL": URL, "SERVER_API_KEY": key}, tmp_path)
    assert SECRET not in str(error.value) + repr(error.value)


def test_a_dotenv_that_others_can_read_is_noted(tmp_path: Path) -> None:
    dotenv(tmp_path, f"SERVER_URL={URL}\nSERVER_API_KEY={SECRET}\n", 0o644)
    (note,) = load_credentials({}, tmp_path).notes
    assert "chmod 600" in note and SECRET not in note
    assert load_credentials({"SERVER_URL": URL, "SERVER_API_KEY": "x"}, tmp_path).notes == ()


def test_no_repr_shows_the_key(tmp_path: Path) -> None:
    assert SECRET not in repr(credentials(SECRET)) + str(credentials(SECRET))


def test_the_fingerprint_tells_keys_apart_and_does_not_hold_them() -> None:
    one, other = fingerprint(credentials("one").api_key), fingerprint(credentials("other").api_key)
    assert one != other and one == fingerprint(credentials("one").api_key)
    assert len(one) == 32 and "one" not in one


def test_lesson_48_a_locked_dotenv_is_not_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to(".env")  # it refuses root too, whom no mode keeps out
    with pytest.raises(StateUnreadable, match="cannot be read"):
        load_credentials({}, tmp_path)


def test_a_dotenv_that_is_a_folder_is_a_mistake_to_be_put_right(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    with pytest.raises(UsageError, match=r"\.env is a folder"):
        load_credentials({}, tmp_path)


def test_an_identity_is_remembered_per_address_and_key(home: Home) -> None:
    identity = Identity(USER, "me@example.org", "Me")
    assert cached(home, credentials()) is None
    remember(home, credentials(), identity)
    remember(home, credentials(), identity)
    assert cached(home, credentials()) == identity
    assert cached(home, credentials("another-key")) is None
    assert "the-secret-key" not in home.identities.read_text()
    assert home.identities.stat().st_mode & 0o777 == 0o600


def test_signing_out_forgets_every_key_of_the_address(home: Home) -> None:
    for key in ("one", "two"):
        remember(home, credentials(key), Identity(USER, "", ""))
    assert forget(home, f"{URL}/api") == 2
    assert cached(home, credentials("one")) is None
    assert forget(home, URL) == 0


def test_lesson_48_an_unreadable_identity_is_not_a_missing_one(home: Home) -> None:
    home.identities.mkdir(parents=True)
    with pytest.raises(StateUnreadable):
        cached(home, credentials())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"identities": [{"user_id": "../x"}]}', '{"identities": [1]}'])
def test_a_damaged_identity_file_is_said_and_not_overwritten(home: Home, text: str) -> None:
    write_atomic(home.identities, text.encode())
    with pytest.raises(StateCorrupt):
        cached(home, credentials())
    with pytest.raises(StateCorrupt):
        remember(home, credentials(), Identity(USER, "", ""))
    assert home.identities.read_text() == text
