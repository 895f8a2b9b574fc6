"""To the trash and back: nothing sent twice in vain, nothing believed, one bad id fails alone, and never by force."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import server.client
from engine.errors import UsageError
from server import errors
from tests.server.client_support import BOTH, GONE, NORMAL, World, checksum, world


def deletes(w: World) -> list[list[str]]:
    return [r.json["ids"] for r in w.requests("DELETE", "/api/assets")]


def accounted(outcome: Any) -> list[str]:
    return [*outcome.trashed, *outcome.already_trashed, *outcome.failed, *outcome.unknown]


@BOTH
def test_units_go_to_the_trash_and_are_read_back(version: str) -> None:
    with world(version, NORMAL) as w:
        video = w.add("v", visibility="hidden")[0]
        still = w.add("s", live_photo_video_id=video)[0]
        single, kept = w.add("x", 2)
        outcome = w.server.trash_units([(still, video), (single.upper(),)])
        assert outcome.trashed == {still, video, single} == w.sim.trashed()
        assert not outcome.failed
        assert not outcome.unknown
        assert kept not in w.sim.trashed()
        assert deletes(w) == [[still, video, single]]


@BOTH
def test_no_request_and_no_line_of_the_client_can_force(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 30)
        w.sim.faults.add("DELETE", "/api/assets", status=400, body={"message": GONE})
        w.sim.faults.add("DELETE", "/api/assets", drop_connection=True, after=3)
        w.server.trash_units([(i,) for i in ids])
        w.server.restore_assets(ids)
        bodies = [r.json for r in w.sim.mutations()]
        assert [b["force"] for b in bodies if "force" in b] == [False] * len(w.requests("DELETE", "/api/assets"))
        assert "true" not in repr(bodies).lower()
    folder = Path(server.client.__file__).parent
    forcing = [
        line
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"\bforce\b", line, re.IGNORECASE)
    ]
    assert [line.strip() for line in forcing] == [
        'transport.write("DELETE", "/api/assets", {"ids": ids, "force": False})'
    ]


def test_at_most_500_ids_go_in_one_request_and_a_unit_is_never_split() -> None:
    with world() as w:
        pairs = list(zip(w.add("s", 333), w.add("v", 333, visibility="hidden"), strict=True))
        singles = [(i,) for i in w.add("x", 3)]
        sent: list[tuple[str, ...]] = []
        outcome = w.server.trash_units([singles[0], *pairs, *singles[1:]], sent.append)
        assert len(outcome.trashed) == 669
        assert [list(ids) for ids in sent] == deletes(w)
        assert max(map(len, sent)) <= 500
        for still, video in pairs:
            assert any({still, video} <= set(ids) for ids in sent)


@BOTH
def test_what_is_in_the_trash_already_is_never_sent_again(version: str) -> None:
    with world(version) as w:
        old = w.add("old", trashed=True)[0]
        video = w.add("v", visibility="hidden", trashed=True)[0]
        still = w.add("s", live_photo_video_id=video)[0]
        when = w.sim.asset(old).deleted_at
        outcome = w.server.trash_units([(old,), (still, video)])
        assert outcome.trashed == {still}
        assert outcome.already_trashed == {old, video}
        assert w.sim.asset(old).deleted_at == when
        assert deletes(w) == [[still]]


def test_nothing_to_do_sends_nothing() -> None:
    with world() as w:
        assert accounted(w.server.trash_units([])) == []
        assert w.server.restore_assets([]).restored == frozenset()
        assert not w.sim.mutations()


@pytest.mark.parametrize(
    "bad", ["", "x", "../x", "f84a048b-dbfb-45fb-999c-030c909a361", "f84a048bdbfb45fb999c030c909a361c"]
)
def test_an_id_that_is_no_uuid_stops_the_call_before_anything_is_sent(bad: str) -> None:
    with world() as w:
        good = w.add("x")[0]
        with pytest.raises(UsageError):
            w.server.trash_units([(good,), (bad,)])
        with pytest.raises(UsageError):
            w.server.restore_assets([good, bad])
        assert not w.sim.requests


@BOTH
def test_lesson_43_one_bad_id_fails_alone(version: str) -> None:
    with world(version) as w:
        partner = w.sim.add_user("Bob", "bob@example.com")
        foreign = w.sim.add_asset(partner, checksum=checksum("b"), file_name="b.jpg")
        locked = w.add("l", visibility="locked")[0]
        unknown = str(uuid.uuid4())
        good = w.add("x", 20)
        bad = [foreign, locked, unknown]
        outcome = w.server.trash_units([(i,) for i in good[:10] + bad + good[10:]])
        assert outcome.trashed == set(good) == w.sim.trashed()
        assert set(outcome.failed) == set(bad)


@BOTH
@pytest.mark.parametrize("bad", [0, 6, 12])
def test_lesson_43_an_id_that_vanishes_before_the_request_fails_with_its_unit_only(version: str, bad: int) -> None:
    with world(version) as w:
        pairs = list(zip(w.add("s", 13), w.add("v", 13, visibility="hidden"), strict=True))
        purged: list[str] = []

        def purge(ids: tuple[str, ...]) -> None:
            if not purged:
                purged.append(pairs[bad][1])
                w.sim.purge(pairs[bad][1])

        outcome = w.server.trash_units(pairs, purge)
        assert set(outcome.failed) == set(pairs[bad])
        assert outcome.trashed == {i for n, pair in enumerate(pairs) if n != bad for i in pair} == w.sim.trashed()
        assert all(len(ids) % 2 == 0 for ids in deletes(w)), "no unit was split"
        assert sorted(accounted(outcome)) == sorted(i for pair in pairs for i in pair)


def test_lesson_43_a_body_that_a_proxy_finds_too_large_is_halved() -> None:
    with world() as w:
        ids = w.add("x", 8)
        w.sim.faults.add("DELETE", "/api/assets", status=413, html=True)
        assert w.server.trash_units([(i,) for i in ids]).trashed == set(ids)
        assert [len(d) for d in deletes(w)] == [8, 4, 4]


@BOTH
@pytest.mark.parametrize("count", [3, 60])
@pytest.mark.parametrize("fault", [{"drop_connection": True}, {"status": 500}, {"status": 502, "html": True}])
def test_a_request_whose_answer_is_lost_after_it_worked_is_not_sent_again(
    version: str, count: int, fault: dict[str, Any]
) -> None:
    with world(version) as w:
        ids = w.add("x", count)
        w.sim.faults.add("DELETE", "/api/assets", before_effect=False, **fault)
        outcome = w.server.trash_units([(i,) for i in ids])
        assert outcome.trashed == set(ids)
        assert len(deletes(w)) == 1


@BOTH
@pytest.mark.parametrize("fault", [{"drop_connection": True}, {"status": 500}, {"status": 503}, {"status": 429}])
def test_a_request_that_did_not_work_is_sent_again_after_reading_back(version: str, fault: dict[str, Any]) -> None:
    with world(version) as w:
        ids = w.add("x", 3)
        w.sim.faults.add("DELETE", "/api/assets", **fault)
        outcome = w.server.trash_units([(i,) for i in ids])
        assert outcome.trashed == set(ids) == w.sim.trashed()
        assert deletes(w) == [ids, ids]
        log = [r.method for r in w.sim.requests]
        first = log.index("DELETE")
        assert fault.get("status") == 429 or "GET" in log[first + 1 : log.index("DELETE", first + 1)]


@BOTH
def test_only_what_is_not_in_the_trash_is_sent_again(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 4)

        def meanwhile(sent: tuple[str, ...]) -> None:
            w.sim.change_asset(ids[0], deleted_at=datetime.now(UTC))

        w.sim.faults.add("DELETE", "/api/assets", status=503)
        assert w.server.trash_units([(i,) for i in ids], meanwhile).trashed == set(ids)
        assert deletes(w) == [ids, ids[1:]]


def test_after_a_cut_the_other_half_waits_until_the_server_was_asked() -> None:
    with world() as w:
        ids = w.add("x", 8)
        w.sim.faults.add("DELETE", "/api/assets", status=400, body={"message": GONE})
        w.sim.faults.add("DELETE", "/api/assets", drop_connection=True)
        assert w.server.trash_units([(i,) for i in ids]).trashed == set(ids)
        assert deletes(w) == [ids, ids[:4], ids]


def test_a_hang_before_the_effect_that_stays_is_unknown_and_not_failed() -> None:
    with world(timeout=2.0) as w:  # the other requests are to be answered in that time, also by a busy machine
        ids = w.add("x", 2)
        w.sim.faults.add("DELETE", "/api/assets", delay=60.0, times=None)
        outcome = w.server.trash_units([(i,) for i in ids])
        assert set(outcome.unknown) == set(ids)
        assert not outcome.failed
        assert len(deletes(w)) <= 3


def test_resending_ends_and_what_the_server_itself_refused_is_failed() -> None:
    with world() as w:
        ids = w.add("x", 2)
        w.sim.faults.add("DELETE", "/api/assets", status=500, body={"message": "boom"}, times=None)
        outcome = w.server.trash_units([(i,) for i in ids])
        assert set(outcome.failed) == set(ids)
        assert "boom" in outcome.failed[ids[0]]
        assert len(deletes(w)) == 3


def test_a_server_that_says_done_and_did_nothing_is_not_believed() -> None:
    for count in (2, 40):
        with world() as w:
            ids = w.add("x", count)
            w.sim.faults.add("DELETE", "/api/assets", status=204, times=None)
            outcome = w.server.trash_units([(i,) for i in ids])
            assert set(outcome.failed) == set(ids)
            assert "not in the trash" in outcome.failed[ids[0]]
            assert len(deletes(w)) == 1


def test_what_was_sent_and_cannot_be_read_back_is_unknown_and_the_rest_is_not_sent() -> None:
    with world() as w:
        ids = w.add("x", 502)

        def break_reads(sent: tuple[str, ...]) -> None:
            w.sim.faults.add("GET", "/api/", status=503, times=None)
            w.sim.faults.add("POST", "/api/search", status=503, times=None)

        outcome = w.server.trash_units([(i,) for i in ids], break_reads)
        assert set(outcome.unknown) == set(ids[:500]) == w.sim.trashed()
        assert set(outcome.failed) == set(ids[500:])
        assert outcome.failed[ids[500]].startswith("Not sent.")


def test_a_server_that_cannot_be_asked_first_gets_no_request() -> None:
    with world() as w:
        ids = w.add("x", 2)
        w.sim.faults.add("GET", "/api/assets/", status=503, times=None)
        with pytest.raises(errors.ServerFault):
            w.server.trash_units([(i,) for i in ids])
        assert not w.sim.mutations()


@BOTH
def test_a_key_without_asset_delete_fails_every_unit_and_asks_once(version: str) -> None:
    with world(version, {"asset.read"}) as w:
        ids = w.add("x", 600)
        outcome = w.server.trash_units([(i,) for i in ids])
        assert set(outcome.failed) == set(ids)
        assert "asset.delete" in outcome.failed[ids[0]]
        assert len(deletes(w)) == 1
        assert not w.sim.trashed()


def test_a_hook_that_raises_keeps_its_request_from_leaving() -> None:
    def refuse(ids: tuple[str, ...]) -> None:
        raise RuntimeError("excluded just now")

    with world() as w:
        ids = w.add("x", 2)
        with pytest.raises(RuntimeError):
            w.server.trash_units([(i,) for i in ids], refuse)
        assert not w.sim.mutations()


def test_two_stills_that_share_a_motion_video_go_in_one_request() -> None:
    with world() as w:
        video = w.add("v", visibility="hidden")[0]
        first, second = w.add("s", 2, live_photo_video_id=video)
        between = w.add("x", 499)
        outcome = w.server.trash_units([(first, video), *((i,) for i in between), (second, video)])
        assert len(outcome.trashed) == 502
        assert any({first, second, video} <= set(ids) for ids in deletes(w))
        assert sum(ids.count(video) for ids in deletes(w)) == 1


def test_reading_back_500_takes_few_requests() -> None:
    with world() as w:
        ids = [
            w.add(f"x{n}", captured_at=datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=n))[0] for n in range(500)
        ]
        w.server.trash_units([(i,) for i in ids])
        log = [r.method + r.path for r in w.sim.requests]
        after = log[log.index("DELETE/api/assets") + 1 :]
        assert len(after) < 10
