"""`exclude`: checksums that no run trashes."""

from __future__ import annotations

import typer

app = typer.Typer(help="Photos that no run trashes.", rich_markup_mode=None, no_args_is_help=True)
