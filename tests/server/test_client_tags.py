"""Tags: made once, attached in batches, read back, removed where the key may."""

from __future__ import annotations

import uuid

import pytest

from engine.errors import UsageError
from server import errors
from tests.server.client_support import BOTH, NORMAL, world

NAME = "tool/v1/run/2026-01-01T00:00:00Z-1a63c4"


@BOTH
def test_a_tag_is_made_once_under_its_whole_name(version: str) -> None:
    with world(version, NORMAL) as w:
        tag = w.server.upsert_tag(NAME)
        assert (tag.name, tag.value) == ("2026-01-01T00:00:00Z-1a63c4", NAME)
        assert w.server.upsert_tag(NAME) == tag
        assert w.sim.tags() == ["tool", "tool/v1", "tool/v1/run", NAME]


@BOTH
@pytest.mark.parametrize("status", [400, 404, 405])
def test_where_put_is_refused_a_tag_is_posted_and_an_existing_one_looked_up(version: str, status: int) -> None:
    with world(version) as w:
        w.sim.faults.add("PUT", "/api/tags", status=status, body={"message": "Cannot PUT /api/tags"}, times=None)
        tag = w.server.upsert_tag(NAME)
        assert tag.value == NAME
        assert w.server.upsert_tag(NAME) == tag
        assert [t.value for t in w.server.list_tags()].count(NAME) == 1


def test_an_existing_tag_that_may_not_be_looked_up_says_which_scope_is_missing() -> None:
    with world(scopes=NORMAL) as w:
        w.server.upsert_tag(NAME)
        w.sim.faults.add("PUT", "/api/tags", status=405, body={"message": "no"})
        with pytest.raises(errors.MissingScope, match=r"tag\.read"):
            w.server.upsert_tag(NAME)


def test_a_missing_tag_create_is_no_reason_to_post() -> None:
    with world(scopes={"asset.read"}) as w:
        with pytest.raises(errors.MissingScope, match=r"tag\.create"):
            w.server.upsert_tag(NAME)
        assert not w.requests("POST", "/api/tags")


def test_an_answer_with_another_tag_is_refused() -> None:
    other = {"id": str(uuid.uuid4()), "name": "other", "value": "other"}
    for body in ([], [other], [{"name": NAME}], {"id": "x"}):
        with world() as w:
            w.sim.faults.add("PUT", "/api/tags", status=200, body=body)
            with pytest.raises(errors.AnswerMalformed):
                w.server.upsert_tag(NAME)


@BOTH
def test_tagging_attaches_hidden_and_trashed_assets_and_members_are_read_back(version: str) -> None:
    with world(version, NORMAL) as w:
        ids = [
            *w.add("x", 3),
            *w.add("h", visibility="hidden"),
            *w.add("t", trashed=True),
            *w.add("a", visibility="archive"),
        ]
        others = w.add("other", 2)
        tag = w.server.upsert_tag(NAME)
        assert w.server.tag_assets(tag.id, ids) == len(ids)
        assert w.server.tag_assets(tag.id, [*ids, ids[0].upper()]) == 0
        assert w.sim.tag_members(NAME) == set(ids)
        assert w.server.tag_members(tag.id) == set(ids)
        assert not set(others) & w.server.tag_members(tag.id)


@BOTH
def test_one_tagging_call_goes_out_per_batch(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 501)
        tag = w.server.upsert_tag(NAME)
        assert w.server.tag_assets(tag.id, ids) == 501
        assert [len(r.json["assetIds"]) for r in w.requests("PUT", "/api/tags/assets")] == [500, 1]


@BOTH
def test_unknown_ids_are_not_counted_as_tagged(version: str) -> None:
    with world(version) as w:
        tag = w.server.upsert_tag(NAME)
        assert w.server.tag_assets(tag.id, [*w.add("x"), str(uuid.uuid4())]) == 1


@BOTH
def test_untagging_detaches(version: str) -> None:
    with world(version) as w:
        ids = w.add("x", 3)
        tag = w.server.upsert_tag(NAME)
        w.server.tag_assets(tag.id, ids)
        assert w.server.untag_assets(tag.id, [ids[0], str(uuid.uuid4())]) == 1
        assert w.sim.tag_members(NAME) == set(ids[1:])


def test_members_of_no_tag_are_never_asked_for() -> None:
    """An empty tag filter would match every asset."""
    with world() as w:
        w.add("x")
        for bad in ("", "x", "[]"):
            with pytest.raises(UsageError):
                w.server.tag_members(bad)
        assert w.server.tag_members(str(uuid.uuid4())) == frozenset()


@BOTH
def test_lesson_37_an_empty_tag_is_removed_where_the_key_may_and_nothing_is_raised_where_not(version: str) -> None:
    with world(version) as w:
        tag = w.server.upsert_tag(NAME)
        assert w.server.delete_tag(tag.id) is True
        assert NAME not in w.sim.tags()
        assert w.server.delete_tag(tag.id) is True, "gone is gone"
    with world(version, NORMAL) as w:
        assert w.server.delete_tag(w.server.upsert_tag(NAME).id) is False
        assert NAME in w.sim.tags()
