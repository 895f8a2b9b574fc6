"""verify, dump-server-checksums and diagnose, on good days and when something else answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.client import NORMAL_SCOPES
from tests.cli.program import ok, photos, run
from tests.server.client_support import bare_server, reply
from tests.world import World, checksum, small_world

NORMAL = tuple(sorted(NORMAL_SCOPES))


def _with_key(world: World, permissions: tuple[str, ...]) -> dict[str, str | None]:
    return {"SERVER_API_KEY": world.simulator.add_key(world.user_id, permissions)}


def test_verify_names_server_user_trash_and_libraries(world: World) -> None:
    shown = ok("verify")
    for part in ("3.1.0", "Alice", world.user_id, "kept for 30 days", str(world.folder), "can be read"):
        assert part in shown.out
    document = ok("verify", "--json").json
    assert document["user"]["email"] == "alice@example.com" and document["failures"] == document["rails"] == []
    assert document["scopes"] == {"missing": [], "missing_optional": {}}


@pytest.mark.parametrize("version", ["2.7.5", "3.1.0"])
def test_verify_names_missing_scopes_and_what_the_optional_ones_would_give(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_world(tmp_path, monkeypatch, version=version) as world:
        env = _with_key(world, ("asset.read", "user.read", "tag.create", "asset.view", "asset.download"))
        found = run("verify", "--json", env=env)
        assert found.json["scopes"]["missing"] == ["asset.delete", "tag.asset"]
        assert "asset.delete, tag.asset" in found.err and found.code == 1
        assert "history" in found.json["scopes"]["missing_optional"]["tag.read"]
        assert str(env["SERVER_API_KEY"]) not in found.out + found.err


def test_verify_tells_that_a_rail_would_abort(world: World) -> None:
    world.simulator.trash_enabled = False
    found = run("verify")
    assert found.code == 3 and "trash is switched off" in found.err
    world.simulator.trash_enabled = True
    (world.folder / ".deletion-sync-library").unlink()
    found = run("verify")
    assert found.code == 3 and "marker" in found.err


def test_lesson_41_a_refused_key_and_a_missing_scope_each_say_what_to_do(world: World) -> None:
    refused = run("verify", env={"SERVER_API_KEY": "not-a-key-of-this-server"})
    assert refused.code == 1 and "Make a new API key" in refused.err
    assert "not-a-key-of-this-server" not in refused.err
    lacking = run("trash", "--yes", env=_with_key(world, ("user.read", "asset.read")))
    assert lacking.code == 2 and "asset.delete, tag.asset, tag.create" in lacking.err
    assert not world.simulator.mutations()


def test_no_server_and_a_wrong_address_are_named_without_a_traceback(world: World) -> None:
    nobody = run("verify", env={"SERVER_URL": "http://127.0.0.1:9"})
    assert nobody.code == 1 and "127.0.0.1:9" in nobody.err and "Traceback" not in nobody.err
    malformed = run("verify", env={"SERVER_URL": "photos.example.org"})
    assert malformed.code == 2 and "https://" in malformed.err
    unset = run("verify", env={"SERVER_URL": None, "SERVER_API_KEY": None})
    assert unset.code == 2 and "SERVER_URL and SERVER_API_KEY are not set" in unset.err


def test_a_proxys_web_page_is_not_taken_for_the_server(world: World) -> None:
    with bare_server(reply(200, b"<html>Sign in</html>", Content_Type="text/html")) as (url, _):
        found = run("verify", env={"SERVER_URL": url})
    assert found.code == 1 and "proxy or login page" in found.err


def test_a_redirect_to_another_host_is_refused_and_the_key_does_not_go_there(world: World) -> None:
    with (
        bare_server(reply(200, b"{}")) as (other, seen),
        bare_server(reply(302, Location=f"{other}/api/server/ping")) as (url, _),
    ):
        found = run("verify", env={"SERVER_URL": url})
    assert found.code == 1 and "redirect" in found.err and not seen


def test_the_key_may_come_from_dotenv_and_its_contents_are_never_shown(world: World) -> None:
    key = world.simulator.add_key(world.user_id, ("all",))
    Path(".env").write_text(f"SERVER_URL={world.url}\nSERVER_API_KEY={key}\nOTHER_SECRET=hunter2\n")
    Path(".env").chmod(0o644)
    found = run("--debug", "verify", env={"SERVER_URL": None, "SERVER_API_KEY": None})
    assert found.code == 0 and "chmod 600" in found.err
    assert key not in found.out + found.err and "hunter2" not in found.out + found.err
    Path(".env").write_text(f"SERVER_URL={world.url}\nSERVER_API_KEY='{key}\n")
    broken = run("--debug", "verify", env={"SERVER_URL": None, "SERVER_API_KEY": None})
    assert broken.code == 2 and key not in broken.out + broken.err


def test_no_file_of_the_home_folder_holds_the_key(world: World) -> None:
    photos(world, 2)
    ok("dry-run")
    key = next(iter(world.simulator.keys)).encode()
    files = [path for path in world.home.rglob("*") if path.is_file()]
    assert files and not [path for path in files if key in path.read_bytes()]


def test_dump_writes_each_untrashed_content_once_and_says_what_it_left_out(world: World, tmp_path: Path) -> None:
    photos(world, 2)
    world.simulator.add_asset(world.user_id, checksum=checksum(b"gone"), file_name="gone.jpg", trashed=True)
    world.simulator.add_asset(world.user_id, checksum=checksum(b"/path"), file_name="nas.jpg", library_id="lib-1")
    target = tmp_path / "out.txt"
    target.write_text("old")
    found = ok("dump-server-checksums", "--output", target, "--json")
    assert target.read_text().splitlines() == sorted(
        checksum(content)
        for content in (b"photo 2024/IMG_0.JPG", b"photo 2024/IMG_1.JPG", b"motion 2024/IMG_90", b"still 2024/IMG_90")
    )
    assert (found.json["checksums"], found.json["trashed"], found.json["external"]) == (4, 1, 1)
    assert "external libraries" in found.err
    assert run("dump-server-checksums").code == 2


def test_a_listing_that_breaks_off_leaves_the_old_dump_alone(world: World, tmp_path: Path) -> None:
    photos(world, 2)
    target = tmp_path / "out.txt"
    target.write_text("old")
    ok("settings", "set", "pageSize", "1")
    world.simulator.faults.add("POST", "/api/search/metadata", status=400, body={"message": "no"}, after=2)
    assert run("dump-server-checksums", "--output", target).code == 1
    assert target.read_text() == "old"


def test_diagnose_counts_and_finds_broken_live_photos(world: World) -> None:
    photos(world, 1)
    sim, user = world.simulator, world.user_id
    missing = "99999999-9999-4999-8999-999999999999"
    sim.add_asset(user, checksum=checksum(b"a"), file_name="dangling.heic", live_photo_video_id=missing)
    sim.add_asset(user, checksum=checksum(b"b"), file_name="orphan.mov", visibility="hidden")
    video = sim.add_asset(user, checksum=checksum(b"c"), file_name="c.mov", visibility="hidden")
    sim.add_asset(user, checksum=checksum(b"d"), file_name="half.heic", live_photo_video_id=video, trashed=True)
    other = sim.add_asset(user, checksum=checksum(b"e"), file_name="e.mov", visibility="hidden", trashed=True)
    sim.add_asset(user, checksum=checksum(b"f"), file_name="other.heic", live_photo_video_id=other)
    found = ok("diagnose", "--json").json
    names = {kind: [x["file_name"] for x in rows] for kind, rows in found["live_photos"].items()}
    assert names == {
        "dangling": ["dangling.heic"],
        "orphaned": ["orphan.mov"],
        "still_trashed": ["half.heic"],
        "video_trashed": ["other.heic"],
    }
    assert {c["visibility"]: (c["untrashed"], c["trashed"]) for c in found["counts"]} == {
        "timeline": (4, 1),
        "hidden": (3, 1),
    }
    shown = ok("diagnose").out
    assert "dangling.heic" in shown and missing in shown
    assert not sim.mutations()


def test_a_hostile_file_name_cannot_steer_the_terminal(world: World) -> None:
    sim, user = world.simulator, world.user_id
    name = "\x1b[31mred\x07[bold]x[/bold]\u202egpj.heic\n"
    missing = "99999999-9999-4999-8999-999999999999"
    sim.add_asset(user, checksum=checksum(b"a"), file_name=name, live_photo_video_id=missing)
    found = ok("diagnose")
    assert "\\x1b[31mred\\x07[bold]x[/bold]\\u202egpj.heic\\x0a" in found.out
    assert "\x1b" not in found.out + found.err and "\x07" not in found.out
    document = ok("diagnose", "--json")
    assert document.out.isascii() and json.loads(document.out)["live_photos"]["dangling"][0]["file_name"] == name
