"""The server cache against the server's own count: parted, it is read anew; still parted, the run lists by search."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from server.client import NORMAL_SCOPES, PhotoServer
from server.stream import SyncStream
from server.stream_errors import StreamDrifted
from server.stream_types import asset_types
from state import server_cache
from tasks.server_changes import Outcome, checked_sync
from tests.server.client_support import BOTH
from tests.tasks.test_server_changes import Side, _checksum, _lived, side

COUNT = "/api/assets/statistics"


def checked(here: Side, counting: PhotoServer | None = None) -> Outcome:
    with (
        SyncStream(here.world.url, here.token, sleep=here.world.waits.append) as stream,
        server_cache.server_cache(here.partition) as cache,
    ):
        count = (counting or here.world.server).statistics
        types = asset_types(here.world.server.version())
        return checked_sync(stream, cache, here.search, count, types, lambda: here.now)


def streams(here: Side) -> int:
    return len(here.world.requests("POST", "/api/sync/stream"))


def lose_a_deletion(here: Side, asset_id: str) -> None:
    here.world.sim.purge(asset_id)
    here.world.sim.changes.deletions.clear()


@BOTH
def test_the_cache_counts_as_the_server_does(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        ids = _lived(here)
        sim, user = here.world.sim, here.world.user
        sim.add_asset(user, file_name="v.mov", type="VIDEO", checksum=_checksum("v"), visibility="archive")
        sim.add_asset(user, file_name="a.mp3", type="AUDIO", checksum=_checksum("a.mp3"))
        sim.add_asset(
            user, file_name="x.jpg", checksum=_checksum("x"), library_id="0b0b0b0b-0000-4000-8000-000000000000"
        )
        other = sim.add_user("Bo", "bo@example.com")
        sim.add_asset(other, file_name="theirs.jpg", checksum=_checksum("theirs"))
        sim.partners.add((other, user))
        here.world.server.trash_units([(ids[0],)])
        checked(here)
        counted = here.world.server.statistics()
        with server_cache.server_cache(here.partition) as cache:
            assert counted is not None and server_cache.counts(cache) == (
                counted.images,
                counted.videos,
                counted.total,
            )
        assert streams(here) == 1 and counted.total == 9


@BOTH
def test_lesson_87_a_cache_that_holds_more_than_the_server_is_read_anew_in_the_same_run(
    tmp_path: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    with side(tmp_path, version) as here:
        ids = _lived(here)
        checked(here)
        lose_a_deletion(here, ids[0])
        outcome = checked(here)
        assert streams(here) == 3 and not outcome.seeded
        assert here.same() and not here.acks_differ()
        assert caplog.text.count("read from the start") == 1
        checked(here)
        assert streams(here) == 4


def test_a_server_that_came_back_from_a_backup_is_read_anew(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        checked(here)
        sim = here.world.sim
        backup = copy.deepcopy((sim.assets, sim.by_checksum, sim.changes.assets, sim.changes.deletions))
        here.world.add("after the backup", 2)
        here.world.server.trash_units([(ids[1],)])
        sim.change_asset(ids[2], is_favorite=True)
        checked(here)
        sim.assets, sim.by_checksum, sim.changes.assets, sim.changes.deletions = backup
        sim.listings.clear()
        sim.orders.clear()
        checked(here)
        assert here.same()


def test_still_parted_after_that_the_cache_is_emptied_and_nothing_is_delivered(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        _lived(here)
        checked(here)
        body = {"images": 90, "videos": 1, "total": 91}
        here.world.sim.faults.add("GET", COUNT, status=200, body=body, times=None)
        with pytest.raises(StreamDrifted, match=r"counts 91 .* told of 7\. This run lists by search"):
            checked(here)
        assert streams(here) == 3
        with server_cache.server_cache(here.partition) as cache:
            assert server_cache.is_empty(cache)
        here.world.sim.faults.clear()
        assert checked(here).seeded and here.same()


@pytest.mark.parametrize("body", [{"images": 6, "videos": 0, "total": 6}, {"images": 8, "videos": 0, "total": 8}])
def test_what_was_uploaded_or_deleted_meanwhile_is_no_parting(tmp_path: Path, body: dict[str, Any]) -> None:
    with side(tmp_path) as here:
        _lived(here)
        here.world.sim.faults.add("GET", COUNT, status=200, body=body)  # the next one is the true one: 7
        checked(here)
        assert streams(here) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"images": 6, "videos": 1, "total": 7},
        {"images": 6, "videos": 0, "total": 7},
        {"images": 7, "videos": 0, "total": 8},
    ],
)
def test_a_count_that_differs_in_one_figure_is_a_parting(tmp_path: Path, body: dict[str, Any]) -> None:
    with side(tmp_path) as here:
        _lived(here)
        checked(here)
        here.world.sim.faults.add("GET", COUNT, status=200, body=body, times=2)
        checked(here)
        assert streams(here) == 3


def test_without_the_permission_to_count_nothing_is_compared(tmp_path: Path) -> None:
    with side(tmp_path) as here:
        ids = _lived(here)
        key = here.world.sim.add_key(here.world.user, NORMAL_SCOPES)
        with PhotoServer(here.world.url, SecretStr(key), sleep=here.world.waits.append) as server:
            checked(here, server)
            lose_a_deletion(here, ids[0])
            checked(here, server)
        assert streams(here) == 2
        checked(here)
        assert here.same()
