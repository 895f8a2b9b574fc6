"""Histories of two to six runs: the engine and the model step side by side, and the engine keeps its promises.

The promises are checked against the truth of the history (history.py), never against the model. A walk is slow (a
database step for each run), so one walk checks every promise about a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import duckdb
import pytest
from hypothesis import given

from engine.policy import LocalFacts
from tests.model import bridge, history, local_changes, rules
from tests.model.history import History, Round, Truth
from tests.model.profiles import PROFILE_OF_WALKS
from tests.model.world import Id, LocalRow, State


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with bridge.open_database() as database:
        yield database


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a history by the engine: what it saw, what it was told, and what came of it."""

    number: int
    round: Round
    truth: Truth
    before: State
    rows: tuple[LocalRow, ...]
    facts: LocalFacts
    view: rules.View
    after: State
    outcome: bridge.Outcome

    @property
    def trashed(self) -> set[str]:
        """The checksums that the bucket delete would trash, linked motion videos included."""
        return {self.truth.server[asset_id].checksum for asset_id in rules.to_trash(self.outcome.decisions)}


def walk(con: duckdb.DuckDBPyConnection, story: History) -> Iterator[Step]:
    """The engine's steps through a history. An applied plan trashes its assets on the server."""
    truth, state = Truth(), State()
    for number, a_round in enumerate(story.rounds):
        for change in a_round.changes:
            truth.apply(change)
        truth.upload()
        truth.now += a_round.wait
        before = replace(state, exclusions=dict(truth.exclusions))
        rows = truth.rows(a_round)
        facts = history.facts_of(a_round, number, truth.now, story.policy.strictness)
        state, known = bridge.merge(con, before, rows, facts)
        policy = replace(story.policy, now=truth.now, change_log=facts.change_log, history_lost=facts.history_lost)
        server = tuple(truth.server.values())
        outcome = bridge.decide(con, known, rows, server, policy)
        view = rules.View(server, rows, known, policy)
        yield Step(number, a_round, truth, before, rows, facts, view, state, outcome)
        if a_round.applied and facts.complete:
            for asset_id in rules.to_trash(outcome.decisions):
                truth.server[asset_id] = replace(truth.server[asset_id], is_trashed=True)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_engine_and_model_walk_side_by_side(con: duckdb.DuckDBPyConnection, story: History) -> None:
    for step in walk(con, story):
        assert step.after == local_changes.apply_local_changes(step.before, step.rows, step.facts)
        assert step.view.memory == local_changes.memory(step.after, step.rows, step.facts, ())
        assert step.outcome.candidates == sorted(a.asset_id for a in rules.candidates(step.view))
        assert step.outcome.decisions == sorted(rules.decide(step.view), key=lambda d: d.asset_id)


# ---------------------------------------------------------------- promises about one run


def no_photo_that_is_still_there_is_a_candidate(step: Step) -> None:
    if step.round.kind in ("complete", "history_lost"):
        there = {checksum for content in step.truth.photos.values() for checksum in content}
        candidates = {step.truth.server[asset_id].checksum for asset_id in step.outcome.candidates}
        assert not there & (candidates | step.trashed)


def no_confirmation_moves_and_only_what_is_back_is_unconfirmed(step: Step) -> None:
    alive = local_changes.alive_checksums(step.rows)
    for checksum, entry in step.before.confirmed.items():
        assert step.after.confirmed.get(checksum) == (None if checksum in alive else entry)


def an_incomplete_run_confirms_nothing_and_forgets_nothing(step: Step) -> None:
    if step.round.kind in ("incomplete", "file"):
        assert step.after.confirmed.keys() <= step.before.confirmed.keys()
        assert {row.id for row in step.before.index} <= {row.id for row in step.after.index}
        assert step.before.anchors.items() <= step.after.anchors.items()


def the_observed_set_only_grows_and_exclusions_stay(step: Step) -> None:
    assert step.before.observed.keys() <= step.after.observed.keys()
    assert step.before.exclusions == step.after.exclusions


def a_lost_history_trashes_nothing(step: Step) -> None:
    assert not (step.facts.history_lost and step.trashed)


PROMISES_OF_A_RUN = (
    no_photo_that_is_still_there_is_a_candidate,
    no_confirmation_moves_and_only_what_is_back_is_unconfirmed,
    an_incomplete_run_confirms_nothing_and_forgets_nothing,
    the_observed_set_only_grows_and_exclusions_stay,
    a_lost_history_trashes_nothing,
)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_every_run_of_a_history_keeps_its_promises(con: duckdb.DuckDBPyConnection, story: History) -> None:
    for step in walk(con, story):
        for promise in PROMISES_OF_A_RUN:
            promise(step)


# ---------------------------------------------------------------- promises about a whole history


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_lesson_1_first_bytes_live_on_and_quarantine_is_never_cut_short(
    con: duckdb.DuckDBPyConnection, story: History
) -> None:
    first_seen: dict[Id, set[str]] = {}
    last_seen: dict[str, datetime] = {}
    for step in walk(con, story):
        last_seen |= dict.fromkeys(local_changes.alive_checksums(step.rows), step.facts.now)
        for decision in step.outcome.decisions:
            if (decision.bucket, decision.reason) == ("delete", "confirmed"):
                waited = step.facts.now - last_seen[decision.checksum]
                assert waited >= timedelta(days=story.policy.quarantine_days)
        if step.facts.change_log:
            seen = local_changes.checksums_by_id(local_changes.seen_whole(step.rows))
            if step.facts.complete:
                first_seen = {i: checksums for i, checksums in first_seen.items() if i in seen}
            first_seen = seen | first_seen
        assert not step.trashed & {c for checksums in first_seen.values() for c in checksums}


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_a_run_made_twice_changes_nothing_more(con: duckdb.DuckDBPyConnection, story: History) -> None:
    for step in walk(con, story):
        again, known = bridge.merge(con, step.after, step.rows, step.facts)
        assert again == step.after
        assert known == step.view.memory
