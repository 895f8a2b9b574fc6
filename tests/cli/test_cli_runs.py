"""dry-run, trash, plan, apply and restore as a person runs them, and what they leave behind when interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from engine.runs import tag_name
from state import journal
from state.db import reading
from state.exclusions import list_exclusions
from tasks.opening import find_partition
from tests.cli.program import Ended, ended, ok, photos, ready_to_trash, run, start
from tests.world import World, checksum

LIVE = ("2024/IMG_1.JPG", "2024/IMG_90.HEIC", "2024/IMG_90.MOV")


def test_the_first_trash_is_a_dry_run_and_the_second_works(world: World) -> None:
    photos(world)
    first = run("trash", "--yes")
    assert first.code == 0 and "nothing was trashed" in first.err
    assert not world.simulator.mutations()
    world.remove(*LIVE)
    second = run("trash", "--yes", "--json")
    assert second.code == 0, second
    assert second.json["outcome"] == "trashed" and second.json["counts"]["trashed"] == 2
    assert world.trashed() == set(LIVE)
    assert world.simulator.tag_members(tag_name(second.json["run_id"])) == world.simulator.trashed(world.user_id)


def test_dry_run_shows_the_list_and_changes_nothing_on_the_server(world: World) -> None:
    ready_to_trash(world, LIVE)
    shown = ok("dry-run")
    assert "2 photos (3 assets)" in shown.out and "IMG_1.JPG" in shown.out and "IMG_90.HEIC" in shown.out
    document = ok("dry-run", "--json").json
    assert {row["file_name"] for row in document["plan"]["delete"]} == {"IMG_1.JPG", "IMG_90.HEIC"}
    assert document["dry_run"] is True and document["outcome"] == "planned"
    assert not world.simulator.mutations()


def test_trash_without_a_terminal_and_without_yes_is_refused(world: World) -> None:
    ready_to_trash(world)
    refused = run("trash")
    assert refused.code == 4 and "--yes" in refused.err and "IMG_1.JPG" in refused.out
    assert not world.simulator.trashed(world.user_id)


def test_trash_with_nothing_to_do_is_a_success(world: World) -> None:
    ready_to_trash(world, ())
    assert "Nothing is to be trashed" in ok("trash").out


@pytest.mark.parametrize(("answer", "code", "gone"), [("yes", 0, 1), ("y", 4, 0), ("", 4, 0)])
def test_only_the_word_yes_typed_at_the_terminal_trashes(world: World, answer: str, code: int, gone: int) -> None:
    ready_to_trash(world)
    ours, theirs = pty.openpty()
    try:
        process = start("trash", stdin=theirs)
        os.write(ours, f"{answer}\n".encode())
        found = ended(process)
    finally:
        os.close(ours)
        os.close(theirs)
    assert found.code == code, found
    assert "Move 1 photo (1 asset) to the server's trash?" in found.err
    assert len(world.simulator.trashed(world.user_id)) == gone


def test_an_approved_plan_is_applied_by_its_digest_and_no_other(world: World) -> None:
    ready_to_trash(world)
    digest = ok("dry-run", "--json").json["digest"]
    assert ok("plan", "--json").json["digest"] == digest and digest in ok("plan").out
    unknown = run("apply", "--digest", "0" * 64, "--yes")
    assert unknown.code == 2 and not world.simulator.mutations()
    assert run("apply", "--digest", digest).code == 4
    assert ok("apply", "--digest", digest, "--yes", "--json").json["outcome"] == "trashed"
    assert "carried out" in ok("status").out and ok("plan", "--json").json["applied"]
    shown = ok("plan")
    assert "In the plan that was carried out: 1 photo" in shown.out and "dry-run" in shown.err
    for newer in (False, True):
        if newer:
            world.backed_up("2024/IMG_90.JPG")
            ok("dry-run")
            assert "carried out" not in ok("status").out + ok("plan").err
        again = run("apply", "--digest", digest, "--yes")
        assert again.code == 4 and "applied already" in again.err and "IMG" not in again.out


def test_a_run_that_finds_nothing_says_what_it_compared(world: World) -> None:
    photos(world)
    world.write("only-here.jpg")
    assert "Compared: 11 photos and videos here, 10 on the server, 10 on both sides." in ok("dry-run").out


def test_a_rail_aborts_with_code_3_and_shows_what_it_stopped(world: World) -> None:
    ready_to_trash(world, [f"2024/IMG_{n}.JPG" for n in range(6)], count=20)
    aborted = run("trash", "--yes")
    assert aborted.code == 3 and "threshold" in aborted.out and "IMG_3.JPG" in aborted.out
    assert "6 of" in aborted.err and not world.simulator.mutations()
    assert run("trash", "--yes", "--json").json["rail"] == "threshold"


def test_a_checksums_file_stands_for_the_libraries(world: World, tmp_path: Path) -> None:
    photos(world)
    ok("dump-server-checksums", "--output", tmp_path / "all.txt")
    lines = (tmp_path / "all.txt").read_text().splitlines()
    assert len(lines) == 10
    (tmp_path / "kept.txt").write_text("\n".join(x for x in lines if x != checksum(b"photo 2024/IMG_2.JPG")))
    ok("dry-run", "--local-checksums-file", tmp_path / "all.txt")
    assert run("trash", "--local-checksums-file", tmp_path / "kept.txt", "--yes").code == 0
    assert world.trashed() == set(), "it is in the registered folder still"
    world.remove("2024/IMG_2.JPG")
    done = ok("trash", "--local-checksums-file", tmp_path / "kept.txt", "--yes", "--json").json
    assert [row["reason"] for row in done["plan"]["delete"]] == ["unconfirmed"]
    assert world.trashed() == {"2024/IMG_2.JPG"}
    assert run("dry-run", "--local-checksums-file", tmp_path / "none.txt").code in (2, 3)


def test_lesson_17_restore_on_the_command_line_excludes_and_unconfirms(world: World) -> None:
    ready_to_trash(world)
    run_id = ok("trash", "--yes", "--json").json["run_id"]
    back = ok("restore", "--run-id", run_id)
    assert "1 photo restored" in back.out and not world.simulator.trashed(world.user_id)
    _, partition = find_partition()
    assert [x.checksum for x in list_exclusions(partition)] == [checksum(b"photo 2024/IMG_1.JPG")]
    with reading(partition) as con:
        assert con.execute("SELECT count(*) FROM confirmed_deleted").fetchall() == [(0,)]
    assert "Nothing is to be trashed" in ok("trash", "--yes").out


def test_lesson_5_restoring_a_live_photo_protects_its_motion_video_too(world: World) -> None:
    ready_to_trash(world, LIVE)
    run_id = ok("trash", "--yes", "--json").json["run_id"]
    found = ok("restore", "--run-id", run_id, "--file-name-matches", r"\.HEIC$", "--json").json
    assert found["outcome"] == "restored" and world.trashed() == {"2024/IMG_1.JPG"}
    _, partition = find_partition()
    assert {x.checksum for x in list_exclusions(partition)} == {
        checksum(b"motion 2024/IMG_90"),
        checksum(b"still 2024/IMG_90"),
    }
    assert ok("dry-run", "--json").json["counts"]["delete"] == 0


def test_restore_by_asset_id_takes_only_that_one_and_can_leave_it_unprotected(world: World) -> None:
    ready_to_trash(world, ("2024/IMG_1.JPG", "2024/IMG_2.JPG"))
    run_id = ok("trash", "--yes", "--json").json["run_id"]
    ok("restore", "--run-id", run_id, "--asset-id", world.ids["2024/IMG_2.JPG"], "--no-exclude")
    assert world.trashed() == {"2024/IMG_1.JPG"}
    assert ok("exclude", "list", "--json").json == {"exclusions": []}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--run-id", "nonsense"),
        ("--run-id", "20260101T000000.000000Z-abcdef01"),
        ("--run-id", "20260101T000000.000000Z-abcdef01", "--file-name-matches", "("),
        ("--run-id", "20260101T000000.000000Z-abcdef01", "--file-name-matches", ""),
        ("--run-id", "20260101T000000.000000Z-abcdef01", "--asset-id", "no-uuid"),
        (),
    ],
)
def test_a_restore_that_makes_no_sense_is_a_usage_error(world: World, arguments: tuple[str, ...]) -> None:
    found = run("restore", *arguments)
    assert found.code == 2 and found.err and not found.out
    assert not world.simulator.mutations()


def test_lesson_38_an_offline_attempt_leaves_no_run_and_no_journal(world: World) -> None:
    ready_to_trash(world)
    _, partition = find_partition()
    before = sorted(partition.runs.iterdir())
    world.simulator.faults.add("*", "/", drop_connection=True, times=None)
    found = run("trash", "--yes")
    assert found.code == 1 and "127.0.0.1" in found.err
    assert sorted(partition.runs.iterdir()) == before and not partition.journal.exists()
    assert ok("status", "--json").json["remembered"]["last_run"]["outcome"] == "nothing to do"


def test_lesson_74_a_trash_that_failed_is_not_told_as_a_success(world: World) -> None:
    ready_to_trash(world)
    world.simulator.faults.add("DELETE", "/api/assets", status=400, body={"message": "no"}, times=None)
    found = run("trash", "--yes")
    assert found.code != 0 and "moved to the server's trash." not in found.out, found
    assert not world.simulator.trashed(world.user_id)


def test_lesson_73_held_and_review_are_counted_once_each(world: World) -> None:
    ready_to_trash(world)
    world.change_settings(quarantineDays=30)
    counts = ok("dry-run", "--json").json["counts"]
    assert (counts["pending"], counts["held"], counts["review"]) == (1, 1, 0)
    shown = ok("dry-run").out
    assert "Pending: 1 (1 held, 0 waiting" in shown and shown.count("IMG_1.JPG") == 1


def test_ctrl_c_while_the_server_lists_says_that_nothing_was_sent(world: World) -> None:
    ready_to_trash(world)
    world.simulator.faults.add("POST", "/api/search/metadata", delay=2.0)
    found = _interrupted_at(world, "POST", "/api/search/metadata")
    assert found.code == 130, found
    assert "Nothing had been sent to the trash" in found.err and "Traceback" not in found.err
    assert ok("trash", "--yes", "--json").json["outcome"] == "trashed"


def test_ctrl_c_during_the_deletion_says_what_is_on_its_way_and_the_next_run_settles_it(world: World) -> None:
    ready_to_trash(world)
    world.simulator.faults.add("DELETE", "/api/assets", delay=2.0, before_effect=False)
    _, partition = find_partition()
    found = _interrupted_at(world, "DELETE", "/api/assets")
    assert found.code == 130 and "restore --run-id" in found.err, found
    ok("trash", "--yes")
    run_id = journal.read(partition).records[0].run_id or ""
    assert {r.status for r in journal.state_of_run(journal.read(partition).records, run_id).values()} == {"trashed"}
    assert world.trashed() == {"2024/IMG_1.JPG"}


def test_a_partition_that_another_process_holds_is_busy(world: World) -> None:
    ready_to_trash(world)
    home, partition = find_partition()
    code = (
        "import sys\nfrom pathlib import Path\nfrom state.home import Home\nfrom state.lock import partition_lock\n"
        "from state.partition import by_name\n"
        "with partition_lock(by_name(Home(Path(sys.argv[1])), sys.argv[2]), 'reconcile'):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home.root), partition.name],
        cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for command in (("dry-run",), ("trash", "--yes"), ("reset-index", "--yes"), ("library", "add", world.home)):
            found = run(*command)
            assert found.code == 11 and str(other.pid) in found.err, found
        assert ok("status", "--json").json["in_use_by"] == "reconcile"
        ok("exclude", "add", checksum(b"photo 2024/IMG_1.JPG"))
        other.communicate()
    assert "Nothing is to be trashed" in ok("trash", "--yes").out


def _interrupted_at(world: World, method: str, path: str) -> Ended:
    """`trash`, with Ctrl-C while it waits for the answer to such a request: the signal is sent before the answer."""
    started: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def arrived(its_method: str, its_path: str) -> None:
        if (its_method, its_path) == (method, path):
            world.simulator.faults.arrived = None
            started.get(timeout=60).send_signal(signal.SIGINT)

    world.simulator.faults.arrived = arrived
    process = start("trash", "--yes")
    started.put(process)
    return ended(process)
