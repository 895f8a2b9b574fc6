"""The safety rails: facts in, a verdict out (docs/rules.md, section 5; spec, Safety rails)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from fractions import Fraction

from engine.policy import RailFacts, Verdict

CLOCK_TOLERANCE_SECONDS = 24 * 3600
MINIMUM_TRASH_DAYS = 7
COLLAPSE_FLOOR = 5  # up to this many lost ids are no collapse


# Facts that trip nothing: who knows a few of them replaces those.
QUIET = RailFacts(
    real=True,
    access_problems=(),
    inventory_problems=(),
    local_count=1,
    losses=(),
    clock_skew_seconds=0.0,
    server_count=1,
    last_server_count=None,
    trash_enabled=True,
    trash_days=None,
    to_trash=0,
    matched=0,
    threshold_percent=100,
    threshold_floor=0,
)


def _permission(facts: RailFacts) -> Verdict | None:
    if not facts.access_problems:
        return None
    return Verdict(
        "permission",
        f"A library cannot be read whole: {_some(facts.access_problems)}.",
        "Mount or repair it, then run again.",
    )


def _incomplete(facts: RailFacts) -> Verdict | None:
    if not facts.inventory_problems:
        return None
    return Verdict(
        "incomplete",
        f"The local inventory is incomplete: {_some(facts.inventory_problems)}.",
        "Run again when the files are readable and at rest.",
    )


def _empty_local(facts: RailFacts) -> Verdict | None:
    if facts.local_count > 0:
        return None
    return Verdict(
        "empty_local",
        "No local photo was found at all.",
        "Check that the library is mounted and that its path is right (`deletion-sync library list`).",
    )


def _collapse(facts: RailFacts) -> Verdict | None:
    for loss in facts.losses:
        if loss.lost > max(COLLAPSE_FLOOR, loss.accepted) and 2 * loss.lost > loss.held:
            return Verdict(
                "collapse",
                f"The library “{loss.library}” lacks {loss.lost} of the {loss.held} photos that it held before.",
                "Is all of it there? If so many really were deleted, say so with "
                f"`deletion-sync library accept {shlex.quote(loss.library)}`, then run again.",
            )
    return None


def _clock(facts: RailFacts) -> Verdict | None:
    skew = facts.clock_skew_seconds
    if skew is None and facts.real:
        return Verdict(
            "clock",
            "The server does not say what time it is, so this computer's clock cannot be checked.",
            "Let the Date header through: a proxy before the server removes it.",
        )
    if skew is None or abs(skew) <= CLOCK_TOLERANCE_SECONDS:
        return None
    hours = abs(skew) / 3600
    return Verdict(
        "clock",
        f"This computer's clock is {hours:.0f} hours {'ahead of' if skew > 0 else 'behind'} the server's.",
        "Set the clock; the quarantine depends on it.",
    )


def _empty_server(facts: RailFacts) -> Verdict | None:
    if facts.server_count > 0 or not facts.last_server_count:
        return None
    return Verdict(
        "empty_server",
        f"The server shows no asset; the last successful run saw {facts.last_server_count}.",
        "Check the server and the account before running again.",
    )


def _retention(facts: RailFacts) -> Verdict | None:
    if not facts.real:
        return None
    if not facts.trash_enabled:
        return Verdict(
            "retention",
            "The server's trash is switched off: what is trashed there is destroyed.",
            "Switch the trash on in the server's administration settings.",
        )
    if facts.trash_days is not None and facts.trash_days < MINIMUM_TRASH_DAYS:
        return Verdict(
            "retention",
            f"The server keeps its trash for {facts.trash_days} days only.",
            f"Raise it to {MINIMUM_TRASH_DAYS} days or more in the server's administration settings.",
        )
    return None


def _threshold(facts: RailFacts) -> Verdict | None:
    if facts.to_trash <= facts.threshold_floor:
        return None
    # As the person wrote it: 0.57 is not the nearest binary fraction.
    if 100 * facts.to_trash <= Fraction(str(facts.threshold_percent)) * facts.matched:
        return None
    return Verdict(
        "threshold",
        f"The run would trash {facts.to_trash} of {facts.matched} matched assets, "
        f"more than the limit of {facts.threshold_percent:g} % (and of {facts.threshold_floor} assets).",
        "Look at the list. If it is what you meant, run `deletion-sync settings set thresholdPercent N`, start again, "
        "then set it back; if not, protect the photos with `deletion-sync exclude add`.",
    )


RAILS: tuple[Callable[[RailFacts], Verdict | None], ...] = (
    _permission,
    _incomplete,
    _empty_local,
    _collapse,
    _clock,
    _empty_server,
    _retention,
    _threshold,
)
LOCAL_RAILS = RAILS[:5]  # while one of these trips, no quarantine clock starts


def evaluate(facts: RailFacts) -> Verdict:
    """The first rail that trips, or a passing verdict. An aborted run deletes nothing."""
    return _first(RAILS, facts)


def evaluate_local(facts: RailFacts) -> Verdict:
    """The same for the rails that need no server listing: the local changes of a run depend on them."""
    return _first(LOCAL_RAILS, facts)


def _first(rails: tuple[Callable[[RailFacts], Verdict | None], ...], facts: RailFacts) -> Verdict:
    for rail in rails:
        verdict = rail(facts)
        if verdict is not None:
            return verdict
    return Verdict()


def _some(problems: tuple[str, ...]) -> str:
    shown = "; ".join(problems[:3])
    return shown if len(problems) <= 3 else f"{shown}; and {len(problems) - 3} more"
