"""What the environment or .env says: the server's address, the API key, and whom to notify. It is kept nowhere else."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from engine.address import normalise
from engine.errors import UsageError
from state.files import read_bytes

URL, KEY = "SERVER_URL", "SERVER_API_KEY"
NOTIFY = "NOTIFY_URLS"


@dataclass(frozen=True, slots=True)
class Credentials:
    """``server_url`` is normalised. ``notes`` are sentences that a person should see, such as an open .env file."""

    server_url: str
    api_key: SecretStr
    notes: tuple[str, ...] = ()


def load_credentials(environ: Mapping[str, str], directory: Path) -> Credentials:
    """SERVER_URL and SERVER_API_KEY; the environment wins over ``directory``/.env (spec, Command-line tool).

    .env is read only for what the environment does not say, literally: nothing in it is expanded.
    Raises UsageError (missing, malformed; contents are never shown), StateUnreadable (.env is there, but locked).
    """
    values = {name: environ.get(name, "").strip(" \t") for name in (URL, KEY)}
    notes: tuple[str, ...] = ()
    path = directory / ".env"
    if not all(values.values()):
        kept = _dotenv(path)
        if kept.get(KEY) and not values[KEY] and path.stat().st_mode & 0o077:
            notes = (f"{path} can be read by other users of this computer. Run: chmod 600 {path}",)
        values = {name: value or (kept.get(name) or "").strip(" \t") for name, value in values.items()}
    if missing := [name for name, value in values.items() if not value]:
        raise UsageError(
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set.",
            f"Put {' and '.join(f'{name}=...' for name in missing)} into {path}, or set it in the environment.",
        )
    key = values[KEY]
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError(
            "SERVER_API_KEY holds a line break, a space or a character that no key has.",
            "Copy the key again from the server's page Account Settings, API Keys, as one line.",
        )
    return Credentials(normalise(values[URL]), SecretStr(key), notes)


def notify_urls(environ: Mapping[str, str], directory: Path) -> tuple[SecretStr, ...]:
    """The addresses for apprise in NOTIFY_URLS, apart by white space; the environment wins over ``directory``/.env.

    They are secrets: what may write to a chat is in them. Raises UsageError and StateUnreadable as load_credentials.
    """
    text = environ.get(NOTIFY, "").strip() or _dotenv(directory / ".env").get(NOTIFY) or ""
    return tuple(SecretStr(url) for url in text.split())


def fingerprint(api_key: SecretStr) -> str:
    """Stands for the key on disk: 32 hexadecimal digits, from which the key cannot be had back."""
    return hashlib.sha256(b"deletion-sync key fingerprint\0" + api_key.get_secret_value().encode()).hexdigest()[:32]


def _dotenv(path: Path) -> dict[str, str | None]:
    from dotenv.parser import parse_stream

    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, and should be a file.", f"Move it away, and put {URL}=... and {KEY}=... there."
        )
    data = read_bytes(path)
    if data is None:
        return {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"Line {line} of {path} is not UTF-8 text.", "Correct that line.") from None
    bindings = list(parse_stream(io.StringIO(text)))
    for binding in bindings:
        if binding.error:
            statement = binding.original.string
            blank = statement[: len(statement) - len(statement.lstrip())].count("\n")  # lines before the statement
            raise UsageError(
                f"Line {binding.original.line + blank} of {path} is malformed.",
                "Write it as NAME=value, quotes in pairs.",
            )
    return {binding.key: binding.value for binding in bindings if binding.key}
