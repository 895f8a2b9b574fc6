"""Run ids, and the name of a run's tag on the server (spec, Trash run tag)."""

from __future__ import annotations

import re
from datetime import datetime

from engine.errors import UsageError

TAG_PREFIX = "tool/v1/run/"
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-z]{4,16}")


def run_id(now: datetime, device_id: str) -> str:
    """``<ISO 8601 UTC timestamp>-<short device id>``, in the basic format because it also names a folder.

    ``now`` is UTC. Microseconds keep two runs of one second apart; who makes the folder settles the rest.
    """
    return f"{now:%Y%m%dT%H%M%S.%fZ}-{device_id}"


def parse_run_id(text: str) -> str:
    """The run id, if it is one. Raises UsageError: a run id becomes part of a path and of a tag's name."""
    if not _RUN_ID.fullmatch(text):
        raise UsageError(f"“{text[:60]}” is not a run id.", "`deletion-sync journal list` shows the runs.")
    return text


def tag_name(run: str) -> str:
    """The one tag of a trash run."""
    return TAG_PREFIX + run


def run_of_tag(value: str) -> str | None:
    """The run id in a tag's full name, or None for any other tag."""
    suffix = value.removeprefix(TAG_PREFIX)
    return suffix if suffix != value and _RUN_ID.fullmatch(suffix) else None
