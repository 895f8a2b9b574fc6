"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.errors import UsageError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", help="Answer the question with yes beforehand: it is not asked.")]
Way = Annotated[
    str,
    typer.Option(
        "--way",
        metavar="auto|direct|prefect",
        help="How the steps run: as Prefect task runs or directly; auto: Prefect where PREFECT_API_URL answers.",
    ),
]

WAYS = ("auto", "direct", "prefect")


def checked_way(way: str) -> str:
    """One of WAYS. Raises UsageError."""
    if way not in WAYS:
        raise UsageError(f"There is no way {way!r}.", f"--way takes one of {', '.join(WAYS)}.")
    return way
