"""What was notified of and still holds, per channel, and since when the server gives no answer: facts of a partition.

What is worth a notice, and how it is sent, lives in flows.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from state.runs import clear_fact, get_fact, set_fact

if TYPE_CHECKING:
    import duckdb

NOTICED = "noticed:"  # and the channel
NO_ANSWER_SINCE = "no_answer_since"


def noticed(con: duckdb.DuckDBPyConnection, channel: str) -> frozenset[str]:
    """What the channel took and what still held at the last look."""
    text = get_fact(con, NOTICED + channel)
    return frozenset() if text is None else frozenset(json.loads(text))


def set_noticed(con: duckdb.DuckDBPyConnection, channel: str, marks: Collection[str]) -> None:
    """Replace it; nothing at all leaves no fact."""
    if marks:
        set_fact(con, NOTICED + channel, json.dumps(sorted(marks)))
    else:
        clear_fact(con, NOTICED + channel)


def no_answer_since(con: duckdb.DuckDBPyConnection) -> datetime | None:
    """The first of the runs in a row that the server did not answer: UTC without a zone."""
    text = get_fact(con, NO_ANSWER_SINCE)
    return None if text is None else datetime.fromisoformat(text)


def set_no_answer_since(con: duckdb.DuckDBPyConnection, moment: datetime | None) -> None:
    """None: it answered."""
    if moment is None:
        clear_fact(con, NO_ANSWER_SINCE)
    else:
        set_fact(con, NO_ANSWER_SINCE, moment.isoformat())
