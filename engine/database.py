"""How a DuckDB connection is opened, everywhere: it may spill to a folder of ours, and it fetches nothing, ever.

A table that a query names is one that was put there: Python variables of the same name are not looked at.
"""

from __future__ import annotations

import contextlib
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

_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def connect(
    path: Path | None = None, *, read_only: bool = False, spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A connection to a database file, or to memory when ``path`` is None. Raises duckdb.Error."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {**ALWAYS}
    if spill is not None:
        config["temp_directory"] = str(spill)
    con = duckdb.connect(":memory:" if path is None else str(path), read_only=read_only, config=config)
    _open.add(con)
    return con


def interrupt_queries() -> None:
    """End every query that runs, for a signal handler that is about to raise.

    Of an exception alone DuckDB's worker threads hear nothing: it would be raised only when their query is through.
    """
    for con in tuple(_open):
        with contextlib.suppress(Exception):  # a connection that was closed
            con.interrupt()
