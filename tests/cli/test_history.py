"""`history`: the runs come back from the server's tags alone, with what is in the trash as the server says it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.history import history_app
from engine.errors import UsageError
from engine.runs import tag_name
from server.client import PhotoServer
from server.errors import MissingScope
from state.credentials import Credentials, load_credentials
from tests.world import World, small_world

ELSEWHERE = "20250102T030405.000006Z-0badcafe"


@pytest.fixture(params=["2.7.5", "3.1.0"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch, version=request.param) as found:
        yield found


def trashed_run(world: World) -> str:
    """A run that trashed one photo and one Live Photo; its run id."""
    world.all_backed_up("IMG_{}.JPG", 3)
    world.live_photo("IMG_90")
    world.reconcile()
    world.remove("IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV")
    world.reconcile()
    world.pass_days(14)
    done = world.apply(world.reconcile())
    assert done.outcome == "trashed"
    return done.run_id


def credentials(world: World) -> Credentials:
    environment = {"SERVER_URL": world.url, "SERVER_API_KEY": next(iter(world.simulator.keys))}
    return load_credentials(environment, world.folder)


def tagged(world: World, run_id: str, *asset_ids: str) -> None:
    """Leave a run's tag on assets, as a run does before it sends its DELETE."""
    known = credentials(world)
    with PhotoServer(known.server_url, known.api_key) as server:
        server.tag_assets(server.upsert_tag(tag_name(run_id)).id, asset_ids)


def shown(*arguments: str) -> str:
    """What the command prints; its error is raised."""
    result = CliRunner().invoke(history_app, list(arguments))
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def document(*arguments: str) -> Any:
    return json.loads(shown(*arguments, "--json"))


def test_runs_are_rebuilt_from_the_server_without_any_local_state(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = trashed_run(world)
    elsewhere = tmp_path / "another computer"
    monkeypatch.setenv("DELETION_SYNC_HOME", str(elsewhere))
    (run,) = document("list", "--detailed")["runs"]
    assert (run["run_id"], run["device_id"]) == (run_id, run_id.rpartition("-")[2])
    assert (run["started_at"], run["members"], run["in_trash"]) == ("2026-03-15T12:00:00.000Z", 3, 3)
    assets = document("show", "--run-id", run_id)["assets"]
    assert [asset["file_name"] for asset in assets] == ["IMG_1.JPG", "IMG_90.HEIC", "IMG_90.MOV"]
    assert [asset["motion_of"] for asset in assets] == [None, None, world.ids["IMG_90.HEIC"]]
    assert all(asset["is_trashed"] and len(asset["checksum"]) == 28 for asset in assets)
    assert not elsewhere.exists()


def test_history_changes_nothing_on_the_server(world: World) -> None:
    run_id = trashed_run(world)
    before = len(world.simulator.mutations())
    for arguments in (["list"], ["list", "--detailed"], ["show", "--run-id", run_id]):
        shown(*arguments)
    assert len(world.simulator.mutations()) == before


def test_the_newest_run_is_first_and_other_tags_are_passed_over(world: World) -> None:
    asset_id = world.backed_up("IMG_1.JPG")
    later = "20250102T030405.000007Z-0badcafe"
    for run_id in (ELSEWHERE, later, "20259999T030405.000006Z-0badcafe"):
        tagged(world, run_id, asset_id)
    known = credentials(world)
    with PhotoServer(known.server_url, known.api_key) as server:
        for name in ("holiday", "tool/v1/run/not-a-run", "tool/v2/run/" + ELSEWHERE):
            server.upsert_tag(name)
    runs = document("list")["runs"]
    assert [run["run_id"] for run in runs][1:] == [later, ELSEWHERE]
    assert runs[0]["started_at"] is None and runs[1]["started_at"] == "2025-01-02T03:04:05.000Z"
    assert all(run["members"] is None for run in runs)


def test_lesson_39_a_tag_whose_delete_failed_does_not_count_as_trashed(world: World) -> None:
    kept = world.backed_up("IMG_1.JPG")
    tagged(world, ELSEWHERE, kept)
    (run,) = document("list", "--detailed")["runs"]
    assert (run["members"], run["in_trash"], run["not_in_trash"]) == (1, 0, 1)
    (asset,) = document("show", "--run-id", ELSEWHERE)["assets"]
    assert (asset["asset_id"], asset["is_trashed"]) == (kept, False)
    assert "did not get to trash it" in shown("list", "--detailed")


def test_what_came_back_is_told_from_what_is_in_the_trash(world: World) -> None:
    run_id = trashed_run(world)
    world.restore(run_id, asset_ids=(world.ids["IMG_90.HEIC"],))
    (run,) = document("list", "--detailed")["runs"]
    assert (run["members"], run["in_trash"], run["not_in_trash"]) == (3, 1, 2)
    assets = document("show", "--run-id", run_id)["assets"]
    assert {a["file_name"]: a["is_trashed"] for a in assets} == {
        "IMG_1.JPG": True,
        "IMG_90.HEIC": False,
        "IMG_90.MOV": False,
    }
    assert "3 assets, 1 in the trash." in shown("show", "--run-id", run_id)


def test_without_tag_read_the_missing_permission_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    normal = ("asset.read", "asset.view", "asset.download", "asset.delete", "tag.create", "tag.asset")
    monkeypatch.setenv("SERVER_API_KEY", world.simulator.add_key(world.user_id, normal))
    for arguments in (["list"], ["show", "--run-id", ELSEWHERE]):
        with pytest.raises(MissingScope) as caught:
            shown(*arguments)
        assert caught.value.scope == "tag.read"
        assert "read from the server's tags" in caught.value.what and "tag.read" in caught.value.next_step


def test_a_run_without_a_tag_and_what_is_no_run_id_are_usage_errors(world: World) -> None:
    with pytest.raises(UsageError, match="history list"):
        shown("show", "--run-id", ELSEWHERE)
    with pytest.raises(UsageError, match="not a run id"):
        shown("show", "--run-id", "../../etc")


def test_a_server_without_runs_says_so(world: World) -> None:
    assert "no tag of any run" in shown("list")
    assert document("list") == {"runs": []}


def test_file_names_cannot_steer_the_terminal(world: World) -> None:
    asset_id = world.simulator.add_asset(world.user_id, checksum="A" * 27 + "=", file_name="a\x1b[2J\u202eb\n.jpg")
    tagged(world, ELSEWHERE, asset_id)
    text = shown("show", "--run-id", ELSEWHERE)
    assert "\x1b" not in text and "\u202e" not in text and "a\\x1b[2J\\u202eb\\x0a.jpg" in text
    assert document("show", "--run-id", ELSEWHERE)["assets"][0]["file_name"] == "a\x1b[2J\u202eb\n.jpg"
