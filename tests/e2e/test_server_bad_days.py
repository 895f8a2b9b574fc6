"""Bad days of the photo server: nothing is believed that was not read back, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import PartlyDone, RailTripped, UsageError
from engine.runs import tag_name
from server.errors import ServerError
from tests.crash.stage import partition_of, statuses
from tests.e2e.bad_days import aborts, all_is_well, delete_some, furnish, nothing_changes, plan, reasons
from tests.world import World, checksum, small_world

NAMES = {"2021/IMG_1.JPG", "2020/IMG_90.HEIC", "2020/IMG_90.MOV"}
LIVE = {"2020/IMG_90.HEIC", "2020/IMG_90.MOV"}


def deletes(world: World) -> list[Any]:
    """The bodies of the requests to trash assets."""
    return [r.json["ids"] for r in world.simulator.mutations() if (r.method, r.path) == ("DELETE", "/api/assets")]


# It answers nonsense, or not at all


FAULTS: dict[str, dict[str, Any]] = {
    "a web page": {"html": True, "status": 200},
    "a cut": {"drop_connection": True, "times": 3},
    "a 500": {"status": 500, "body": {"message": "boom"}, "times": 4},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", ["/api/server/features", "/api/search/metadata"])
def test_a_server_that_answers_nonsense_stops_the_run_with_one_clear_error(due: World, path: str, fault: str) -> None:
    planning = path == "/api/search/metadata"
    due.simulator.faults.add("*", path, **{**FAULTS[fault], "times": None})
    with nothing_changes(due, also_remembered=not planning), pytest.raises(ServerError) as caught:
        due.reconcile()
    assert path in str(caught.value) and "Traceback" not in str(caught.value)
    due.simulator.faults.clear()
    all_is_well(due, NAMES)


def test_lesson_38_a_server_that_is_down_leaves_no_run_behind(due: World) -> None:
    runs = sorted(partition_of(due).runs.iterdir())
    due.simulator.faults.add("*", "/", drop_connection=True, times=None)
    with nothing_changes(due), pytest.raises(ServerError):
        due.reconcile()
    assert sorted(partition_of(due).runs.iterdir()) == runs and statuses(partition_of(due)) == {}


def test_a_server_that_asks_for_patience_gets_it(due: World) -> None:
    too_many: dict[str, Any] = {"status": 429, "headers": {"Retry-After": "0"}, "body": {"message": "slow down"}}
    due.simulator.faults.add("POST", "/api/search/metadata", times=2, **too_many)
    due.simulator.faults.add("GET", "/api/server/version", times=1, **too_many)
    planned = plan(due)
    due.simulator.faults.add("DELETE", "/api/assets", times=1, **too_many)
    assert due.apply(planned).outcome == "trashed" and due.trashed() == NAMES


def test_lesson_87_a_listing_that_breaks_off_is_not_used(due: World) -> None:
    due.change_settings(pageSize=2)
    due.simulator.faults.add("POST", "/api/search/metadata", status=500, after=4, times=None)
    with nothing_changes(due, also_remembered=False), pytest.raises(ServerError):
        due.reconcile()
    due.simulator.faults.clear()
    assert plan(due).counts["to_trash"] == 3


def test_a_server_that_is_gone_between_plan_and_apply_loses_nothing(due: World) -> None:
    planned = plan(due)
    due.simulator.faults.add("*", "/", drop_connection=True, times=None)
    with nothing_changes(due), pytest.raises(ServerError):
        due.apply(planned)
    due.simulator.faults.clear()
    assert due.apply(planned).outcome == "trashed" and due.trashed() == NAMES


# Its trash is no trash


@pytest.mark.parametrize("setting", [{"trash_enabled": False}, {"trash_days": 3}])
def test_lesson_91_a_trash_that_does_not_keep_is_no_trash(due: World, setting: dict[str, Any]) -> None:
    planned = plan(due)
    for name, value in setting.items():
        setattr(due.simulator, name, value)
    assert due.reconcile().outcome == "planned"
    aborts(due, "retention", dry_run=False)
    with nothing_changes(due), pytest.raises(RailTripped) as caught:
        due.apply(planned)
    assert caught.value.rail == "retention" and not due.trashed()


# Assets that are not ours to trash, or changed meanwhile


def test_a_partners_a_locked_and_an_external_asset_stay(world: World) -> None:
    partner = world.simulator.add_user("Bob", "bob@example.com")
    world.simulator.share_with_partner(partner, world.user_id)
    world.backed_up("locked.JPG", visibility="locked")
    world.backed_up("external.JPG", library_id=world.user_id)
    digest = world.write("partner.JPG")
    theirs = world.simulator.add_asset(partner, checksum=digest, file_name="partner.JPG")
    world.reconcile()
    world.remove("locked.JPG", "external.JPG", "partner.JPG", "2021/IMG_1.JPG")
    planned = plan(world)
    assert planned.counts["to_trash"] == 1
    world.apply(planned)
    assert world.trashed() == {"2021/IMG_1.JPG"} and theirs not in world.simulator.trashed()


def purged(world: World) -> None:
    world.simulator.purge(world.ids["2021/IMG_1.JPG"])


def other_bytes(world: World) -> None:
    world.simulator.change_asset(world.ids["2021/IMG_1.JPG"], checksum=checksum(b"other bytes"))


def locked_away(world: World) -> None:
    world.simulator.change_asset(world.ids["2021/IMG_1.JPG"], visibility="locked")


def trashed_by_hand(world: World) -> None:
    world.simulator.change_asset(world.ids["2021/IMG_1.JPG"], deleted_at=world.now)


@pytest.mark.parametrize("change", [purged, other_bytes, locked_away, trashed_by_hand])
def test_an_asset_that_changed_between_plan_and_apply_is_left_out_alone(due: World, change: Any) -> None:
    planned = plan(due)
    change(due)
    due.pass_days(1)
    dates = {a.asset_id: a.deleted_at for a in due.simulator.assets.values()}
    done = due.apply(planned)
    assert (done.outcome, done.counts["trashed"], done.counts["left_out"]) == ("trashed", 1, 1), done
    assert due.trashed() >= LIVE and due.ids["2021/IMG_1.JPG"] not in {i for ids in deletes(due) for i in ids}
    if change is trashed_by_hand:
        assert due.simulator.asset(due.ids["2021/IMG_1.JPG"]).deleted_at == dates[due.ids["2021/IMG_1.JPG"]]
    assert any("left out" in note for note in done.notes)


def test_two_assets_of_one_checksum_both_go_and_both_come_back(world: World) -> None:
    again = world.simulator.add_asset(
        world.user_id, checksum=checksum(b"photo 2021/IMG_1.JPG"), file_name="again.JPG", asset_id=None
    )
    world.remove("2021/IMG_1.JPG")
    done = world.apply(plan(world))
    assert world.simulator.trashed() == {again, world.ids["2021/IMG_1.JPG"]}
    assert world.restore(done.run_id).outcome == "restored" and not world.simulator.trashed()


def test_a_still_whose_video_was_purged_goes_alone(due: World) -> None:
    due.simulator.purge(due.ids["2020/IMG_90.MOV"])
    done = due.apply(plan(due))
    assert done.outcome == "trashed" and due.trashed() == NAMES - {"2020/IMG_90.MOV"}
    assert due.restore(done.run_id).outcome == "restored" and not due.trashed()


def test_invariant_6_a_video_that_a_staying_still_links_to_stays(world: World) -> None:
    world.backed_up("2020/IMG_91.HEIC", b"another still", live_photo_video_id=world.ids["2020/IMG_90.MOV"])
    world.reconcile()
    world.remove(*LIVE)
    world.apply(plan(world))
    assert world.trashed() == {"2020/IMG_90.HEIC"}


def test_a_still_whose_video_is_in_quarantine_waits_for_it(world: World) -> None:
    world.change_settings(quarantineDays=14)
    world.remove("2020/IMG_90.HEIC")
    world.reconcile()
    world.pass_days(10)
    world.remove("2020/IMG_90.MOV")
    world.reconcile()
    world.pass_days(5)
    assert world.reconcile().counts["delete"] == 0
    world.pass_days(10)
    world.apply(plan(world))
    assert world.trashed() == LIVE


# Tags


def test_a_key_that_may_not_tag_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch, permissions=("asset.read", "user.read", "asset.delete")) as world:
        furnish(world)
        delete_some(world)
        planned = plan(world)
        with nothing_changes(world), pytest.raises(UsageError, match=r"tag\.asset, tag\.create"):
            world.apply(planned)
        with nothing_changes(world), pytest.raises(UsageError, match=r"tag\.asset, tag\.create"):
            world.reconcile(dry_run=False)


@pytest.mark.parametrize("path", ["/api/tags", "/api/tags/assets"])
def test_lesson_37_without_its_tag_nothing_is_trashed_and_no_empty_tag_stays(due: World, path: str) -> None:
    planned = plan(due)
    due.simulator.faults.add("PUT", path, status=500, body={"message": "tags are broken"})
    with pytest.raises(ServerError, match="tags are broken"):
        due.apply(planned)
    assert not due.trashed() and not deletes(due)
    assert set(statuses(partition_of(due))[planned.run_id].values()) == {"failed"}
    assert tag_name(planned.run_id) not in due.simulator.tags()
    assert due.apply(planned).outcome == "trashed" and due.trashed() == NAMES
    assert due.simulator.tag_members(tag_name(planned.run_id)) == due.simulator.trashed()


def test_what_lost_its_tag_is_tagged_again(due: World) -> None:
    planned = plan(due)
    due.simulator.tag_loss = 1.0

    def reads_the_metadata_meanwhile(method: str, path: str) -> None:
        if (method, path) == ("PUT", "/api/tags"):
            due.simulator.faults.arrived = None
            due.simulator.queue_metadata_job(due.ids[name] for name in NAMES)

    due.simulator.faults.arrived = reads_the_metadata_meanwhile
    done = due.apply(planned)
    assert any("tagged again" in note for note in done.notes), done
    assert due.simulator.tag_members(tag_name(done.run_id)) == due.simulator.trashed()


# The deletion itself


def test_lesson_43_one_refused_id_fails_alone_in_a_batch_of_many(world: World) -> None:
    world.all_backed_up("many/{}.JPG", 30)
    world.all_backed_up("staying/{}.JPG", 30)
    world.change_settings(thresholdPercent=100)
    world.reconcile()
    names = {f"many/{number}.JPG" for number in range(30)}
    world.remove(*names)
    planned = plan(world)

    def gone_at_the_last_moment(method: str, path: str) -> None:
        if (method, path) == ("DELETE", "/api/assets") and world.ids["many/7.JPG"] in world.simulator.assets:
            world.simulator.purge(world.ids["many/7.JPG"])

    world.simulator.faults.arrived = gone_at_the_last_moment
    done = world.apply(planned)
    assert (done.outcome, done.counts["trashed"], done.counts["failed"]) == ("done in part", 29, 1)
    assert world.trashed() == names - {"many/7.JPG"}


@pytest.mark.parametrize("before_effect", [True, False])
def test_a_deletion_whose_answer_is_lost_is_read_back_and_done_once(due: World, before_effect: bool) -> None:
    planned = plan(due)
    due.simulator.faults.add("DELETE", "/api/assets", drop_connection=True, before_effect=before_effect)
    done = due.apply(planned)
    assert done.outcome == "trashed" and due.trashed() == NAMES
    assert len(deletes(due)) == (2 if before_effect else 1)


def test_a_server_that_lies_about_the_deletion_is_not_believed(due: World) -> None:
    planned = plan(due)
    due.simulator.faults.add("DELETE", "/api/assets", status=204, before_effect=True, times=None)
    done = due.apply(planned)
    assert (done.outcome, done.counts["trashed"], done.counts["failed"]) == ("failed", 0, 2), done
    assert not due.trashed() and "not in the trash" in reasons(due)["IMG_1.JPG"]
    due.simulator.faults.clear()
    all_is_well(due, NAMES)


@pytest.mark.parametrize("half", sorted(LIVE))
def test_of_a_pair_that_went_by_half_the_half_comes_back(due: World, half: str) -> None:
    planned = plan(due)

    def half_of_it(method: str, path: str) -> None:
        if (method, path) == ("DELETE", "/api/assets"):
            due.simulator.change_asset(due.ids[half], deleted_at=due.now)

    due.simulator.faults.arrived = half_of_it
    due.simulator.faults.add("DELETE", "/api/assets", status=204, before_effect=True, times=None)
    done = due.apply(planned)
    assert (done.outcome, done.counts["trashed"]) == ("done in part", 1), done
    assert due.trashed() == {half}
    due.simulator.faults.arrived = None
    due.simulator.faults.clear()
    assert due.restore(planned.run_id).outcome == "restored" and not due.trashed()


def test_a_server_that_dies_after_the_deletion_is_asked_later(due: World) -> None:
    planned = plan(due)

    def dies(method: str, path: str) -> None:
        if (method, path) == ("DELETE", "/api/assets"):
            due.simulator.faults.arrived = None
            due.simulator.faults.add("DELETE", "/api/assets", drop_connection=True, before_effect=False)
            due.simulator.faults.add("*", "/", drop_connection=True, times=None)

    due.simulator.faults.arrived = dies
    with pytest.raises((ServerError, PartlyDone)):
        due.apply(planned)
    due.simulator.faults.clear()
    assert due.trashed() == NAMES
    due.apply(planned)
    assert set(statuses(partition_of(due))[planned.run_id].values()) == {"trashed"} and len(deletes(due)) == 1
    assert due.restore(planned.run_id).outcome == "restored" and not due.trashed()


def test_lesson_36_a_server_that_lies_about_the_restore_is_not_believed(due: World) -> None:
    done = due.apply(plan(due))
    due.simulator.faults.add(
        "POST", "/api/trash/restore/assets", status=200, body={"count": 3}, before_effect=True, times=None
    )
    lied = due.restore(done.run_id)
    assert lied.outcome == "failed" and due.trashed() == NAMES
    due.simulator.faults.clear()
    assert due.restore(done.run_id).outcome == "restored" and not due.trashed()
