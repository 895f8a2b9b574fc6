"""The safety rails, by hand: what counts as lost, and which rail trips first.

Each is asked of the model and of the engine, so that neither can be right by agreeing with the other.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from engine.policy import Loss, RailFacts
from engine.rails import evaluate, evaluate_local
from tests.model import bridge, rules
from tests.model.makers import A, B, C, D, E, F, photo, run_facts
from tests.model.world import Beside, Scene, State


def test_lesson_85_lost_is_what_lay_outside_the_trash_and_is_neither_listed_nor_alive_nor_handed_over(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trashed = replace(photo(A, "trashed"), in_trash=True)
    partly = (photo(B, "partly"), replace(photo(C, "partly", part="motion"), in_trash=True))
    index = frozenset({trashed, *partly, photo(D, "moved"), photo(E, "given"), photo(F, "listed"), photo(A, "lost")})
    rows = (photo(C, "5"), photo(D, "6"), photo(None, "listed"))
    beside = Beside(handed_over=frozenset({("L1", "given")}))
    scene = Scene(State(index=index), run_facts(0), rows, beside)
    # The photo of "partly" is gone; that its video lies in a trash makes it no less lost.
    for accepted in ({("L1", "moved")}, {("L1", "lost"), ("L1", "moved")}, {("L1", "lost"), ("L1", "partly")}):
        expected = (Loss("L1", held=5, lost=2, accepted=len(accepted - {("L1", "moved")})),)
        assert rules.losses(scene, accepted) == expected
        assert bridge.count_losses(con, scene, accepted) == expected


QUIET = RailFacts(True, (), (), 10, (), 0.0, 10, 10, True, 30, 1, 100, 1.0, 5)


@pytest.mark.parametrize(
    ("changes", "rail"),
    [
        ({}, None),
        ({"access_problems": ("gone",)}, "permission"),
        ({"inventory_problems": ("unread",), "local_count": 0}, "incomplete"),
        ({"local_count": 0, "server_count": 0}, "empty_local"),
        ({"local_count": 1}, None),
        ({"losses": (Loss("L1", 11, 6, 0),)}, "collapse"),
        ({"losses": (Loss("L1", 12, 6, 0),)}, None),
        ({"losses": (Loss("L1", 5, 5, 0),)}, None),
        ({"losses": (Loss("L1", 7, 7, 6),)}, "collapse"),
        ({"losses": (Loss("L1", 7, 7, 7),)}, None),
        ({"losses": (Loss("L1", 9, 0, 0), Loss("L2", 6, 6, 0)), "clock_skew_seconds": 1e6}, "collapse"),
        ({"clock_skew_seconds": -86_401.0}, "clock"),
        ({"clock_skew_seconds": 86_400.0}, None),
        ({"clock_skew_seconds": None}, "clock"),
        ({"clock_skew_seconds": None, "real": False}, None),
        ({"server_count": 0}, "empty_server"),
        ({"server_count": 1}, None),
        ({"server_count": 0, "last_server_count": 0}, None),
        ({"server_count": 0, "last_server_count": None}, None),
        ({"trash_enabled": False}, "retention"),
        ({"trash_enabled": False, "real": False}, None),
        ({"trash_days": 6}, "retention"),
        ({"trash_days": 6, "real": False}, None),
        ({"trash_days": 7}, None),
        ({"to_trash": 5}, None),
        ({"to_trash": 6}, "threshold"),
        ({"to_trash": 6, "matched": 600}, None),
        ({"to_trash": 6, "matched": 599}, "threshold"),
        ({"to_trash": 6, "matched": 0}, "threshold"),
        ({"to_trash": 1, "matched": 0, "threshold_floor": 0}, "threshold"),
    ],
)
def test_rails_table(changes: dict[str, object], rail: str | None) -> None:
    facts = replace(QUIET, **changes)  # type: ignore[arg-type]
    assert rules.tripped_rail(facts) == rail
    assert evaluate(facts).rail == rail
    # Quarantine clocks wait for what is wrong here; what is wrong with the server's answer is no reason to.
    assert evaluate_local(facts).rail == (rail if rail not in ("empty_server", "retention", "threshold") else None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"access_problems": ("a", "b", "c")}, "A library cannot be read whole: a; b; c."),
        ({"access_problems": ("a", "b", "c", "d")}, "A library cannot be read whole: a; b; c; and 1 more."),
        ({"clock_skew_seconds": 90_000.0}, "This computer's clock is 25 hours ahead of the server's."),
        ({"clock_skew_seconds": -90_000.0}, "This computer's clock is 25 hours behind the server's."),
    ],
)
def test_a_rail_says_what_it_saw(changes: dict[str, object], said: str) -> None:
    assert evaluate(replace(QUIET, **changes)).what == said  # type: ignore[arg-type]
