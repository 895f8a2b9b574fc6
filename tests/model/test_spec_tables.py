"""The tables of the specification, by hand: classification, the confirmed-deleted lifecycle, the edit example.

Each is asked of the model and of the engine, so that neither can be right by agreeing with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import duckdb
import pytest

from engine.policy import LocalFacts, Loss, Policy, RailFacts
from engine.rails import evaluate
from engine.settings import Strictness
from tests.model import bridge, local_changes, rules
from tests.model.strategies import CHECKSUMS, INSTANT, NOW, TAKEN
from tests.model.world import (
    NOTHING_BESIDE,
    Beside,
    Confirmed,
    Decision,
    LocalRow,
    Remembered,
    Retired,
    Scene,
    ServerAsset,
    State,
)

A, B, C, D, E, F = CHECKSUMS
DAY = timedelta(days=1)
Merge = Callable[..., tuple[State, dict[str, Remembered]]]  # state, rows, facts, and mostly nothing beside
Decide = Callable[[dict[str, Remembered], tuple[LocalRow, ...], tuple[ServerAsset, ...], Policy], list[Decision]]


@dataclass(frozen=True, slots=True)
class Maker:
    """One of the two implementations."""

    merge: Merge
    decide: Decide


@pytest.fixture(scope="module", params=["model", "engine"])
def maker(request: pytest.FixtureRequest) -> Iterator[Maker]:
    if request.param == "engine":
        with bridge.open_database() as con:
            yield Maker(
                lambda state, rows, facts, beside=NOTHING_BESIDE: bridge.merge(con, state, rows, facts, (), beside),
                lambda known, rows, server, policy: bridge.decide(con, known, rows, server, policy).decisions,
            )
    else:

        def merge(
            state: State, rows: tuple[LocalRow, ...], facts: LocalFacts, beside: Beside = NOTHING_BESIDE
        ) -> tuple[State, dict[str, Remembered]]:
            after = local_changes.apply_local_changes(state, rows, facts, beside)
            return after, local_changes.memory(after, rows, facts, ())

        yield Maker(
            merge,
            lambda known, rows, server, policy: sorted(
                rules.decide(rules.View(server, rows, known, policy)), key=lambda d: d.asset_id
            ),
        )


def run_facts(day: float, **changes: object) -> LocalFacts:
    facts = LocalFacts(f"run-{day}", NOW + day * DAY, True, True, False, Strictness.TRUSTING)
    return replace(facts, **changes)  # type: ignore[arg-type]


def policy_on(day: float, **changes: object) -> Policy:
    return replace(Policy("me", NOW + day * DAY), **changes)  # type: ignore[arg-type]


def photo(checksum: str | None, local_id: str = "1", **changes: object) -> LocalRow:
    return replace(LocalRow("L1", local_id, "primary", checksum), **changes)  # type: ignore[arg-type]


def verdicts(decisions: list[Decision]) -> dict[str, tuple[str, str]]:
    return {d.asset_id: (d.bucket, d.reason) for d in decisions}


# ---------------------------------------------------------------- candidate classification

PAST = Remembered(observed=True, confirmed_at=NOW - 14 * DAY, cause="deleted")
INSIDE = Remembered(observed=True, confirmed_at=NOW - 14 * DAY + INSTANT, cause="deleted")
UNCONFIRMED = Remembered(observed=True)


@pytest.mark.parametrize(
    ("known", "trusting", "strict"),
    [
        (PAST, ("delete", "confirmed"), ("delete", "confirmed")),
        (INSIDE, ("held", "quarantine"), ("held", "quarantine")),
        (UNCONFIRMED, ("delete", "unconfirmed"), ("review", "unconfirmed")),
    ],
)
def test_classification_table_of_the_specification(
    maker: Maker, known: Remembered, trusting: tuple[str, str], strict: tuple[str, str]
) -> None:
    for strictness, expected in ((Strictness.TRUSTING, trusting), (Strictness.STRICT, strict)):
        decisions = maker.decide({A: known}, (), (ServerAsset("s1", A),), policy_on(0, strictness=strictness))
        assert verdicts(decisions) == {"s1": expected}


@pytest.mark.parametrize(
    ("known", "changes", "expected"),
    [
        (replace(PAST, excluded_at=NOW - 15 * DAY), {}, ("review", "deleted_again")),
        (replace(PAST, excluded_at=NOW - 14 * DAY), {}, None),
        (replace(PAST, excluded_at=NOW - 13 * DAY), {}, None),
        (replace(PAST, excluded_at=NOW - 13 * DAY), {"history_lost": True}, None),
        (PAST, {"history_lost": True}, ("review", "history_lost")),
        (replace(PAST, detached=True), {}, ("review", "not_vouched_for")),
        (replace(UNCONFIRMED, indexed=True), {"change_log": False}, ("review", "in_other_library")),
        (replace(UNCONFIRMED, indexed=True), {}, ("delete", "unconfirmed")),
        (replace(UNCONFIRMED, retired=True), {}, ("held", "retired_edit")),
        (replace(UNCONFIRMED, retired=True), {"quarantine_days": 0}, ("held", "retired_edit")),
        (replace(PAST, cause="retired"), {}, ("delete", "confirmed")),
        (replace(PAST, anchored=True), {}, None),
        (replace(PAST, observed=False), {}, None),
    ],
)
def test_classification_table_of_the_rules(
    maker: Maker, known: Remembered, changes: dict[str, object], expected: tuple[str, str] | None
) -> None:
    decisions = maker.decide({A: known}, (), (ServerAsset("s1", A),), policy_on(0, **changes))
    assert verdicts(decisions) == ({} if expected is None else {"s1": expected})


@pytest.mark.parametrize(
    ("age", "quarantine_days", "days_left"),
    [(timedelta(0), 14, 14), (INSTANT, 14, 14), (DAY, 14, 13), (14 * DAY - INSTANT, 14, 1), (timedelta(0), 90, 90)],
)
def test_countdown_rounds_up_and_never_says_zero(
    maker: Maker, age: timedelta, quarantine_days: int, days_left: int
) -> None:
    known = {A: replace(PAST, confirmed_at=NOW - age)}
    policy = policy_on(0, quarantine_days=quarantine_days)
    (decision,) = maker.decide(known, (), (ServerAsset("s1", A),), policy)
    assert (decision.bucket, decision.days_left) == ("held", days_left)
    assert decision.due_at == NOW - age + quarantine_days * DAY


@pytest.mark.parametrize(
    ("local", "stayed"),
    [
        (photo(B, file_name="IMG_1.HEIC", captured_at=TAKEN + timedelta(seconds=1)), True),
        (photo(B, file_name="img_1.heic", captured_at=TAKEN - timedelta(seconds=1)), True),
        (photo(B, file_name="fullsizerender.jpg", captured_at=TAKEN + timedelta(microseconds=1_999_999)), True),
        (photo(B, file_name="IMG_1.HEIC", captured_at=TAKEN + timedelta(seconds=2)), False),
        (photo(B, file_name="IMG_2.HEIC", captured_at=TAKEN), False),
        (photo(B, file_name="IMG_1.HEIC", captured_at=None), False),
    ],
)
@pytest.mark.parametrize("clock", ["captured_at", "local_captured_at"])
def test_lesson_8_and_10_a_photo_alive_under_other_bytes_goes_to_review(
    maker: Maker, local: LocalRow, stayed: bool, clock: str
) -> None:
    asset = replace(ServerAsset("s1", A, file_name="Img_1.heic"), **{clock: TAKEN})  # type: ignore[arg-type]
    known = {A: replace(PAST, names=frozenset({"fullsizerender.jpg"}))}
    expected = ("review", "alive_under_another_checksum") if stayed else ("delete", "confirmed")
    assert verdicts(maker.decide(known, (local,), (asset,), policy_on(0))) == {"s1": expected}


def test_a_confirmed_retired_edit_goes_although_its_photo_lives_under_other_bytes(maker: Maker) -> None:
    asset = ServerAsset("s1", A, file_name="a.jpg", captured_at=TAKEN)
    local = photo(B, captured_at=TAKEN)
    for cause, expected in {
        "retired": ("delete", "confirmed"),
        "deleted": ("review", "alive_under_another_checksum"),
        "limbo": ("review", "alive_under_another_checksum"),
    }.items():
        known = {A: replace(PAST, cause=cause)}
        assert verdicts(maker.decide(known, (local,), (asset,), policy_on(0))) == {"s1": expected}


def test_lesson_19_a_restricted_scope_is_never_silently_off(maker: Maker) -> None:
    known = {A: replace(PAST, albums=frozenset({"x"})), B: PAST}
    server = (ServerAsset("s1", A), ServerAsset("s2", B))
    assert set(verdicts(maker.decide(known, (), server, policy_on(0)))) == {"s1", "s2"}
    assert set(verdicts(maker.decide(known, (), server, policy_on(0, selected_albums=("x",))))) == {"s1"}
    assert maker.decide(known, (), server, policy_on(0, selected_albums=("y",))) == []
    assert maker.decide(known, (), server, policy_on(0, selected_albums=())) == []


# ---------------------------------------------------------------- Live Photos

STILL = ServerAsset("s1", A, live_photo_video_id="s2")
VIDEO = ServerAsset("s2", B, visibility="hidden")


@pytest.mark.parametrize(
    ("video", "of_video", "expected"),
    [
        (VIDEO, Remembered(), ("delete", "confirmed", "s2")),
        (VIDEO, PAST, ("delete", "confirmed", "s2")),
        (VIDEO, INSIDE, ("held", "quarantine", None)),
        (VIDEO, replace(PAST, excluded_at=NOW), ("review", "motion_excluded", None)),
        (VIDEO, replace(PAST, excluded_at=NOW - 20 * DAY), ("review", "deleted_again", None)),
        (VIDEO, replace(UNCONFIRMED, retired=True), ("held", "retired_edit", None)),
        (VIDEO, replace(UNCONFIRMED, anchored=True), ("review", "motion_alive", None)),
        (replace(VIDEO, is_trashed=True), PAST, ("delete", "confirmed", None)),
        (replace(VIDEO, owner_id="partner"), PAST, ("review", "motion_foreign", None)),
        (replace(VIDEO, visibility="locked"), PAST, ("review", "motion_foreign", None)),
        (replace(VIDEO, library_id="external"), Remembered(), ("review", "motion_foreign", None)),
        (None, Remembered(), ("delete", "confirmed", "s2")),
    ],
)
def test_lesson_15_a_still_takes_its_motion_video_along_or_stays(
    maker: Maker, video: ServerAsset | None, of_video: Remembered, expected: tuple[str, str, str | None]
) -> None:
    server = (STILL,) if video is None else (STILL, video)
    (decision,) = maker.decide({A: PAST, B: of_video}, (), server, policy_on(0))
    assert (decision.asset_id, decision.bucket, decision.reason, decision.motion_id) == ("s1", *expected)


def test_a_motion_video_whose_bytes_are_alive_keeps_its_still(maker: Maker) -> None:
    decisions = maker.decide({A: PAST, B: UNCONFIRMED}, (photo(B),), (STILL, VIDEO), policy_on(0))
    assert verdicts(decisions) == {"s1": ("review", "motion_alive")}


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (ServerAsset("s3", C, live_photo_video_id="s2"), True),
        (ServerAsset("s3", D, live_photo_video_id="s2"), False),
        (ServerAsset("s3", C, live_photo_video_id="s2", is_trashed=True), False),
        (ServerAsset("s3", C, live_photo_video_id="s2", owner_id="partner"), False),
    ],
)
def test_motion_of_a_surviving_still_stays(maker: Maker, other: ServerAsset, shared: bool) -> None:
    known = {A: PAST, B: PAST, C: INSIDE, D: PAST}
    decisions = maker.decide(known, (), (STILL, VIDEO, other), policy_on(0))
    assert decisions[0].bucket == "delete"
    assert decisions[0].motion_id == (None if shared else "s2")


def test_motion_of_a_link_that_goes_to_review_as_an_orphan_stays(maker: Maker) -> None:
    orphan = ServerAsset("s3", C, visibility="hidden", live_photo_video_id="s2")
    decisions = maker.decide({A: PAST, B: PAST, C: PAST}, (), (STILL, VIDEO, orphan), policy_on(0))
    assert verdicts(decisions) == {"s1": ("delete", "confirmed"), "s3": ("review", "orphan_motion")}
    assert decisions[0].motion_id is None


def test_a_hidden_video_without_a_still_is_trashed_only_beside_a_trashed_still(maker: Maker) -> None:
    known = {A: PAST, B: PAST}
    assert verdicts(maker.decide(known, (), (VIDEO,), policy_on(0))) == {"s2": ("review", "orphan_motion")}
    trashed = replace(STILL, is_trashed=True)
    assert verdicts(maker.decide(known, (), (trashed, VIDEO), policy_on(0))) == {"s2": ("delete", "confirmed")}


# ---------------------------------------------------------------- the confirmed-deleted lifecycle, and edits


def walk(maker: Maker, *steps: tuple[tuple[LocalRow, ...], LocalFacts], start: State | None = None) -> State:
    state = start or State()
    for rows, facts in steps:
        state, _ = maker.merge(state, rows, facts)
    return state


def confirmed_at(state: State) -> dict[str, datetime]:
    return {checksum: entry.at for checksum, entry in state.confirmed.items()}


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


def in_trash(row: LocalRow, local_id: str | None = None) -> LocalRow:
    return replace(row, local_id=local_id or row.local_id, in_trash=True)


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


# ---------------------------------------------------------------- of whose deletion no library tells


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


# ---------------------------------------------------------------- rails


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with bridge.open_database() as database:
        yield database


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
        ({"losses": (Loss("L1", 11, 6, 0),)}, "collapse"),
        ({"losses": (Loss("L1", 12, 6, 0),)}, None),
        ({"losses": (Loss("L1", 5, 5, 0),)}, None),
        ({"losses": (Loss("L1", 7, 7, 6),)}, "collapse"),
        ({"losses": (Loss("L1", 7, 7, 7),)}, None),
        ({"losses": (Loss("L1", 9, 0, 0), Loss("L2", 6, 6, 0)), "clock_skew_seconds": 1e6}, "collapse"),
        ({"clock_skew_seconds": -86_401.0}, "clock"),
        ({"clock_skew_seconds": 86_400.0}, None),
        ({"server_count": 0}, "empty_server"),
        ({"server_count": 0, "last_server_count": 0}, None),
        ({"server_count": 0, "last_server_count": None}, None),
        ({"trash_enabled": False}, "retention"),
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
