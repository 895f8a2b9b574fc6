"""Two processes on one partition: one works, the other is told so; and a word of protection is heard in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stage import Client, client_of, partition_of, statuses, tables
from tests.world import World, checksum, small_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A photo and a Live Photo are due, and planned by nobody yet."""
    with small_world(tmp_path, monkeypatch) as found:
        found.all_backed_up("IMG_{}.JPG", 6)
        found.live_photo("IMG_90")
        found.change_settings(quarantineDays=0)
        found.reconcile()
        found.remove("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV")
        yield found


def at_request(world: World, method: str, path: str, then: Callable[[], None]) -> None:
    """Call ``then`` once when such a request arrives, while its sender waits for the answer."""

    def arrived(its_method: str, its_path: str) -> None:
        if (its_method, its_path) == (method, path):
            world.simulator.faults.arrived = None
            then()

    world.simulator.faults.arrived = arrived


def test_lesson_52_a_second_process_is_told_who_is_at_work_and_changes_nothing(world: World) -> None:
    planned = world.reconcile()
    outcomes: list[dict[str, Any]] = []
    with client_of(world) as first, client_of(world) as second:

        def meanwhile() -> None:
            before = tables(partition_of(world)), len(world.simulator.requests)
            outcomes.append(second.run("reconcile", dry_run=False))
            outcomes.append(second.run("apply", digest=planned.digest))
            outcomes.append(second.run("restore", run_id=planned.run_id))
            assert (tables(partition_of(world)), len(world.simulator.requests)) == before

        at_request(world, "PUT", "/api/tags", meanwhile)
        assert first.run("apply", digest=planned.digest)["outcome"] == "trashed"
    assert [outcome["exit_code"] for outcome in outcomes] == [11, 11, 11]
    assert all("(apply, pid" in outcome["what"] for outcome in outcomes)
    assert len([r for r in world.simulator.mutations() if r.method == "DELETE"]) == 1


def test_the_partition_is_free_as_soon_as_its_holder_was_killed(world: World) -> None:
    with client_of(world) as client:
        assert client.run_killed_at_request(9, "reconcile", took_effect=False) == {"killed": True}
        assert client.run("reconcile")["outcome"] == "planned"


WHEN = {
    "before the tag": ("PUT", "/api/tags"),
    "at the tagging": ("PUT", "/api/tags/assets"),
}


@pytest.mark.parametrize("moment", WHEN)
@pytest.mark.parametrize("half", ["still", "motion"])
def test_invariant_4_what_another_process_protects_before_the_delete_stays(
    world: World, moment: str, half: str
) -> None:
    planned = world.reconcile()
    content = b"still IMG_90" if half == "still" else b"motion IMG_90"
    with client_of(world) as working, client_of(world) as protecting:
        at_request(world, *WHEN[moment], lambda: _protect(protecting, content))
        done = working.run("apply", digest=planned.digest)
    assert world.trashed() == {"IMG_1.JPG"}, done
    (run,) = statuses(partition_of(world)).values()
    assert {name: run[world.ids[name]] for name in ("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV")} == {
        "IMG_1.JPG": "trashed", "IMG_90.HEIC": "failed", "IMG_90.MOV": "failed"
    }  # fmt: skip
    assert world.simulator.tag_members(f"tool/v1/run/{done['run_id']}") == {world.ids["IMG_1.JPG"]}


def _protect(client: Client, content: bytes) -> None:
    assert client.run("exclude", checksums=[checksum(content)])["excluded"] == 1
