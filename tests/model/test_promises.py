"""The invariants of the engine over random worlds, stated on its output alone: the model has no say here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.policy import Policy
from tests.model import bridge
from tests.model import strategies as worlds
from tests.model.profiles import PROFILE_OF_PROMISES, once
from tests.model.strategies import INSTANT, NOW
from tests.model.world import Decision, LocalRow, Remembered, ServerAsset


@dataclass(frozen=True, slots=True)
class World:
    """The inputs of sections 2 to 4."""

    known: dict[str, Remembered]
    rows: tuple[LocalRow, ...]
    server: tuple[ServerAsset, ...]
    policy: Policy

    def asset(self, asset_id: str) -> ServerAsset:
        return next(a for a in self.server if a.asset_id == asset_id)

    def of(self, checksum: str) -> Remembered:
        return self.known.get(checksum, Remembered())

    def linking_to(self, asset_id: str) -> set[str]:
        """Own, untrashed assets that link to this id."""
        return {
            a.asset_id
            for a in self.server
            if a.owner_id == "me" and not a.is_trashed and a.live_photo_video_id == asset_id
        }


random_worlds = st.builds(World, worlds.memories, worlds.local_rows(), worlds.servers(), worlds.policies())
Decide = Callable[[World], bridge.Outcome]


@pytest.fixture(scope="module")
def decide() -> Iterator[Decide]:
    with bridge.open_database() as con:
        yield once(lambda w: bridge.decide(con, w.known, w.rows, w.server, w.policy))


def deletes(outcome: bridge.Outcome) -> list[Decision]:
    return [d for d in outcome.decisions if d.bucket == "delete"]


def motions(world: World, outcome: bridge.Outcome) -> list[ServerAsset]:
    """The linked motion videos that go along and are in the listing."""
    taken = {d.motion_id for d in deletes(outcome)}
    return [a for a in world.server if a.asset_id in taken]


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_never_trashes_an_unobserved_checksum(decide: Decide, world: World) -> None:
    outcome = decide(world)
    assert all(world.of(d.checksum).observed for d in outcome.decisions)
    for decision in deletes(outcome):
        # The one exception: the motion video that the candidate itself links to.
        assert decision.motion_id in (None, world.asset(decision.asset_id).live_photo_video_id)


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_alive_or_anchored_is_never_a_candidate(decide: Decide, world: World) -> None:
    outcome = decide(world)
    alive = {row.checksum for row in world.rows}
    touched = [world.asset(asset_id) for asset_id in outcome.candidates] + motions(world, outcome)
    assert not [a for a in touched if a.checksum in alive or world.of(a.checksum).anchored]


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_only_own_untrashed_unlocked_assets_are_ever_trashed(decide: Decide, world: World) -> None:
    outcome = decide(world)
    for asset in [world.asset(asset_id) for asset_id in outcome.candidates] + motions(world, outcome):
        assert (asset.owner_id, asset.is_trashed, asset.visibility == "locked") == ("me", False, False)
        assert asset.library_id is None or world.policy.include_external


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_excluded_is_never_in_the_delete_bucket(decide: Decide, world: World) -> None:
    outcome = decide(world)
    touched = [d.checksum for d in deletes(outcome)] + [a.checksum for a in motions(world, outcome)]
    assert all(world.of(checksum).excluded_at is None for checksum in touched)


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_quarantine_is_never_cut_short(decide: Decide, world: World) -> None:
    outcome = decide(world)
    window = timedelta(days=world.policy.quarantine_days)
    for checksum in [d.checksum for d in deletes(outcome)] + [a.checksum for a in motions(world, outcome)]:
        confirmed_at = world.of(checksum).confirmed_at
        assert confirmed_at is None or confirmed_at + window <= NOW


@PROFILE_OF_PROMISES
@given(world=random_worlds, instants=st.integers(1, 3))
def test_nothing_leaves_quarantine_by_a_clock_that_goes_back(decide: Decide, world: World, instants: int) -> None:
    earlier = replace(world, policy=replace(world.policy, now=NOW - instants * INSTANT))
    confirmed = {d.asset_id for d in deletes(decide(world)) if d.reason == "confirmed"}
    assert {d.asset_id for d in deletes(decide(earlier)) if d.reason == "confirmed"} <= confirmed


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_both_halves_of_a_live_photo_go_together_or_stay(decide: Decide, world: World) -> None:
    outcome = decide(world)
    going = {d.asset_id for d in deletes(outcome)}
    for decision in deletes(outcome):
        video_id = world.asset(decision.asset_id).live_photo_video_id
        if decision.motion_id is None and video_id is not None:
            # Alone only where the video is trashed already, or another own asset that stays still links to it.
            trashed = any(a.asset_id == video_id and a.is_trashed for a in world.server)
            assert trashed or world.linking_to(video_id) - going


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_motion_of_a_surviving_still_stays(decide: Decide, world: World) -> None:
    outcome = decide(world)
    going = {d.asset_id for d in deletes(outcome)}
    for decision in deletes(outcome):
        if decision.motion_id is not None:
            assert world.linking_to(decision.motion_id) <= going
    assert not [d.asset_id for d in deletes(outcome) if world.linking_to(d.asset_id)]


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_held_is_part_of_pending_and_every_asset_has_one_bucket(decide: Decide, world: World) -> None:
    outcome = decide(world)
    ids = [d.asset_id for d in outcome.decisions]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(outcome.scoped) <= set(outcome.candidates)
    dropped = set(outcome.scoped) - set(ids)
    assert all(world.of(world.asset(asset_id).checksum).excluded_at is not None for asset_id in dropped)
    for decision in outcome.decisions:
        assert decision.bucket in ("delete", "review", "held")
        assert (decision.days_left is not None) is (decision.bucket == "held")
        assert decision.bucket != "held" or decision.due_at is None or decision.due_at > NOW
        assert decision.motion_id is None or decision.bucket == "delete"


@PROFILE_OF_PROMISES
@given(world=random_worlds)
def test_an_empty_selection_yields_no_candidate_and_strict_trashes_only_confirmed(decide: Decide, world: World) -> None:
    outcome = decide(world)
    if world.policy.selected_albums == ():
        assert (outcome.scoped, outcome.decisions, outcome.matched) == ([], [], 0)
    if world.policy.strictness == "strict" or world.policy.history_lost:
        assert all(d.reason == "confirmed" for d in deletes(outcome))
    assert not (world.policy.history_lost and deletes(outcome))
