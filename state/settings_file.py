"""tool-settings.json of a partition: read, changed by key, written back. What a setting means: engine.settings."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

from engine.errors import SettingsError, UsageError
from engine.settings import Settings, parse_settings
from state.files import read_bytes, write_atomic
from state.journal import append, decision
from state.lock import file_lock
from state.partition import Partition


def load(partition: Partition) -> Settings:
    """The partition's settings; a missing file or key means the default (spec, Versioning).

    Raises SettingsError, naming the file and the line of what is no JSON, or the key that is out of its range.
    """
    return parse_settings(_load(partition))


def save(partition: Partition, settings: Settings) -> None:
    """Writes the settings whole. A key of the file that this version does not know is kept."""
    with _locked(partition):
        _save(partition, _load(partition), settings)


def set_value(partition: Partition, key: str, text: str, now: datetime) -> Settings:
    """Sets one key to what a person typed: JSON where it is JSON, else the text itself. Journaled as ``settings``.

    Raises UsageError for an unknown key, SettingsError for a value out of its range; then nothing changes.
    """
    if key not in Settings.model_fields:
        raise UsageError(f"There is no setting {key!r}.", f"Settings: {', '.join(Settings.model_fields)}.")
    with _locked(partition):
        kept = _load(partition)
        before = parse_settings(kept)
        after = parse_settings({**kept, key: _parsed(text)})
        old, new = (s.model_dump(mode="json")[key] for s in (before, after))
        # The journal first: a change that is not on record does not happen.
        append(partition, [decision("settings", now, {"key": key, "old": old, "new": new})])
        _save(partition, kept, after)
    return after


def _save(partition: Partition, kept: dict[str, Any], settings: Settings) -> None:
    document = {**kept, **settings.model_dump(mode="json")}
    write_atomic(partition.settings_file, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


def _load(partition: Partition) -> dict[str, Any]:
    path = partition.settings_file
    data = read_bytes(path)
    if data is None:
        return {}
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{path} is not JSON at line {error.lineno}: {error.msg}.", "Correct that line, or move the file away."
        ) from None
    except ValueError:
        raise SettingsError(f"{path} is not UTF-8 JSON.", "Correct it, or move the file away.") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{path} holds no JSON object.", 'Write it as {"key": value, ...}, or move the file away.')
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _locked(partition: Partition) -> Any:
    return file_lock(partition.path / "settings.lock", wait_seconds=10, why="another command changes the settings")
