"""The simulator's change stream against the exchanges recorded on real servers, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.server.replaying import FOLDER, NOW, VERSIONS, Replay, begun, recording

GROUP = "60-sync"

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no server recordings here"),
    pytest.mark.parametrize("version", VERSIONS),
]


def recorded_lines(version: str, note: str) -> list[dict[str, Any]]:
    """The lines of the exchange with this note, as far as they were recorded whole."""
    (body,) = [one["response"]["body"] for one in recording(version, GROUP) if one["note"] == note]
    return [json.loads(line) for line in body["lines"] if line]


def seed_line(replay: Replay, data: dict[str, Any]) -> None:
    """The asset that a line shows."""
    replay.sim.add_asset(
        replay.alice,
        asset_id=data["id"],
        checksum=data["checksum"],
        file_name=data["originalFileName"],
        visibility=data["visibility"],
        live_photo_video_id=data["livePhotoVideoId"],
        type=data["type"],
        captured_at=datetime.fromisoformat(data["fileCreatedAt"]),
        is_favorite=data["isFavorite"],
        trashed=data["deletedAt"] is not None,
    )
    if data["width"] is None:
        replay.sim.change_asset(data["id"], processed=False)


def seed_full_stream(replay: Replay) -> None:
    for line in recorded_lines(replay.version, "full first"):
        if line["type"] == "AssetDeleteV1":
            one = line["data"]["assetId"]
            replay.sim.add_asset(replay.alice, asset_id=one, checksum="x", file_name="gone.jpg")
            replay.sim.purge(one)
        elif line["type"].startswith("AssetV"):
            seed_line(replay, line["data"])


def test_the_recorded_life_of_a_session_and_its_change_stream(version: str) -> None:
    with begun(version) as replay:
        sim = replay.sim
        for _ in range(2):
            sim.add_session(replay.alice)  # beside that of the replay: the others that the recorded list shows
        replay.names["<TOKEN>"] = sim.add_session(replay.alice)
        seed_full_stream(replay)
        first = recorded_lines(version, "incremental right after upload")[-2]["data"]
        second = recorded_lines(version, "new upload 2")[-2]["data"]

        def second_upload() -> None:
            sim.change_asset(first["id"])  # the job that follows the locking
            seed_line(replay, second)

        def half_deleted() -> None:
            if version == "2.7.5":  # where a forced deletion marks the asset, and a job deletes it after that
                sim.change_asset(second["id"], deleted_at=NOW)

        def second_session() -> None:
            replay.names["<TOKEN>"] = sim.add_session(replay.alice)

        before: dict[str, Callable[[], object]] = {
            "incremental right after upload": lambda: seed_line(replay, first),
            "incremental after jobs": lambda: sim.change_asset(first["id"], processed=True),
            "new upload 2": second_upload,
            "after tagging + jobs": sim.run_jobs,
            "right after force delete": half_deleted,
            "second session: full": second_session,
        }
        exchanges = recording(version, GROUP)
        places = [place for place, one in enumerate(exchanges) if "request" in one]
        if version == "2.7.5":
            forced = [exchanges[place]["note"] for place in places].index("force delete")
            places[forced], places[forced + 1] = places[forced + 1], places[forced]
        for place in places:
            before.get(exchanges[place]["note"], lambda: None)()
            replay._play_one(GROUP, place)
        assert replay.played == len(exchanges) - 1  # one is a summary
