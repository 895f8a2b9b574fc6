"""To the trash and back: nothing sent twice in vain, nothing believed, one bad id fails alone, and never by force."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import server.client
from engine.errors import UsageError
from server import errors
from server.client import PhotoServer
from tests.server.client_support import BOTH, NORMAL, World, bare_server, checksum, reply, world

GONE = "Not found or no asset.delete access"


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
    with world(timeout=0.3) as w:
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


@BOTH
def test_trashed_since_shows_what_went_to_the_trash_after_a_moment(version: str) -> None:
    with world(version) as w:
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        old, new, _ = w.add("x", 3)
        w.sim.change_asset(old, deleted_at=noon - timedelta(hours=1))
        w.sim.change_asset(new, deleted_at=noon + timedelta(hours=1))
        assert w.server.trashed_since(noon) == {new}
        assert w.server.trashed_since(noon - timedelta(days=1)) == {old, new}


@BOTH
def test_restore_takes_assets_out_of_the_trash(version: str) -> None:
    with world(version, NORMAL) as w:
        ids = w.add("x", 3, trashed=True) + w.add("v", visibility="hidden", trashed=True)
        stays = w.add("stays", trashed=True)
        outcome = w.server.restore_assets([*ids, ids[0].upper()])
        assert outcome.restored == set(ids)
        assert not outcome.failed
        assert w.sim.trashed() == set(stays)


@BOTH
def test_trash_then_restore_is_the_identity(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 5)
        before = w.server.fetch_assets(w.user)
        assert w.server.restore_assets(w.server.trash_units([(i,) for i in ids]).trashed).restored == set(ids)
        assert w.server.fetch_assets(w.user).sort_by("asset_id") == before.sort_by("asset_id")


@BOTH
def test_lesson_36_a_restore_that_only_says_so_is_a_failure(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 3, trashed=True)
        w.sim.faults.add("POST", "/api/trash/restore/assets", status=200, body={"count": 3}, times=None)
        outcome = w.server.restore_assets(ids)
        assert outcome.restored == frozenset()
        assert set(outcome.failed) == set(ids)
        assert "not out of the trash" in outcome.failed[ids[0]]


@BOTH
def test_lesson_36_a_restore_names_what_the_server_no_longer_has(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 3, trashed=True)
        w.sim.purge(ids[1])
        outcome = w.server.restore_assets(ids)
        assert outcome.restored == {ids[0], ids[2]}
        assert set(outcome.failed) == {ids[1]}


def test_a_refused_restore_is_halved_until_the_bad_id_fails_alone() -> None:
    with world() as w:
        ids = w.add("x", 9, trashed=True)
        w.sim.faults.add("POST", "/api/trash/restore", status=400, body={"message": GONE})
        assert w.server.restore_assets(ids).restored == set(ids)
        assert [len(r.json["ids"]) for r in w.requests("POST", "/api/trash/restore")] == [9, 4, 5]


def test_a_restore_whose_answer_is_lost_is_not_sent_again() -> None:
    with world() as w:
        ids = w.add("x", 3, trashed=True)
        w.sim.faults.add("POST", "/api/trash/restore", drop_connection=True, before_effect=False)
        assert w.server.restore_assets(ids).restored == set(ids)
        assert len(w.requests("POST", "/api/trash/restore")) == 1


def test_restore_sends_500_at_a_time() -> None:
    with world() as w:
        ids = w.add("x", 501, trashed=True)
        assert w.server.restore_assets(ids).restored == set(ids)
        assert [len(r.json["ids"]) for r in w.requests("POST", "/api/trash/restore")] == [500, 1]


@BOTH
def test_assets_by_id_tells_the_servers_own_word(version: str) -> None:
    with world(version, NORMAL) as w:
        video = w.add("v", visibility="hidden")[0]
        still = w.add("s", live_photo_video_id=video, trashed=True)[0]
        locked = w.add("l", visibility="locked")[0]
        states = w.server.assets_by_id([still.upper(), video, locked, str(uuid.uuid4())])
        assert list(states)[:3] == [still, video, locked]
        state = states[still]
        assert state is not None
        assert (state.is_trashed, state.live_photo_video_id, state.owner_id) == (True, video, w.user)
        assert (state.checksum, state.file_name, state.visibility) == (checksum("s0"), "s0.jpg", "timeline")
        assert [s is None for s in states.values()] == [False, False, True, True]


def test_an_asset_is_not_taken_for_missing_when_something_else_is_wrong() -> None:
    for fault in ({"status": 404, "body": {"message": "Cannot GET"}}, {"status": 503}, {"status": 403, "html": True}):
        with world() as w:
            ids = w.add("x")
            w.sim.faults.add("GET", "/api/assets/", times=None, **fault)
            with pytest.raises(errors.ServerError):
                w.server.assets_by_id(ids)


def test_an_answer_about_another_asset_is_refused() -> None:
    with world() as w:
        one, other = w.add("x", 2)
        body = {
            "id": other,
            "ownerId": w.user,
            "checksum": checksum("x1"),
            "originalFileName": "x",
            "type": "IMAGE",
            "isTrashed": True,
            "visibility": "timeline",
        }
        w.sim.faults.add("GET", f"/api/assets/{one}", status=200, body=body)
        with pytest.raises(errors.AnswerMalformed, match="another asset"):
            w.server.assets_by_id([one])


@BOTH
def test_thumbnails_come_as_bytes(version: str) -> None:
    with world(version, NORMAL) as w:
        shown = w.add("x")[0]
        hidden = w.add("v", visibility="hidden")[0]
        assert len(w.server.thumbnail(shown)) > 10
        with pytest.raises(errors.NotFound):
            w.server.thumbnail(hidden)
        with pytest.raises(errors.NotFound):
            w.server.thumbnail(str(uuid.uuid4()))


def test_a_thumbnail_is_found_at_the_older_path_and_must_be_an_image() -> None:
    asset_id = str(uuid.uuid4())

    def old(handler: Any) -> None:
        answer: Callable[[Any], None] = reply(404, b'{"message":"Cannot GET"}', Content_Type="application/json")
        if handler.path == f"/api/thumbnail/{asset_id}":
            answer = reply(200, b"picture", Content_Type="image/webp")
        answer(handler)

    with bare_server(old) as (url, _), PhotoServer(url, SecretStr("k")) as client:
        assert client.thumbnail(asset_id) == b"picture"
    page = reply(200, b"<html>", Content_Type="text/html")
    with (
        bare_server(page) as (url, _),
        PhotoServer(url, SecretStr("k")) as client,
        pytest.raises(errors.AnswerMalformed),
    ):
        client.thumbnail(asset_id)
