"""Histories of two to six runs: the engine and the model step side by side, and the engine keeps its promises.

The promises are checked against the truth of the history (history.py), never against the model. A walk is slow (a
database step for each run), so one walk checks every promise about a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import duckdb
import pytest
from hypothesis import given

from engine.policy import LocalFacts
from tests.model import bridge, history, local_changes, rules
from tests.model.history import History, Round, Truth
from tests.model.profiles import PROFILE_OF_WALKS, once
from tests.model.world import Beside, Id, LocalRow, State


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a history by the engine: what it saw, what it was told, and what came of it."""

    number: int
    round: Round
    truth: Truth
    before: State
    rows: tuple[LocalRow, ...]
    facts: LocalFacts
    beside: Beside
    view: rules.View
    after: State
    outcome: bridge.Outcome

    @property
    def trashed(self) -> set[str]:
        """The checksums that the bucket delete would trash, linked motion videos included."""
        return {self.truth.server[asset_id].checksum for asset_id in rules.to_trash(self.outcome.decisions)}

    @property
    def kept(self) -> set[str]:
        """The checksums that this run saw outside the trash."""
        return {row.checksum for row in self.rows if row.checksum is not None and not row.in_trash}

    @property
    def anchors_outside(self) -> set[str]:
        """The anchors of the ids that this run saw outside the trash."""
        outside = {row.id for row in self.rows if not row.in_trash}
        return {c for local_id in outside for c in self.after.anchors.get(local_id, frozenset())}

    @property
    def held_outside(self) -> dict[Id, set[str]]:
        """What each id held that this run read whole and saw outside the trash."""
        whole = local_changes.seen_whole(self.rows)
        return local_changes.checksums_by_id(row for row in whole if not row.in_trash)


Walk = Callable[[History], tuple[Step, ...]]


@pytest.fixture(scope="module")
def walk(con: duckdb.DuckDBPyConnection) -> Walk:
    """The engine's steps through a history. An applied plan trashes its assets on the server."""
    return once(lambda story: tuple(_steps(con, story)))


def _steps(con: duckdb.DuckDBPyConnection, story: History) -> Iterator[Step]:
    truth, state = Truth(), State()
    for number, a_round in enumerate(story.rounds):
        for change in a_round.changes:
            truth.apply(change)
        truth.upload()
        truth.now += a_round.wait
        before = replace(state, exclusions=dict(truth.exclusions))
        rows = truth.rows(a_round)
        facts = history.facts_of(a_round, number, truth.now, story.policy.strictness)
        beside = truth.beside()
        state, known = bridge.merge(con, before, rows, facts, (), beside)
        policy = replace(story.policy, now=truth.now, change_log=facts.change_log, history_lost=facts.history_lost)
        server = tuple(truth.server.values())
        outcome = bridge.decide(con, known, rows, server, policy)
        view = rules.View(server, rows, known, policy)
        yield Step(number, a_round, truth.copy(), before, rows, facts, beside, view, state, outcome)
        if a_round.applied and facts.complete:
            truth.trash_on_server(rules.to_trash(outcome.decisions))


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_engine_and_model_walk_side_by_side(walk: Walk, story: History) -> None:
    for step in walk(story):
        assert step.after == local_changes.apply_local_changes(step.before, step.rows, step.facts, step.beside)
        assert step.view.memory == local_changes.memory(step.after, step.rows, step.facts, ())
        assert step.outcome.candidates == sorted(a.asset_id for a in rules.candidates(step.view))
        assert step.outcome.decisions == sorted(rules.decide(step.view), key=lambda d: d.asset_id)


# ---------------------------------------------------------------- promises about one run


def no_photo_that_is_still_there_is_a_candidate(step: Step) -> None:
    if step.round.kind in ("complete", "history_lost"):
        lying = (*step.truth.photos.values(), *step.truth.trash.values())
        there = {checksum for content in lying for checksum in content}
        candidates = {step.truth.server[asset_id].checksum for asset_id in step.outcome.candidates}
        assert not there & (candidates | step.trashed)


def no_confirmation_moves_and_only_what_is_back_is_unconfirmed(step: Step) -> None:
    back = step.kept | (step.anchors_outside if step.facts.change_log else set())
    for checksum, entry in step.before.confirmed.items():
        assert step.after.confirmed.get(checksum) == (None if checksum in back else entry)


def nothing_outside_the_trash_is_confirmed_nor_its_first_bytes(step: Step) -> None:
    """So what is restored from the trash is un-confirmed with its anchors."""
    assert not step.kept & step.after.confirmed.keys()
    if step.facts.change_log:
        assert not step.anchors_outside & step.after.confirmed.keys()


def an_incomplete_run_confirms_nothing_and_forgets_nothing(step: Step) -> None:
    if step.round.kind in ("incomplete", "file"):
        assert step.after.confirmed.keys() <= step.before.confirmed.keys()
        given = step.beside.handed_over if step.facts.change_log else frozenset()
        assert {row.id for row in step.before.index} - given <= {row.id for row in step.after.index}
        kept = {i: anchors for i, anchors in step.before.anchors.items() if i not in given}
        assert kept.items() <= step.after.anchors.items()


def the_observed_set_only_grows_and_exclusions_stay(step: Step) -> None:
    assert step.before.observed.keys() <= step.after.observed.keys()
    assert step.before.exclusions == step.after.exclusions


def a_lost_history_trashes_nothing(step: Step) -> None:
    assert not (step.facts.history_lost and step.trashed)


PROMISES_OF_A_RUN = (
    no_photo_that_is_still_there_is_a_candidate,
    no_confirmation_moves_and_only_what_is_back_is_unconfirmed,
    nothing_outside_the_trash_is_confirmed_nor_its_first_bytes,
    an_incomplete_run_confirms_nothing_and_forgets_nothing,
    the_observed_set_only_grows_and_exclusions_stay,
    a_lost_history_trashes_nothing,
)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_every_run_of_a_history_keeps_its_promises(walk: Walk, story: History) -> None:
    for step in walk(story):
        for promise in PROMISES_OF_A_RUN:
            promise(step)


# ---------------------------------------------------------------- promises about a whole history


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_lesson_1_first_bytes_live_on_and_quarantine_is_never_cut_short(walk: Walk, story: History) -> None:
    first_seen: dict[Id, set[str]] = {}
    last_kept: dict[str, datetime] = {}
    for step in walk(story):
        last_kept |= dict.fromkeys(step.kept, step.facts.now)
        for decision in step.outcome.decisions:
            if (decision.bucket, decision.reason) == ("delete", "confirmed"):
                waited = step.facts.now - last_kept[decision.checksum]
                assert waited >= timedelta(days=story.policy.quarantine_days)
        if step.facts.change_log:
            seen = local_changes.checksums_by_id(local_changes.seen_whole(step.rows))
            if step.facts.complete:
                first_seen = {i: checksums for i, checksums in first_seen.items() if i in seen}
            first_seen = seen | first_seen
        assert not step.trashed & {c for checksums in first_seen.values() for c in checksums}


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_lesson_22_what_was_put_in_the_trash_waits_its_quarantine_from_then_on(walk: Walk, story: History) -> None:
    first_in_trash: dict[str, datetime] = {}
    for step in walk(story):
        alive = local_changes.alive_checksums(step.rows)
        first_in_trash = dict.fromkeys(alive, step.facts.now) | first_in_trash
        first_in_trash = {c: at for c, at in first_in_trash.items() if c not in step.kept}
        assert not step.trashed & alive
        for checksum in step.trashed & first_in_trash.keys():
            assert step.facts.now - first_in_trash[checksum] >= timedelta(days=story.policy.quarantine_days)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_lesson_22_the_clock_starts_with_the_trash_not_when_it_is_emptied(walk: Walk, story: History) -> None:
    outside: dict[Id, set[str]] = {}
    started: dict[str, datetime] = {}
    for step in walk(story):
        now = step.facts.now
        if step.facts.change_log:
            outside = {i: held for i, held in outside.items() if i not in step.beside.handed_over}
            if step.facts.complete:
                left = {c for i, held in outside.items() if i not in step.held_outside for c in held}
                left -= step.kept | step.anchors_outside
                assert left <= step.after.confirmed.keys()
                started = dict.fromkeys(left, now) | started
                outside = {}
            outside |= step.held_outside
        started = {c: at for c, at in started.items() if c in step.after.confirmed}
        for decision in step.outcome.decisions:
            single = step.truth.server[decision.asset_id].live_photo_video_id is None
            if single and decision.due_at is not None and decision.checksum in started:
                assert decision.due_at <= started[decision.checksum] + timedelta(days=story.policy.quarantine_days)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_lesson_13_what_was_handed_over_and_what_somebody_brought_back_is_not_trashed(
    walk: Walk, story: History
) -> None:
    given: set[str] = set()
    last_alive: dict[str, datetime] = {}
    for step in walk(story):
        last_alive |= dict.fromkeys(local_changes.alive_checksums(step.rows), step.facts.now)
        if step.facts.change_log:
            known = local_changes.checksums_by_id(step.before.index)
            given |= {c for i in step.beside.handed_over & known.keys() for c in known[i]}
        given -= step.kept
        ours = {c for c, at in step.beside.trashed_here.items() if c not in last_alive or last_alive[c] < at}
        # A linked motion video goes with its still, whatever is known of itself.
        going = {d.checksum for d in step.outcome.decisions if d.bucket == "delete"}
        assert not going & (given | ours)


@PROFILE_OF_WALKS
@given(story=history.histories)
def test_a_run_made_twice_changes_nothing_more(con: duckdb.DuckDBPyConnection, walk: Walk, story: History) -> None:
    for step in walk(story):
        again, known = bridge.merge(con, step.after, step.rows, step.facts, (), step.beside)
        assert again == step.after
        assert known == step.view.memory
