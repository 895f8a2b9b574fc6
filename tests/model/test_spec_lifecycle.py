"""The confirmed-deleted lifecycle of the specification, its edit example, and the trash, by hand.

Each is asked of the model and of the engine, so that neither can be right by agreeing with the other.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from engine.settings import Strictness
from tests.model.makers import (
    DAY,
    A,
    B,
    C,
    D,
    F,
    Maker,
    confirmed_at,
    in_trash,
    photo,
    policy_on,
    run_facts,
    verdicts,
    walk,
)
from tests.model.strategies import INSTANT, NOW
from tests.model.world import Beside, Confirmed, LocalRow, Retired, ServerAsset, State


def test_a_deletion_is_confirmed_once_and_its_date_never_moves(maker: Maker) -> None:
    state = walk(maker, ((photo(A), photo(B, "2")), run_facts(0)), ((photo(B, "2"),), run_facts(1)))
    assert confirmed_at(state) == {A: NOW + DAY}
    state = walk(maker, ((photo(B, "2"),), run_facts(2)), start=state)
    assert confirmed_at(state) == {A: NOW + DAY}


def test_lesson_4_what_is_back_is_unconfirmed_on_every_path(maker: Maker) -> None:
    gone = walk(maker, ((photo(A), photo(B, "2")), run_facts(0)), ((photo(B, "2"),), run_facts(1)))
    paths = [
        ((photo(A), photo(B, "2")), run_facts(2)),
        ((photo(A, "9"), photo(B, "2")), run_facts(2)),
        ((photo(A),), run_facts(2, complete=False)),
        ((photo(A),), run_facts(2, complete=False, change_log=False)),
        ((photo(A),), run_facts(2, history_lost=True)),
        ((photo(A),), run_facts(2, strictness=Strictness.STRICT)),
    ]
    for rows, facts in paths:
        back = walk(maker, (rows, facts), start=gone)
        assert A not in back.confirmed
    again = walk(maker, paths[0], ((photo(B, "2"),), run_facts(3)), start=gone)
    assert confirmed_at(again) == {A: NOW + 3 * DAY}


def test_lesson_3_a_copy_that_lives_keeps_its_checksum(maker: Maker) -> None:
    twins = (photo(A), photo(A, "2"))
    state = walk(maker, (twins, run_facts(0)), (twins[1:], run_facts(1)))
    assert state.confirmed == {}
    state = walk(maker, ((photo(B, "3"),), run_facts(2)), start=state)
    assert confirmed_at(state) == {A: NOW + 2 * DAY}


def test_lesson_1_the_edit_example_of_the_specification(maker: Maker) -> None:
    original, first_edit, second_edit = A, B, C
    server = tuple(ServerAsset(f"s-{c[0]}", c) for c in (original, first_edit, second_edit))
    state = State()
    days = {
        0: (original, {}),
        1: (first_edit, {}),
        2: (original, {"s-B": ("held", "retired_edit")}),
        3: (second_edit, {"s-B": ("held", "quarantine")}),
        16: (second_edit, {"s-B": ("held", "quarantine")}),
        17: (second_edit, {"s-B": ("delete", "confirmed")}),
    }
    for day, (now_held, expected) in days.items():
        rows = (photo(now_held),)
        state, known = maker.merge(state, rows, run_facts(day))
        seen = tuple(asset for asset in server if asset.checksum in state.observed)
        assert verdicts(maker.decide(known, rows, seen, policy_on(day))) == expected, day
        assert original not in state.confirmed
        assert state.anchors == {("L1", "1"): frozenset({original})}
    assert state.confirmed.keys() == {first_edit}


def test_deleting_an_edited_photo_confirms_its_bytes_and_its_anchor(maker: Maker) -> None:
    keep = photo(F, "keep")
    state = walk(maker, ((photo(A), keep), run_facts(0)), ((photo(B), keep), run_facts(1)), ((keep,), run_facts(2)))
    assert {c: (e.at, e.cause) for c, e in state.confirmed.items()} == {
        A: (NOW + 2 * DAY, "deleted"),
        B: (NOW + 2 * DAY, "deleted"),
    }
    assert state.anchors.keys() == {("L1", "keep")}


def test_two_assets_of_one_checksum_have_independent_anchors(maker: Maker) -> None:
    state = walk(
        maker,
        ((photo(A), photo(A, "2")), run_facts(0)),
        ((photo(B), photo(C, "2")), run_facts(1)),
        ((photo(C, "2"),), run_facts(2)),
        ((photo(C, "2"),), run_facts(3)),
    )
    assert state.confirmed.keys() == {B}
    assert state.anchors == {("L1", "2"): frozenset({A})}


def test_lesson_2_an_old_install_seeds_its_anchor_from_the_index(maker: Maker) -> None:
    old = State(index=frozenset({photo(A)}))
    state = walk(maker, ((photo(B),), run_facts(0)), ((photo(B),), run_facts(1)), start=old)
    assert state.anchors == {("L1", "1"): frozenset({A})}
    assert (state.retired, state.confirmed) == (frozenset(), {})


def test_lesson_7_limbo_serves_its_quarantine(maker: Maker) -> None:
    forgotten = walk(maker, ((photo(A), photo(B, "2")), run_facts(0)))
    forgotten = replace(forgotten, index=frozenset({photo(B, "2")}), anchors={("L1", "2"): frozenset({B})})
    rows = (photo(B, "2"),)
    state, known = maker.merge(forgotten, rows, run_facts(1))
    assert (state.confirmed[A].at, state.confirmed[A].cause) == (NOW + DAY, "limbo")
    decisions = maker.decide(known, rows, (ServerAsset("s1", A),), policy_on(1))
    assert verdicts(decisions) == {"s1": ("held", "quarantine")}


def test_a_move_is_no_deletion_and_keeps_the_anchor(maker: Maker) -> None:
    state = walk(
        maker,
        ((photo(A),), run_facts(0)),
        ((photo(B),), run_facts(1)),
        ((replace(photo(B, "7"), library_id="L2"),), run_facts(2)),
    )
    assert state.confirmed == {}
    assert state.anchors == {("L2", "7"): frozenset({A})}


@pytest.mark.parametrize("trash_id", ["1", "trash/1"], ids=["as in Photos", "as a file"])
def test_lesson_22_the_lifecycle_with_the_trash(maker: Maker, trash_id: str) -> None:
    """An edited photo goes into the trash, comes out, goes in again and is emptied from there."""
    original, edit, keep = A, B, photo(F, "keep")
    server = (ServerAsset("s-A", original), ServerAsset("s-B", edit))
    lying = in_trash(photo(edit), trash_id)
    held = {"s-A": ("held", "quarantine"), "s-B": ("held", "quarantine")}
    table: list[tuple[float, tuple[LocalRow, ...], set[str], dict[str, tuple[str, str]]]] = [
        # day, listing, confirmed afterwards, decided
        (0, (photo(original),), set(), {}),
        (1, (photo(edit),), set(), {}),
        (2, (lying,), {original, edit}, {}),
        (3, (photo(edit),), set(), {}),
        (4, (lying,), {original, edit}, {}),
        (10, (lying,), {original, edit}, {}),
        (11, (), {original, edit}, held),
        (17.999, (), {original, edit}, held),
        (18, (), {original, edit}, {"s-A": ("delete", "confirmed"), "s-B": ("delete", "confirmed")}),
    ]
    state = State()
    for day, listed, confirmed, decided in table:
        rows = (*listed, keep)
        state, known = maker.merge(state, rows, run_facts(day))
        assert state.confirmed.keys() == confirmed, day
        assert not confirmed or confirmed_at(state) == dict.fromkeys(confirmed, NOW + (2 if day < 4 else 4) * DAY)
        assert verdicts(maker.decide(known, rows, server, policy_on(day))) == decided, day


def test_lesson_22_what_an_incomplete_run_saw_in_the_trash_starts_its_clock_with_the_next_complete_one(
    maker: Maker,
) -> None:
    keep, lying = photo(F, "keep"), in_trash(photo(A))
    seen = ((photo(A), keep), run_facts(0)), ((lying, keep), run_facts(1, complete=False))
    state = walk(maker, *seen)
    assert state.confirmed == {}
    assert confirmed_at(walk(maker, ((lying, keep), run_facts(2)), start=state)) == {A: NOW + 2 * DAY}


def test_lesson_1_a_moved_file_keeps_its_first_bytes_though_an_incomplete_run_saw_it_first(maker: Maker) -> None:
    keep, lying, back = photo(F, "keep"), in_trash(photo(B), "trash/1"), photo(B, "2")
    edited = walk(maker, ((photo(A), keep), run_facts(0)), ((photo(B), keep), run_facts(1)))
    for before in (edited, walk(maker, ((lying, keep), run_facts(2)), start=edited)):
        state = walk(maker, ((back, keep), run_facts(3, complete=False)), ((back, keep), run_facts(4)), start=before)
        assert state.confirmed == {}
        assert state.anchors["L1", "2"] >= {A}


def test_what_is_partly_in_the_trash_is_not_deleted(maker: Maker) -> None:
    still, motion, keep = photo(A), photo(B, part="motion"), photo(F, "keep")
    start = walk(maker, ((still, motion, keep), run_facts(0)))
    state = walk(maker, ((in_trash(still), motion, keep), run_facts(1)), start=start)
    assert state.confirmed == {}
    state = walk(maker, ((in_trash(still), in_trash(motion), keep), run_facts(2)), start=state)
    assert confirmed_at(state) == {A: NOW + 2 * DAY, B: NOW + 2 * DAY}


def test_lesson_3_a_copy_outside_the_trash_keeps_its_checksum_and_its_albums(maker: Maker) -> None:
    copy = photo(A, "2", albums=frozenset({"x"}))
    lying = in_trash(photo(A, albums=frozenset({"y"})))
    state = walk(maker, ((photo(A), copy), run_facts(0)), ((lying, copy), run_facts(1)))
    assert state.confirmed == {}
    assert state.observed[A].albums == {"x"}
    state = walk(maker, ((lying, photo(F, "3")), run_facts(2)), start=state)
    assert state.observed[A].albums == {"x"}
    assert confirmed_at(state) == {A: NOW + 2 * DAY}


def test_several_twins_that_went_into_a_trash_folder_are_deleted_with_their_first_bytes(maker: Maker) -> None:
    keep = photo(F, "keep")
    state = walk(
        maker,
        ((photo(A), photo(C, "2"), keep), run_facts(0)),
        ((photo(B), photo(B, "2"), keep), run_facts(1)),
        ((in_trash(photo(B), "trash/1"), in_trash(photo(B), "trash/2"), keep), run_facts(2)),
    )
    assert confirmed_at(state) == dict.fromkeys((A, B, C), NOW + 2 * DAY)
    back = walk(maker, ((photo(B), in_trash(photo(B), "trash/2"), keep), run_facts(3)), start=state)
    assert back.confirmed.keys().isdisjoint({A, B, C})


def test_what_lay_in_the_trash_from_the_start_starts_its_clock_when_it_is_gone(maker: Maker) -> None:
    keep = photo(F, "keep")
    state = walk(maker, *(((in_trash(photo(A)), keep), run_facts(day)) for day in (0, 1)))
    assert (state.confirmed, state.observed[A].albums) == ({}, frozenset())
    assert confirmed_at(walk(maker, ((keep,), run_facts(2)), start=state)) == {A: NOW + 2 * DAY}


def test_lesson_14_an_exclusion_wins_and_a_second_deletion_is_shown(maker: Maker) -> None:
    both, one = (photo(A), photo(B, "2")), (photo(B, "2"),)
    state = walk(maker, (both, run_facts(0)), (one, run_facts(1)))
    state = replace(state, exclusions={A: NOW + 2 * DAY})
    server = (ServerAsset("s1", A),)
    state, known = maker.merge(state, one, run_facts(60))
    assert maker.decide(known, one, server, policy_on(60)) == []
    state = walk(maker, (both, run_facts(61)), start=state)
    state, known = maker.merge(state, one, run_facts(62))
    assert verdicts(maker.decide(known, one, server, policy_on(62))) == {"s1": ("review", "deleted_again")}


# Of whose deletion no library tells


def test_lesson_13_what_is_handed_over_is_detached_and_forgotten_by_runs_that_read_libraries(maker: Maker) -> None:
    keep = photo(F, "keep")
    state = State(
        index=frozenset({photo(B), keep}),
        anchors={("L1", "1"): frozenset({A}), ("L1", "keep"): frozenset({F})},
        retired=frozenset({Retired(C, "L1", "1", "run--1"), Retired(D, "L1", "2", "run-0")}),
    )
    beside = Beside(handed_over=frozenset({("L1", "1")}))
    after, _ = maker.merge(state, (keep,), run_facts(0), beside)
    assert after.detached == {A, B, C}
    assert after.index == {keep}
    assert after.anchors.keys() == {("L1", "keep")}
    assert after.retired == {Retired(D, "L1", "2", "run-0")}
    assert after.confirmed == {}
    from_file, _ = maker.merge(state, (photo(F, library_id="file"),), run_facts(0, change_log=False), beside)
    assert (from_file.detached, from_file.index) == (frozenset(), state.index)


def test_what_only_checksums_files_listed_is_vouched_for_by_runs_from_files_alone(maker: Maker) -> None:
    listed, keep = photo(A, A, library_id="file"), photo(F, "keep")
    known = walk(maker, ((photo(B), keep), run_facts(0)), ((keep,), run_facts(1)))
    from_file = run_facts(2, change_log=False)
    state = walk(maker, ((listed, photo(B, B, library_id="file")), from_file), start=known)
    assert state.file_only == {A}
    state = walk(maker, ((keep,), run_facts(3)), start=state)
    assert state.file_only == state.detached == {A}
    state = walk(maker, ((), run_facts(4, change_log=False)), start=state)
    assert state.detached == frozenset()
    state = walk(maker, ((photo(A), keep), run_facts(5)), start=state)
    assert (state.file_only, state.detached) == (frozenset(), frozenset())


@pytest.mark.parametrize(
    ("confirmed", "rows", "detached"),
    [
        (None, (), True),
        (NOW - DAY, (), True),
        (NOW - DAY + INSTANT, (), False),
        (None, (photo(A),), False),
        (None, (replace(photo(A), in_trash=True),), False),
    ],
)
def test_what_a_run_trashed_is_detached_unless_alive_or_deleted_again(
    maker: Maker, confirmed: datetime | None, rows: tuple[LocalRow, ...], detached: bool
) -> None:
    state = State(confirmed={A: Confirmed(confirmed, "deleted")} if confirmed else {})
    for facts in (run_facts(0), run_facts(0, complete=False), run_facts(0, change_log=False)):
        after, _ = maker.merge(state, (*rows, photo(F, "keep")), facts, Beside(trashed_here={A: NOW - DAY}))
        assert (A in after.detached) is detached
