"""Why a part of a local asset has no checksum yet. Where such parts are remembered is state's."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The short code that the store of deferred hashes keeps (spec, item 9). The values are frozen: files hold them."""

    TOO_LARGE = "too_large"
    TIME_BUDGET = "time_budget"
    NOT_ON_THIS_COMPUTER = "not_on_this_computer"
    UNREADABLE = "unreadable"
    CHANGED = "changed"
    NO_WORKER = "no_worker"


# Reading was tried, and did not come to its end. What a limit kept back is no failure,
# nor is what a cluster did not do: it says nothing about the file.
FAILED = frozenset({Reason.NOT_ON_THIS_COMPUTER, Reason.UNREADABLE, Reason.CHANGED})

_IN_WORDS = {
    Reason.TOO_LARGE: "larger than hashSizeLimitMB",
    Reason.TIME_BUDGET: "the time for hashing was used up",
    Reason.NOT_ON_THIS_COMPUTER: "not on this computer",
    Reason.UNREADABLE: "cannot be read",
    Reason.NO_WORKER: "the Dask cluster did not read it",
    Reason.CHANGED: "gone, or changed while it was read",
}


def in_words(code: str) -> str:
    """What a person reads for a code; one of a later version is shown as it is."""
    return _IN_WORDS[Reason(code)] if code in frozenset(Reason) else code
