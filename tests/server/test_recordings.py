"""The simulator against exchanges recorded on real servers: the same requests must get the same kind of answers.

Without the recordings these tests skip, and the test_simulator_*.py modules pin the essentials by themselves. The
change stream is in test_recordings_sync.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from server.simulator import sha1_checksum
from server.simulator.render import DEVICE_ID
from tests.server.replaying import FOLDER, NOT_REPLAYED, NOW, UPLOADED, VERSIONS, Replay, begun, recording, seed_base

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no server recordings here"),
    pytest.mark.parametrize("version", VERSIONS),
]


@pytest.fixture
def replay(version: str) -> Iterator[Replay]:
    """The simulator with the assets that the recordings began with."""
    with begun(version) as one:
        seed_base(one)
        yield one


def test_the_recorded_answers_about_the_server_itself(replay: Replay) -> None:
    replay.play_all("10-server")
    assert replay.played >= 20


def test_the_recorded_answers_to_good_and_bad_credentials(replay: Replay) -> None:
    good = replay.names["<TOKEN>"]
    for place in range(len(recording(replay.version, "11-auth-errors"))):
        replay.names["<TOKEN>"] = "badtoken" if place in (3, 7) else good
        replay.names["<KEY>"] = good
        request = recording(replay.version, "11-auth-errors")[place]["request"]
        for header in ("x-immich-user-token", "x-immich-session-token"):
            if header in request["headers"]:
                replay.names[request["headers"][header]] = good
        replay.play("11-auth-errors", place)
    assert replay.played >= 27


def test_the_recorded_answers_to_logins_and_logouts(replay: Replay) -> None:
    for place in range(11):
        replay.play("12-login", place)
        if place == 0:
            replay.names["<TOKEN>"] = next(reversed(replay.sim.sessions))
    replay.names["<TOKEN>"] = replay.sim.add_session(replay.alice, expires_at=NOW)
    replay.play("12-login", 13, 14)
    assert replay.played == 13


def test_the_recorded_answers_to_searches(replay: Replay) -> None:
    replay.names['"deviceId": "rec"'] = f'"deviceId": "{DEVICE_ID}"'
    replay.play_all("20-search-metadata")
    assert replay.played == 58


@pytest.mark.parametrize("group", ["21-statistics", "22-bulk-upload-check"])
def test_the_recorded_counts_and_presence_checks(replay: Replay, group: str) -> None:
    replay.play_all(group)
    assert replay.played >= 13


def test_the_recorded_life_of_tags(replay: Replay) -> None:
    sim = replay.sim
    sim.tag_loss = 1.0  # two taggings of one asset in the recording met before the server's job ran
    for asset_id in replay.ids_of("30-tags", 2, "assetIds") + replay.ids_of("30-tags", 43):
        replay.seed(asset_id, trashed=False)
    replay.seed(*replay.ids_of("30-tags", 26, "assetIds"), trashed=True)
    # The asset whose job had not run between its two taggings: the trashed one on 2.7.5, the motion video on 3.1.0.
    slow = replay.ids_of("30-tags", 26 if replay.version == "2.7.5" else 27, "assetIds")[0]

    def jobs_but_the_slow_one() -> None:
        waiting = sim.metadata_jobs.pop(slow)
        sim.run_jobs()
        sim.metadata_jobs[slow] = waiting

    steps: list[tuple[str, range] | Callable[[], None]] = [
        ("30-tags", range(4)),
        ("31-tag-search", range(1)),
        sim.run_jobs,
        ("30-tags", range(5, 11)),
        ("31-tag-search", range(1, 3)),
        ("30-tags", range(11, 32)),
        jobs_but_the_slow_one,
        ("30-tags", range(32, 39)),
        ("31-tag-search", range(3, 14)),
        *([jobs_but_the_slow_one] if replay.version == "2.7.5" else []),
        ("30-tags", range(39, 48)),
        sim.run_jobs,
        ("30-tags", range(48, 52)),
        ("31-tag-search", range(14, 16)),
        ("30-tags", range(52, 61)),
        ("31-tag-search", range(16, 17)),
        sim.clean_tags,
        ("30-tags", range(62, 69)),
    ]
    for step in steps:
        if callable(step):
            step()
        else:
            replay.play(step[0], *step[1])
    assert replay.played == 67 + 17


def test_the_recorded_ways_of_trashing_and_restoring(replay: Replay) -> None:
    still, motion, again = (replay.ids_of("40-trash", place)[0] for place in (40, 43, 51))
    for asset_id in [replay.ids_of("40-trash", place)[0] for place in (0, 4, 19)]:
        replay.seed(asset_id, trashed=False)
    replay.seed(motion, trashed=False, visibility="hidden", type="VIDEO")
    replay.seed(still, live_photo_video_id=motion)
    replay.seed(again, checksum=sha1_checksum(UPLOADED))
    replay.sim.add_asset(replay.bob, checksum=sha1_checksum(b"bob"), file_name="bob.jpg", trashed=True)
    upload = recording(replay.version, "40-trash")[52]["request"]["json"]["multipart_fields"]
    if replay.version == "2.7.5":
        upload.setdefault("deviceAssetId", "z"), upload.setdefault("deviceId", "rec")
    replay.play_all("40-trash")
    assert replay.played == 55


def test_the_recorded_trash_that_is_switched_off(replay: Replay) -> None:
    replay.sim.trash_enabled = False
    replay.seed(*replay.ids_of("45-trash-disabled", 2), trashed=False)
    replay.play_all("45-trash-disabled")
    assert replay.played == 6


def test_the_recorded_limits_and_odd_requests(replay: Replay) -> None:
    replay.seed(*replay.ids_of("46-misc", 0), trashed=False)
    key = replay.sim.add_key(replay.alice, ["asset.read"], "tmp")
    replay.names["<KEY>"] = key
    replay.play("46-misc", *range(14))
    replay.sim.revoke_key(key)
    replay.play("46-misc", *range(14, 18))
    assert replay.played == 14


def test_the_recorded_thumbnails(replay: Replay) -> None:
    group = "50-thumbnails"
    fresh = recording(replay.version, group)[21]["request"]["path"].split("/")[3]
    replay.seed(fresh)
    replay.sim.change_asset(fresh, processed=False)
    first, second = recording(replay.version, group)[:2]
    shown = replay.client.get(first["request"]["path"], headers={"x-api-key": replay.names["<ALICE_KEY_A>"]})
    replay.names[second["request"]["headers"]["If-None-Match"]] = shown.headers["etag"]
    replay.play_all(group)
    assert replay.played == 22


def make_tags(replay: Replay, group: str, *places: int) -> None:
    """The tags that these requests name, which were made before the recording began."""
    for place in places:
        for tag_id in replay.ids_of(group, place, "tagIds"):
            tag = replay.sim.upsert_tag(replay.alice, f"made-before/{tag_id}")
            assert tag is not None
            replay.names[tag_id] = tag.tag_id


def test_the_recorded_taggings_that_are_followed_by_trashing(replay: Replay) -> None:
    group = "70-tag-then-trash"
    make_tags(replay, group, 0, 1, 4)
    for asset_id in replay.ids_of(group, 0, "assetIds") + replay.ids_of(group, 4, "assetIds"):
        replay.seed(asset_id)
    replay.play_all(group)
    assert replay.played == 5


def test_the_recorded_taggings_with_two_tags(replay: Replay) -> None:
    make_tags(replay, "71-two-tags", 0, 1, 2)
    for asset_id in replay.ids_of("71-two-tags", 0, "assetIds"):
        replay.seed(asset_id)
    replay.play_all("71-two-tags")
    assert replay.played == 3


def test_the_recorded_view_of_a_partners_assets(replay: Replay) -> None:
    replay.sim.share_with_partner(replay.bob, replay.alice)
    replay.play_all("90-partner")
    assert replay.played == 8


def test_the_recorded_refusal_of_locked_assets(replay: Replay) -> None:
    replay.play_all("91-locked")
    assert replay.played == 1


def test_the_recorded_end_of_all_other_sessions(replay: Replay) -> None:
    replay.names["<ALICE_TOKEN>"] = replay.sim.add_session(replay.alice)
    replay.play_all("92-sessions")
    assert replay.played == 3


def test_every_recorded_group_is_replayed_or_has_a_reason(version: str) -> None:
    played = {"20-search-metadata", "21-statistics", "22-bulk-upload-check", "31-tag-search", "40-trash"}
    played |= {"45-trash-disabled", "60-sync"}
    groups = {path.stem for path in (FOLDER / version).glob("[0-9]*.json")}
    assert groups == played | set(NOT_REPLAYED)
