"""The JSON files of an earlier client: read in on first use, written out and read back on request.

Formats, all of them accepted (spec, Versioning, 3):
- ever-seen.json: a list of checksums, or an object of checksum to a list of albums, or either under ``entries``.
- confirmed-deleted.json: an object of checksum to ISO 8601 date, plain or under ``confirmedFromPhotoKit``.
- exclusions.json: a list of checksums, or of objects with ``checksum`` and maybe ``excludedAt``, ``reason`` and
  ``fileName``, or an object of checksum to date.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.settings import parse_settings
from state.db import insert_exclusions, reading, writing
from state.errors import StateCorrupt
from state.exclusion_log import Exclusion, added
from state.exclusions import CHECKSUM, list_exclusions
from state.files import ensure_folder, read_bytes, write_atomic, writing_to
from state.journal import append, decision, locked, rfc3339
from state.lock import partition_lock
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, FIRST_DRY_RUN, HISTORY_LOST, clear_fact, get_fact, set_fact

if TYPE_CHECKING:
    import duckdb

# Names are frozen: they are another client's (lesson 50).
EVER_SEEN, CONFIRMED, EXCLUSIONS = "ever-seen.json", "confirmed-deleted.json", "exclusions.json"
CONFIRMED_KEY = "confirmedFromPhotoKit"
LEGACY_IMPORTED = "legacy_imported_at"
_SETTINGS, _JOURNAL = "tool-settings.json", "deletion-journal.jsonl"


@dataclass(frozen=True, slots=True)
class Imported:
    """How many entries were new here. ``notes`` say what was left as it was."""

    observed: int = 0
    confirmed: int = 0
    excluded: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Files:
    observed: dict[str, list[str]]
    confirmed: dict[str, datetime]
    exclusions: list[Exclusion]


def import_legacy(partition: Partition, now: datetime) -> Imported | None:
    """Reads in an earlier client's files that lie in the partition's folder, once, into a database without rows.

    The files are kept as ``<name>.imported``, so that a rebuilt database does not take in their old dates again. There
    is no index yet, so the next run sends its candidates to review. None: there was nothing to do. ``now`` is UTC
    without a zone. Takes the partition's lock: call it before a run does.
    Raises StateCorrupt naming file and line, and then nothing was imported; PartitionBusy.
    """
    present = [partition.path / n for n in (EVER_SEEN, CONFIRMED, EXCLUSIONS) if (partition.path / n).exists()]
    if not present:
        return None
    with partition_lock(partition, "import"):
        with reading(partition) as con:
            done = get_fact(con, LEGACY_IMPORTED) is not None
            used = not done and _has_rows(con)
        if used:
            return Imported(notes=("Files of an earlier client were left alone: this partition has its own state.",))
        result = None
        if not done:
            found = _read(partition.path, now)
            with writing(partition) as con:
                result = _merge(con, partition, found, now, replace=False)
                set_fact(con, LEGACY_IMPORTED, rfc3339(now))
                _counts_as_first(con, "imported from an earlier client")
        for path in present:
            with writing_to(path):
                path.rename(path.with_name(f"{path.name}.imported"))
    return result


def export_state(partition: Partition, directory: Path) -> list[Path]:
    """Writes the three JSON files, the settings and a copy of the journal; returns their paths.

    Raises UsageError when one of them is there already; nothing is written then.
    """
    names = (EVER_SEEN, CONFIRMED, EXCLUSIONS, _SETTINGS, _JOURNAL)
    if taken := [n for n in names if (directory / n).exists()]:
        raise UsageError(f"{directory} holds {', '.join(taken)} already.", "Choose an empty folder.")
    with reading(partition) as con:
        observed = dict(con.execute("SELECT checksum, albums FROM observed ORDER BY checksum").fetchall())
        confirmed = con.execute("SELECT checksum, confirmed_at FROM confirmed_deleted ORDER BY checksum").fetchall()
    exclusions = [
        {"checksum": e.checksum, "excludedAt": rfc3339(e.excluded_at), "reason": e.reason, "fileName": e.file_name}
        for e in list_exclusions(partition)
    ]
    files: dict[str, bytes | None] = {
        EVER_SEEN: _json(observed),
        CONFIRMED: _json({CONFIRMED_KEY: {checksum: rfc3339(at) for checksum, at in confirmed}}),
        EXCLUSIONS: _json(exclusions),
        _SETTINGS: read_bytes(partition.settings_file),
    }
    with locked(partition):
        files[_JOURNAL] = read_bytes(partition.journal)
    ensure_folder(directory)
    written = []
    for name, data in files.items():
        if data is not None:
            write_atomic(directory / name, data)
            written.append(directory / name)
    return written


def import_state(partition: Partition, directory: Path, now: datetime, *, overwrite: bool = False) -> Imported:
    """Merges what export_state wrote: the observed set grows, a confirmed date that stands here stays.

    Settings are taken only where there are none, and an exclusion that stands here keeps its date; ``overwrite`` takes
    both from the files (lesson 59). No exclusion is ever lifted, and the journal is taken only where there is none.
    Afterwards the next run counts as a first one, and sends its candidates to review. ``now`` is UTC without a zone.
    Raises UsageError, StateCorrupt (file and line; nothing is imported then), PartitionBusy.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a folder.", "Give the folder that `state export` wrote.")
    found = _read(directory, now)
    settings, journal = read_bytes(directory / _SETTINGS), read_bytes(directory / _JOURNAL)
    if not (found.observed or found.confirmed or found.exclusions or settings or journal):
        raise UsageError(f"{directory} holds no exported state.", "Give the folder that `state export` wrote.")
    if settings is not None:
        parse_settings(_document(directory / _SETTINGS))
    notes: list[str] = []
    with partition_lock(partition, "import"):
        with locked(partition):
            if journal is not None and not partition.journal.exists():
                write_atomic(partition.journal, journal)
            elif journal is not None:
                notes.append("The journal here was kept; the exported one was not read.")
        if settings is not None and (overwrite or not partition.settings_file.exists()):
            write_atomic(partition.settings_file, settings)
        elif settings is not None:
            notes.append("The settings here were kept.")
        append(partition, [decision("import", now, {"overwrite": overwrite})])
        with writing(partition) as con:
            result = _merge(con, partition, found, now, replace=overwrite)
            _counts_as_first(con, "imported")
    return Imported(result.observed, result.confirmed, result.excluded, tuple(notes))


def _merge(
    con: duckdb.DuckDBPyConnection, partition: Partition, found: _Files, now: datetime, *, replace: bool
) -> Imported:
    import pyarrow as pa

    time = pa.timestamp("us")
    observed = pa.table(
        {
            "checksum": pa.array(found.observed.keys(), pa.string()),
            "albums": pa.array(found.observed.values(), pa.list_(pa.string())),
        }
    )
    confirmed = pa.table(
        {
            "checksum": pa.array(found.confirmed.keys(), pa.string()),
            "confirmed_at": pa.array(found.confirmed.values(), time),
        }
    )
    con.register("in_observed", observed)
    con.register("in_confirmed", confirmed)
    # No library here has shown them yet, so none can tell of their deletion.
    con.execute(
        "INSERT INTO file_only SELECT DISTINCT checksum FROM in_observed ANTI JOIN observed USING (checksum)"
        " ANTI JOIN in_confirmed USING (checksum) ANTI JOIN file_only USING (checksum)"
    )
    seen = con.execute(
        "INSERT INTO observed SELECT checksum, albums, ? FROM in_observed ANTI JOIN observed USING (checksum)", [now]
    ).fetchall()
    stamped = con.execute(
        "INSERT INTO confirmed_deleted SELECT checksum, confirmed_at, 'deleted' FROM in_confirmed"
        " ANTI JOIN confirmed_deleted USING (checksum)"
    ).fetchall()
    standing = {row[0] for row in con.execute("SELECT checksum FROM exclusions").fetchall()}
    fresh = [e for e in found.exclusions if replace or e.checksum not in standing]
    con.execute("DELETE FROM exclusions WHERE checksum IN (SELECT unnest(?))", [[e.checksum for e in fresh]])
    insert_exclusions(con, fresh)
    if fresh:
        append(partition, [added(fresh, now)])
    return Imported(int(seen[0][0]), int(stamped[0][0]), len({e.checksum for e in fresh} - standing))


def _counts_as_first(con: duckdb.DuckDBPyConnection, why: str) -> None:
    clear_fact(con, FIRST_DRY_RUN)
    clear_fact(con, FIRST_DELETE_CONFIRMED)
    set_fact(con, HISTORY_LOST, why)


def _has_rows(con: duckdb.DuckDBPyConnection) -> bool:
    (row,) = con.execute("SELECT EXISTS (FROM observed) OR EXISTS (FROM confirmed_deleted)").fetchall()
    return bool(row[0])


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _read(directory: Path, now: datetime) -> _Files:
    """All three files, or StateCorrupt; an absent one is empty."""
    return _Files(
        _observed(directory / EVER_SEEN), _confirmed(directory / CONFIRMED), _exclusions(directory / EXCLUSIONS, now)
    )


def _observed(path: Path) -> dict[str, list[str]]:
    found = _under(_document(path), "entries")
    if isinstance(found, dict):
        pairs: Sequence[tuple[Any, Any]] = list(found.items())
    else:
        pairs = [(c, []) for c in _listed(path, found)]
    observed: dict[str, list[str]] = {}
    for place, (checksum, albums) in enumerate(pairs, start=1):
        if not isinstance(albums, list) or not all(isinstance(a, str) for a in albums):
            raise _entry(path, place, "its albums are no list of names")
        observed[_checksum(path, place, checksum)] = albums
    return observed


def _confirmed(path: Path) -> dict[str, datetime]:
    found = _under(_document(path), CONFIRMED_KEY, "entries")
    if found == []:
        return {}
    if not isinstance(found, dict):
        raise _entry(path, 1, "the file holds no object of checksums and dates")
    return {_checksum(path, n, c): _date(path, n, at) for n, (c, at) in enumerate(found.items(), start=1)}


def _exclusions(path: Path, now: datetime) -> list[Exclusion]:
    found = _under(_document(path), "exclusions", "entries")
    if isinstance(found, dict):
        found = [{"checksum": c, "excludedAt": at} for c, at in found.items()]
    exclusions: dict[str, Exclusion] = {}
    for place, item in enumerate(_listed(path, found), start=1):
        entry = item if isinstance(item, dict) else {"checksum": item}
        at = entry.get("excludedAt") or entry.get("excluded_at")
        checksum = _checksum(path, place, entry.get("checksum"))
        exclusions[checksum] = Exclusion(
            checksum,
            now if at is None else _date(path, place, at),
            str(entry.get("reason") or ""),
            str(entry.get("fileName") or entry.get("file_name") or ""),
        )
    return list(exclusions.values())


def _document(path: Path) -> Any:
    data = read_bytes(path)
    if data is None:
        return []
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise StateCorrupt(f"{path} is not JSON at line {error.lineno}.", "Correct it, or move it away.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StateCorrupt(f"{path} is not UTF-8 at line {line}.", "Correct it, or move it away.") from None


def _under(document: Any, *keys: str) -> Any:
    """What stands under the first of the keys that the object has, else the document itself."""
    if isinstance(document, dict):
        for key in keys:
            if isinstance(document.get(key), dict | list):
                return document[key]
    return document


def _listed(path: Path, found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise _entry(path, 1, "the file holds neither a list nor an object")
    return found


def _checksum(path: Path, place: int, value: Any) -> str:
    if not isinstance(value, str) or not CHECKSUM.fullmatch(value):
        raise _entry(path, place, "it has no base64 SHA-1")
    return value


def _date(path: Path, place: int, value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _entry(path, place, "its date is not ISO 8601") from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _entry(path: Path, place: int, problem: str) -> StateCorrupt:
    return StateCorrupt(f"Entry {place} of {path} is not accepted: {problem}.", "Correct it, or move the file away.")
