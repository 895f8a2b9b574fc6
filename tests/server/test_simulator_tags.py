"""The simulator: tags by PUT and POST, their parents, searches by tag, and tags that get lost."""

from __future__ import annotations

import uuid

import pytest

from tests.server.simulator_support import VERSIONS, House, house

pytestmark = pytest.mark.parametrize("version", VERSIONS)
RUN = "tool/v1/run/2026-03-01"


def put_tag(one: House, name: str) -> str:
    (tag,) = one.client.put("/api/tags", json={"tags": [name]}).json()
    tag_id: str = tag["id"]
    return tag_id


def give(one: House, tag_id: str, *asset_ids: str) -> int:
    body = {"tagIds": [tag_id], "assetIds": list(asset_ids)}
    count: int = one.client.put("/api/tags/assets", json=body).json()["count"]
    return count


def test_put_makes_a_tag_with_its_parents_and_again_gives_the_same(version: str) -> None:
    with house(version) as one:
        first = put_tag(one, RUN)
        assert put_tag(one, RUN) == first
        assert one.sim.tags() == ["tool", "tool/v1", "tool/v1/run", RUN]
        listed = one.client.get("/api/tags").json()
        assert [tag["value"] for tag in listed] == one.sim.tags()
        assert [tag.get("parentId") for tag in listed] == [None, *[tag["id"] for tag in listed[:3]]]
        assert one.client.get(f"/api/tags/{first}").json()["name"] == "2026-03-01"


def test_post_makes_no_parents_and_refuses_a_name_that_exists(version: str) -> None:
    with house(version) as one:
        assert one.client.post("/api/tags", json={"name": RUN}).status_code == 201
        assert one.sim.tags() == [RUN]
        again = one.client.post("/api/tags", json={"name": RUN})
        assert (again.status_code, again.json()["message"]) == (400, "A tag with that name already exists")


def test_a_tag_made_by_post_is_found_only_after_the_servers_job(version: str) -> None:
    with house(version) as one:
        one.sim.jobs_by_themselves = False
        asset_id = one.add("a.jpg")
        tag_id = one.client.post("/api/tags", json={"name": RUN}).json()["id"]
        assert give(one, tag_id, asset_id) == 1
        assert one.search(tagIds=[tag_id])["total"] == 0
        one.sim.run_jobs()
        assert one.search(tagIds=[tag_id])["total"] == 1
        assert "tool/v1" in one.sim.tags()


def test_tagging_counts_new_pairs_and_skips_foreign_locked_and_unknown_assets(version: str) -> None:
    with house(version) as one:
        stranger = one.sim.add_user("Sam", "sam@example.com")
        theirs = one.sim.add_asset(stranger, checksum="x" * 27 + "=", file_name="x.jpg")
        good = {one.add("t", trashed=True), one.add("h", visibility="hidden"), one.add("a")}
        bad = [theirs, one.add("l", visibility="locked"), str(uuid.uuid4())]
        tag_id = put_tag(one, RUN)
        assert give(one, tag_id, *good, *bad) == 3
        assert give(one, tag_id, *good) == 0
        assert one.sim.tag_members(RUN) == good
        assert give(one, str(uuid.uuid4()), *good) == 0


def test_a_search_by_tags_is_an_and_and_follows_visibility_and_trash(version: str) -> None:
    with house(version) as one:
        plain, hidden, trashed = one.add("a"), one.add("h", visibility="hidden"), one.add("t", trashed=True)
        first, second = put_tag(one, "one"), put_tag(one, "two")
        give(one, first, plain, hidden, trashed)
        give(one, second, plain)
        timeline = {"visibility": "timeline"}
        assert [item["id"] for item in one.search(tagIds=[first], **timeline)["items"]] == [plain]
        assert one.search(tagIds=[first], withDeleted=True, **timeline)["total"] == 2
        assert one.search(tagIds=[first], visibility="hidden")["total"] == 1
        assert one.search(tagIds=[first, second], withDeleted=True)["total"] == 1
        assert one.search(tagIds=[str(uuid.uuid4())])["total"] == 0


def test_a_parent_tag_finds_the_assets_of_its_children(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a")
        give(one, put_tag(one, RUN), asset_id)
        parent = next(tag["id"] for tag in one.client.get("/api/tags").json() if tag["value"] == "tool/v1")
        assert one.search(tagIds=[parent])["total"] == 1


def test_tags_survive_trash_and_restore(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a")
        give(one, put_tag(one, RUN), asset_id)
        one.delete(asset_id)
        one.restore(asset_id)
        assert one.sim.tag_members(RUN) == {asset_id}


def test_a_second_tagging_in_quick_succession_is_lost_where_the_switch_says_so(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a")
        first, second = put_tag(one, "one"), put_tag(one, "two")
        one.sim.tag_loss = 1.0
        assert give(one, first, asset_id) == 1
        assert give(one, second, asset_id) == 1
        assert one.search(tagIds=[first])["total"] == 1  # any other request: the jobs run before it
        assert one.sim.tag_members("one") == {asset_id}
        assert one.sim.tag_members("two") == set()
        assert give(one, second, asset_id) == 1
        assert one.search(tagIds=[second])["total"] == 1


def test_one_tagging_per_asset_is_never_lost(version: str) -> None:
    with house(version) as one:
        one.sim.tag_loss = 1.0
        ids = {one.add(f"{n}.jpg") for n in range(20)}
        assert give(one, put_tag(one, RUN), *ids) == 20
        one.delete(*ids)
        assert one.sim.tag_members(RUN) == ids


def test_a_tag_given_while_an_upload_is_still_processed_is_lost_for_a_share_of_assets(version: str) -> None:
    with house(version) as one:
        one.sim.tag_loss = 0.5
        ids = {one.add(f"{n}.jpg") for n in range(60)}
        one.sim.queue_metadata_job(ids)
        tag_id = put_tag(one, RUN)
        assert give(one, tag_id, *ids) == 60
        one.sim.run_jobs()
        assert 0 < len(one.sim.tag_members(RUN)) < 60


def test_tagging_by_the_tags_own_path_answers_for_each_asset(version: str) -> None:
    with house(version) as one:
        asset_id, unknown = one.add("a"), str(uuid.uuid4())
        path = f"/api/tags/{put_tag(one, RUN)}/assets"
        results = one.client.put(path, json={"ids": [asset_id, asset_id, unknown]}).json()
        assert [row.get("error") for row in results] == [None, "duplicate", "no_permission"]
        results = one.client.request("DELETE", path, json={"ids": [asset_id, unknown]}).json()
        assert [row["success"] for row in results] == [True, False]
        assert one.sim.tag_members(RUN) == set()


def test_lesson_37_an_empty_tag_can_be_removed_and_the_assets_stay(version: str) -> None:
    with house(version) as one:
        asset_id = one.add("a")
        tag_id = put_tag(one, RUN)
        give(one, tag_id, asset_id)
        assert one.client.delete(f"/api/tags/{tag_id}").status_code == 204
        assert RUN not in one.sim.tags()
        assert one.sim.asset(asset_id).tags == frozenset()


def test_the_night_drops_tags_that_hold_nothing(version: str) -> None:
    with house(version) as one:
        give(one, put_tag(one, "kept/child"), one.add("a", trashed=True))
        put_tag(one, "empty")
        one.sim.run_nightly_jobs()
        assert one.sim.tags() == ["kept", "kept/child"]


def test_more_pairs_than_the_database_takes_are_500_and_tag_nothing(version: str) -> None:
    with house(version) as one:
        rows = [{"checksum": f"{n:027}=", "file_name": "a.jpg"} for n in range(33_000)]
        ids = one.sim.add_assets(one.user_id, rows)
        body = {"tagIds": [put_tag(one, RUN)], "assetIds": ids}
        assert one.client.put("/api/tags/assets", json=body).status_code == 500
        assert one.sim.tag_members(RUN) == set()


def test_another_users_tag_is_out_of_reach(version: str) -> None:
    with house(version) as one:
        tag_id = put_tag(one, RUN)
        stranger = one.sim.add_key(one.sim.add_user("Sam", "sam@example.com"), ["all"])
        answer = one.client.get(f"/api/tags/{tag_id}", headers={"x-api-key": stranger})
        assert (answer.status_code, answer.json()["message"]) == (400, "Not found or no tag.read access")
        assert one.client.get("/api/tags", headers={"x-api-key": stranger}).json() == []
