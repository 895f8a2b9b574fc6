"""Out of the trash, and what the server says of single assets: nothing believed that was not read back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from server import errors
from server.client import PhotoServer
from tests.server.client_support import BOTH, GONE, NORMAL, bare_server, checksum, reply, world


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
