"""How a DuckDB connection is opened, everywhere: it may spill to a folder of ours, and it fetches nothing, ever.

A table that a query names is one that was put there: Python variables of the same name are not looked at.

To make an instance of DuckDB takes ten times as long as to open a file in one, so what the main thread opens shares
one. A file is open in it only as long as somebody has a connection to it. After an error another instance is made. What
other threads open has instances of its own: a fatal error ends whatever is open in the same one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import duckdb

# DuckDB would otherwise look for missing extensions on the network (spec, Privacy).
ALWAYS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
MEMORY = ":memory:"


@dataclass(slots=True)
class _Database:
    """``alias``: what it is called in its instance. ``users``: how many connections there are to it."""

    alias: str
    users: int = 0


@dataclass(slots=True)
class _Instance:
    """``spill``: where to, if it was told. ``files``: what is open for reading. ``users``: how many connections."""

    con: duckdb.DuckDBPyConnection
    spill: Path | None
    files: dict[Path, _Database] = field(default_factory=dict)
    opened: int = 0
    users: int = 0


_shared: _Instance | None = None
_of_the_parent: list[_Instance] = []  # its threads are not in this process, so it can be neither used nor closed
_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def connect(
    path: Path | None = None, *, read_only: bool = False, spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A connection in an instance of its own, to a file or, when ``path`` is None, to memory. Raises duckdb.Error."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {**ALWAYS}
    if path is None or spill is not None:
        config["temp_directory"] = str(spill or "")  # never the working directory
    con = duckdb.connect(MEMORY if path is None else str(path), read_only=read_only, config=config)
    _open.add(con)
    return con


@contextlib.contextmanager
def database(
    path: Path | None = None, *, read_only: bool = False, spill: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database file, or to an empty database in memory when ``path`` is None. Raises duckdb.Error.

    The caller sees to it that nobody reads a file while it is open for writing. ``spill``: where to; where nothing is
    said, beside the first file.
    """
    import duckdb

    if threading.current_thread() is not threading.main_thread():
        with contextlib.closing(connect(path, read_only=read_only, spill=spill)) as con:
            yield con
        return
    file = None if path is None else Path(os.path.realpath(path))
    instance = _instance(spill, file)
    there = _attached(instance, file, read_only)
    try:
        with _cursor(instance, there) as con:
            yield con
    except BaseException as error:
        if isinstance(error, duckdb.Error) or not isinstance(error, Exception):
            _forget(instance)
        raise
    finally:
        _left(instance, file, there)


def let_go() -> None:
    """Give back the memory that earlier queries of this thread took, for a program that stays on."""
    global _shared
    if _shared is not None and not _shared.users:
        _shared = None


def interrupt_queries() -> None:
    """End every query that runs, for a signal handler that is about to raise.

    Of an exception alone DuckDB's worker threads hear nothing: it would be raised only when their query is through.
    """
    for con in tuple(_open):
        with contextlib.suppress(Exception):  # a connection that was closed
            con.interrupt()


def _instance(spill: Path | None, file: Path | None) -> _Instance:
    global _shared
    if spill is None and file is not None and (_shared is None or _shared.spill is None):
        spill = file.with_name(f"{file.name}.tmp")
    if _shared is None or (spill is not None and spill != _shared.spill):
        _shared = _Instance(connect(spill=spill), spill)
    return _shared


def _attached(instance: _Instance, file: Path | None, read_only: bool) -> _Database:
    there = None if file is None else instance.files.get(file)
    if there is None:
        instance.opened += 1
        there = _Database(f"opened_{instance.opened}")
        name = MEMORY if file is None else str(file).replace("'", "''")
        try:
            instance.con.execute(f"ATTACH '{name}' AS {there.alias}{' (READ_ONLY)' if read_only else ''}")
        except BaseException:
            _detach(instance, there)  # Ctrl-C may have come when it was open
            _forget(instance)
            raise
        if file is not None and read_only:
            instance.files[file] = there
    there.users += 1
    instance.users += 1
    return there


def _left(instance: _Instance, file: Path | None, there: _Database) -> None:
    there.users -= 1
    instance.users -= 1
    if not there.users:
        if file is not None:
            instance.files.pop(file, None)
        _detach(instance, there)


def _detach(instance: _Instance, there: _Database) -> None:
    """Closing writes everything into the file; what cannot be written now stays in its write-ahead log."""
    import duckdb

    statement = f"DETACH DATABASE IF EXISTS {there.alias}"
    try:
        instance.con.execute(statement)
    except duckdb.Error:
        _forget(instance)
    except BaseException:  # Ctrl-C: it may be open still
        _forget(instance)
        with contextlib.suppress(duckdb.Error):
            instance.con.execute(statement)
        raise


@contextlib.contextmanager
def _cursor(instance: _Instance, there: _Database) -> Iterator[duckdb.DuckDBPyConnection]:
    con = instance.con.cursor()
    _open.add(con)
    try:
        con.execute(f"USE {there.alias}")
        yield con
    finally:
        con.close()


def _forget(instance: _Instance) -> None:
    """Whoever still has a connection in it goes on; the next one gets another instance."""
    global _shared
    if _shared is instance:
        _shared = None


def _after_fork() -> None:
    global _shared
    if _shared is not None:
        _of_the_parent.append(_shared)
        _shared = None


os.register_at_fork(after_in_child=_after_fork)
