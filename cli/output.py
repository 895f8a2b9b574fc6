"""What the commands print: tables and lines, or one JSON document, on stdout; messages on stderr.

Names come from files and from the server: nothing in them may steer the terminal.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

_JOINERS = "\u200c\u200d"  # join the parts of an emoji; they steer nothing
_WIDE = 1000  # columns where no terminal limits them, so that a pipe gets whole lines


def printable(value: object) -> str:
    """The text with control characters, terminal escapes, direction marks and undecodable bytes as escapes."""
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in str(value))


def say(text: str = "") -> None:
    """A line for a person, on stdout."""
    sys.stdout.write(f"{printable(text)}\n")


def note(text: str) -> None:
    """A message, on stderr."""
    sys.stderr.write(f"{printable(text)}\n")


def emit(document: object) -> None:
    """The one JSON document of a command, on stdout. It is ASCII, so it is safe on every terminal and in every pipe."""
    json.dump(document, sys.stdout, indent=1, default=_plain)
    sys.stdout.write("\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout. A cell that is None is empty; nothing is cut off."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text("" if cell is None else printable(cell)) for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else _WIDE, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")


def day(moment: datetime | str | None) -> str:
    """A UTC moment to the minute, for a person; empty for None."""
    if moment is None:
        return ""
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{found:%Y-%m-%d %H:%M} UTC"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 photo``, ``2 photos``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def safe_streams() -> None:
    """Write what the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        _reconfigure(stream)


def _reconfigure(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _plain(value: object) -> Any:
    """What JSON has no form for: times are UTC, RFC 3339."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)
