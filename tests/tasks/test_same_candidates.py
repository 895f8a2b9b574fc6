"""Invariant 11: whatever happens on the server and to the stream, cache and search deliver the same assets."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.simulator.spoiling import StreamFault
from server.stream_errors import SyncError
from tests.server.client_support import BOTH, checksum
from tests.tasks.test_server_changes import Side, side

VISIBILITIES = ("timeline", "archive", "hidden", "locked")
_number = itertools.count()
PATIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@dataclass(frozen=True)
class Act:
    """``which`` picks an asset among those there are. ``cut``: the stream breaks off after so many lines of a sync."""

    what: str
    which: int
    visibility: str
    cut: int


acts = st.lists(
    st.builds(
        Act,
        st.sampled_from(
            ["upload", "trash", "restore", "purge", "show", "link", "favourite", "rename", "sync", "reset"]
        ),
        st.integers(0, 9),
        st.sampled_from(VISIBILITIES),
        st.integers(0, 8),
    ),
    min_size=3,
    max_size=14,
)


def act(here: Side, ids: list[str], it: Act) -> None:
    sim, user = here.world.sim, here.world.user
    if it.what == "upload" or not ids:
        name = f"N{next(_number)}.JPG"
        ids.append(sim.add_asset(user, file_name=name, visibility=it.visibility, checksum=checksum(name)))
        return
    asset_id = ids[it.which % len(ids)]
    trashed = asset_id in sim.trashed(user)
    if it.what == "trash" and not trashed and sim.asset(asset_id).visibility != "locked":
        here.world.server.trash_units([(asset_id,)])
    elif it.what == "restore" and trashed:
        here.world.server.restore_assets([asset_id])
    elif it.what == "purge":
        sim.purge(asset_id)
        ids.remove(asset_id)
    elif it.what == "show":
        sim.change_asset(asset_id, visibility=it.visibility)
    elif it.what == "link":
        sim.change_asset(asset_id, live_photo_video_id=ids[-1] if ids[-1] != asset_id else None)
    elif it.what == "favourite":
        sim.change_asset(asset_id, is_favorite=True)
    elif it.what == "rename":
        sim.change_asset(asset_id, file_name="é ☀.heic")
    elif it.what == "reset":
        sim.demand_sync_reset(user)
    elif it.what == "sync":
        here.world.sim.faults.add_stream(StreamFault(cut_after_lines=it.cut))
        with contextlib.suppress(SyncError):
            here.sync()
        here.world.sim.faults.clear()


@BOTH
@settings(max_examples=20, deadline=None, suppress_health_check=PATIENT)
@given(history=acts, events=st.sampled_from([1, 500, 10_000_000]))
def test_invariant_11_fed_from_the_cache_or_from_the_search_the_assets_are_the_same(
    version: str, history: list[Act], events: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, side(Path(folder), version) as here:
        here.block_bytes = events
        ids: list[str] = []
        for it in history:
            act(here, ids, it)
            if it.what == "sync":
                here.sync()
                assert here.same()
        here.sync()
        assert here.same()


@BOTH
def test_invariant_11_interrupted_after_every_line_and_then_gone_on(tmp_path: Path, version: str) -> None:
    with side(tmp_path, version) as here:
        ids: list[str] = []
        for number in range(6):
            act(here, ids, Act("upload", 0, VISIBILITIES[number % 3], 0))
        for cut in range(8):
            here.world.sim.change_asset(ids[cut % len(ids)], is_favorite=cut % 2 == 0)
            here.world.sim.faults.add_stream(StreamFault(cut_after_lines=cut))
            with contextlib.suppress(SyncError):
                here.sync()
            here.world.sim.faults.clear()
            here.sync()
            assert here.same()


def test_the_property_sees_a_cache_that_misses_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from state import server_cache

    with side(tmp_path) as here:
        ids: list[str] = []
        act(here, ids, Act("upload", 0, "timeline", 0))
        here.sync()
        act(here, ids, Act("favourite", 0, "timeline", 0))
        apply = server_cache.apply

        def forgetful(cache, batch, now):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            apply(cache, replace(batch, upserts=batch.upserts.slice(0, 0)), now)

        monkeypatch.setattr(server_cache, "apply", forgetful)
        here.sync()
        assert not here.same()
