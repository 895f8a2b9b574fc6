"""The engine's SQL against the plain-Python model of docs/rules.md, over random worlds.

What the two promise, apart from agreeing, is in tests/model.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.policy import Policy, RailFacts
from engine.rails import evaluate
from tests.model import bridge, local_changes, rules
from tests.model import strategies as worlds
from tests.model.profiles import PROFILE
from tests.model.world import Id, LocalRow, Remembered, Scene, ServerAsset


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with bridge.open_database() as database:
        yield database


def assert_same_decisions(outcome: bridge.Outcome, view: rules.View) -> None:
    assert outcome.candidates == sorted(a.asset_id for a in rules.candidates(view))
    assert outcome.scoped == sorted(a.asset_id for a in rules.scoped(view))
    assert outcome.decisions == sorted(rules.decide(view), key=lambda d: d.asset_id)
    assert outcome.matched == rules.matched(view)


@PROFILE
@given(scene=worlds.scenes(), names=worlds.known_names)
def test_engine_and_model_remember_the_same_after_a_run(
    con: duckdb.DuckDBPyConnection, scene: Scene, names: frozenset[tuple[str, str]]
) -> None:
    expected = local_changes.apply_local_changes(scene.state, scene.rows, scene.facts, scene.beside)
    after, known = bridge.merge(con, scene.state, scene.rows, scene.facts, names, scene.beside)
    assert after == expected
    assert known == local_changes.memory(expected, scene.rows, scene.facts, names)


@PROFILE
@given(scene=worlds.scenes(), accepted=st.sets(st.sampled_from(worlds.IDS), max_size=3))
def test_engine_and_model_count_the_same_losses(
    con: duckdb.DuckDBPyConnection, scene: Scene, accepted: set[Id]
) -> None:
    assert bridge.count_losses(con, scene, accepted) == rules.losses(scene, accepted)


@PROFILE
@given(known=worlds.memories, rows=worlds.local_rows(), server=worlds.servers(), policy=worlds.policies())
def test_engine_and_model_decide_the_same(
    con: duckdb.DuckDBPyConnection,
    known: dict[str, Remembered],
    rows: tuple[LocalRow, ...],
    server: tuple[ServerAsset, ...],
    policy: Policy,
) -> None:
    assert_same_decisions(bridge.decide(con, known, rows, server, policy), rules.View(server, rows, known, policy))


@PROFILE
@given(facts=worlds.rail_facts())
def test_engine_and_model_trip_the_same_rail(facts: RailFacts) -> None:
    verdict = evaluate(facts)
    assert verdict.rail == rules.tripped_rail(facts)
    assert verdict.passed is (verdict.rail is None)
    assert bool(verdict.what) is bool(verdict.next_step) is not verdict.passed
