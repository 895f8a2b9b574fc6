"""The tables of the specification, by hand: the classification of candidates, and Live Photos.

Each is asked of the model and of the engine, so that neither can be right by agreeing with the other.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.settings import Strictness
from tests.model.makers import DAY, A, B, C, D, Maker, photo, policy_on, verdicts
from tests.model.strategies import INSTANT, NOW, TAKEN
from tests.model.world import LocalRow, Remembered, ServerAsset

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


# Live Photos

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
        (replace(VIDEO, is_trashed=True), Remembered(), ("delete", "confirmed", None)),
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
