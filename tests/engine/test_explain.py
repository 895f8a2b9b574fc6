"""An explanation says what the engine decided: its lines, read by themselves, lead to the decision that stands."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import duckdb
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from engine.decide import classify, diff, scope_filter
from engine.explain import Explanation, RunFacts, Says, checksum_of, explain
from engine.policy import Policy, Verdict
from engine.relations import DECISION
from tests.model import bridge
from tests.model import strategies as worlds
from tests.model.profiles import PROFILE_OF_PROMISES
from tests.model.strategies import NOW
from tests.model.world import Decision, LocalRow, Remembered, ServerAsset

A, B, C = (letter * 27 + "=" for letter in "ABC")
EVERYTHING = frozenset({"local", "memory", "server", "candidates", "scoped", "decision"})
GONE_LONG_AGO = Remembered(observed=True, confirmed_at=NOW - timedelta(days=30), cause="deleted")

# The lines that keep an asset from being a candidate (docs/rules.md, section 2).
NO_CANDIDATE = {"owner", "trash", "visibility", "external", "observed", "alive", "anchor", "linked_motion"}
# The table of section 4: the first line that speaks gives the reason. What a silent table leaves is the pair's.
TABLE = {
    "excluded": "deleted_again",
    "history": "history_lost",
    "detached": "not_vouched_for",
    "index": "in_other_library",
    "retired": "retired_edit",
    "confirmed": "quarantine",
    "elsewhere": "alive_under_another_checksum",
}
# Every checksum is known by this name too, so that one question explains the whole world.
EVERYTHING_BY_NAME = "everything"
crowded = st.fixed_dictionaries(
    {
        checksum: worlds.remembered().map(lambda it: replace(it, names=it.names | {EVERYTHING_BY_NAME}))
        for checksum in worlds.CHECKSUMS
    }
)
BUCKETS = {Says.GOES: "delete", Says.WAITS: "held", Says.REVIEW: "review"}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with bridge.open_database() as database:
        database.register("empty", DECISION.empty_table())
        database.execute("CREATE TABLE decision AS FROM empty")
        yield database


def explained(
    con: duckdb.DuckDBPyConnection,
    what: Iterable[str],
    known: dict[str, Remembered],
    rows: Iterable[LocalRow],
    server: Iterable[ServerAsset],
    policy: Policy,
    has: frozenset[str] = EVERYTHING,
) -> dict[str, tuple[Explanation, ...]]:
    """Sections 2 to 4 by the engine, and then the explanation of each ``what``."""
    with bridge.scratch(con):
        bridge.load_memory(con, known)
        bridge.load_rows(con, rows)
        bridge.load_server(con, server)
        if "decision" in has:
            diff(con, policy).insert_into("candidates")
            scope_filter(con, policy).insert_into("scoped")
            classify(con, policy).insert_into("decision")
        run = RunFacts("run", policy, has, Verdict() if "decision" in has else None)
        return {one: explain(con, one, run) for one in what}


def says(explanation: Explanation) -> dict[str, Says]:
    return {line.rule: line.says for line in explanation.lines}


def reason_of(said: dict[str, Says]) -> tuple[str | None, str | None]:
    """The (reason, bucket) that the table's lines lead to; (None, None) where the asset would go by them alone."""
    for rule, reason in TABLE.items():
        if said[rule] is Says.STAYS:
            return "excluded", "dropped"
        if said[rule] is Says.REVIEW and rule == "confirmed":
            continue
        if said[rule] is not Says.GOES:
            return reason, BUCKETS[said[rule]]
    return ("unconfirmed", "review") if said["confirmed"] is Says.REVIEW else (None, None)


@PROFILE_OF_PROMISES
@given(
    known=crowded,
    rows=worlds.local_rows().map(lambda rows: rows[:2]),
    server=worlds.servers(),
    policy=worlds.policies(),
)
def test_the_lines_of_an_explanation_lead_to_the_decision_that_stands(
    con: duckdb.DuckDBPyConnection,
    known: dict[str, Remembered],
    rows: tuple[LocalRow, ...],
    server: tuple[ServerAsset, ...],
    policy: Policy,
) -> None:
    outcome = bridge.decide(con, known, rows, server, policy)
    decided = {d.asset_id: d for d in outcome.decisions}
    going = {i for d in outcome.decisions if d.bucket == "delete" for i in (d.asset_id, d.motion_id) if i}
    asked = {EVERYTHING_BY_NAME} | (going - {asset.asset_id for asset in server})
    found = explained(con, asked, known, rows, server, policy)
    by_id = {it.asset_id: it for matches in found.values() for it in matches if it.asset_id is not None}
    assert by_id.keys() == {asset.asset_id for asset in server} | going
    for asset_id, it in by_id.items():
        assert it.conclusion.startswith("It was to go to the trash") is (asset_id in going), it
    for asset in server:
        assert_lines_lead_to(by_id[asset.asset_id], outcome, decided.get(asset.asset_id))


def assert_lines_lead_to(it: Explanation, outcome: bridge.Outcome, decision: Decision | None) -> None:
    said = says(it)
    kept = any(said[rule] is Says.STAYS for rule in NO_CANDIDATE)
    assert (it.asset_id in outcome.candidates) is not kept, it
    assert (said["scope"] is Says.GOES) is (it.asset_id in outcome.scoped), it
    if it.asset_id not in outcome.scoped:
        assert decision is None and all(said[rule] is Says.SILENT for rule in [*TABLE, "pair"]), it
        return
    reason, bucket = reason_of(said)
    if bucket == "dropped":
        assert decision is None and said["bucket"] is Says.STAYS, it
        return
    assert decision is not None and (it.bucket, it.reason) == (decision.bucket, decision.reason), it
    assert BUCKETS[said["bucket"]] == decision.bucket, it
    event(decision.reason)
    if reason is not None:
        assert (reason, bucket) == (decision.reason, decision.bucket), it
        assert said["pair"] in (Says.SILENT, Says.GOES), it
    else:
        assert BUCKETS[said["pair"]] == decision.bucket, it


def test_a_motion_video_that_is_not_yours_sends_its_still_to_review(con: duckdb.DuckDBPyConnection) -> None:
    server = [
        ServerAsset("s1", A, live_photo_video_id="s2"),
        ServerAsset("s2", B, owner_id="partner", visibility="hidden", file_name="a.mov"),
    ]
    (it,) = explained(con, ["s1"], {A: GONE_LONG_AGO}, (), server, Policy("me", NOW))["s1"]
    (pair,) = (line for line in it.lines if line.rule == "pair")
    assert (it.bucket, it.reason, pair.says) == ("review", "motion_foreign", Says.REVIEW)
    assert "a.mov" in pair.text and "another user" in pair.text


def test_a_motion_video_that_the_listing_lacks_is_explained_by_its_still(con: duckdb.DuckDBPyConnection) -> None:
    server = [ServerAsset("s1", A, file_name="still.heic", live_photo_video_id="gone")]
    (it,) = explained(con, ["gone"], {A: GONE_LONG_AGO}, (), server, Policy("me", NOW))["gone"]
    assert (it.asset_id, it.bucket) == ("gone", "delete")
    assert "still.heic" in it.lines[0].text and it.lines[0].rule == "server"


def test_the_surviving_still_that_keeps_a_shared_motion_video_is_named(con: duckdb.DuckDBPyConnection) -> None:
    going = ServerAsset("s1", A, file_name="going.heic", live_photo_video_id="s2")
    video = ServerAsset("s2", B, visibility="hidden", file_name="shared.mov")
    staying = ServerAsset("s3", C, file_name="staying.heic", live_photo_video_id="s2")
    trashed = ServerAsset("s4", C, file_name="trashed.heic", live_photo_video_id="s2", is_trashed=True)
    server = [going, video, staying, trashed]
    (it,) = explained(con, ["s1"], {A: GONE_LONG_AGO}, (), server, Policy("me", NOW))["s1"]
    (pair,) = (line for line in it.lines if line.rule == "pair")
    assert it.bucket == "delete" and pair.says is Says.GOES
    assert "; staying.heic keeps it; the still goes alone" in pair.text and "trashed.heic" not in pair.text


def test_lesson_3_every_library_that_still_has_the_bytes_is_named(con: duckdb.DuckDBPyConnection) -> None:
    rows = [LocalRow("L1", "1", "primary", A), LocalRow("L2", "9", "motion", A)]
    (it,) = explained(con, [A], {A: Remembered(observed=True)}, rows, [ServerAsset("s1", A)], Policy("me", NOW))[A]
    (alive,) = (line for line in it.lines if line.rule == "alive")
    assert alive.says is Says.STAYS and "L1: 1" in alive.text and "L2: 9" in alive.text
    assert "L1: 1" in it.conclusion


def test_a_checksum_is_known_in_base64_and_in_hexadecimal() -> None:
    digest = bytes(range(20))
    text = base64.b64encode(digest).decode()
    assert checksum_of(text) == checksum_of(digest.hex()) == checksum_of(digest.hex().upper()) == text
    assert checksum_of("IMG_1.JPG") is checksum_of("") is checksum_of("é") is checksum_of("A" * 28) is None


def test_names_match_in_any_case_and_unicode_form_and_by_every_known_name(con: duckdb.DuckDBPyConnection) -> None:
    known = {A: Remembered(observed=True, names=frozenset({"old name.jpg"})), B: Remembered(observed=True)}
    rows = [LocalRow("L1", "album/Cafe\u0301.JPG", "primary", B, "Cafe\u0301.JPG")]
    server = [ServerAsset("s1", A, file_name="new.jpg"), ServerAsset("s2", B, file_name="other.jpg")]
    asked = ["OLD NAME.JPG", "New.jpg", "caf\u00e9.jpg", "ALBUM/caf\u00e9.jpg", "old"]
    found = explained(con, asked, known, rows, server, Policy("me", NOW))
    assert [[it.asset_id for it in found[one]] for one in asked] == [["s1"], ["s1"], ["s2"], ["s2"], []]


def test_a_name_finds_every_asset_and_every_content_that_has_it(con: duckdb.DuckDBPyConnection) -> None:
    rows = [LocalRow("L1", "1", "primary", C, "IMG.JPG"), LocalRow("L1", "2", "primary", None, "img.jpg")]
    server = [ServerAsset("s1", A, file_name="IMG.jpg"), ServerAsset("s2", B, file_name="img.JPG")]
    found = explained(con, ["img.jpg"], {A: GONE_LONG_AGO}, rows, server, Policy("me", NOW))["img.jpg"]
    assert [(it.asset_id, it.checksum) for it in found] == [("s1", A), ("s2", B), (None, C), (None, None)]
    assert "no asset with this checksum" in found[2].lines[0].text
    assert "could not be read" in found[3].lines[0].text and "L1: 2" in found[3].lines[0].text


def test_what_a_run_did_not_reach_is_not_known_rather_than_guessed(con: duckdb.DuckDBPyConnection) -> None:
    rows = [LocalRow("L1", "1", "primary", A)]
    only_local = explained(con, [A], {}, rows, (), Policy("me", NOW), frozenset({"local"}))[A]
    (it,) = only_local
    said = says(it)
    assert (said["server"], said["observed"], said["alive"]) == (Says.SILENT, Says.SILENT, Says.STAYS)
    assert said["bucket"] is said["rails"] is said["outcome"] is Says.SILENT
    assert "decided" in it.conclusion


def test_an_edit_that_was_retired_is_not_held_back_by_the_photo_that_lives(con: duckdb.DuckDBPyConnection) -> None:
    taken = datetime(2025, 7, 1)  # noqa: DTZ001 - the relations' timestamps carry no zone
    rows = [LocalRow("L1", "1", "primary", B, "a.jpg", taken)]
    server = [ServerAsset("s1", A, captured_at=taken)]
    for cause, bucket in (("retired", "delete"), ("deleted", "review")):
        known = {A: replace(GONE_LONG_AGO, cause=cause)}
        (it,) = explained(con, [A], known, rows, server, Policy("me", NOW))[A]
        (line,) = (line for line in it.lines if line.rule == "elsewhere")
        assert it.bucket == bucket and "L1: 1" in line.text
