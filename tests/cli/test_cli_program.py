"""The program itself: quick help, exit codes, quiet pipes, bugs in one line, and the progress display."""

from __future__ import annotations

import functools
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli.progress import Meter
from tests.cli import program
from tests.cli.program import ROOT, afresh, ended, environment, ready_to_trash, start
from tests.world import World

ok = functools.partial(program.ok, by=afresh)  # how the program is loaded is what these tests are about

LISTS = (
    ("status",),
    ("settings", "show"),
    ("journal", "list"),
    ("library", "list"),
    ("exclude", "list"),
    ("dry-run",),
    ("plan",),
    ("verify",),
    ("diagnose",),
    ("history", "list"),
)


def _modules_of(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"],
        env=environment({}), capture_output=True, check=True, text=True,
    )  # fmt: skip
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_and_small_commands_import_neither_prefect_nor_duckdb_nor_pyarrow(world: World) -> None:
    ok("verify")
    heavy = {"prefect", "duckdb", "pyarrow"}
    for arguments in (["--help"], ["--version"], ["trash", "--help"], ["settings", "show"], ["journal", "list"]):
        code = f"from cli.main import run\nassert run({arguments!r}) == 0"
        assert not heavy & _modules_of(code), arguments


def test_every_command_has_help() -> None:
    top = ok("--help").out
    for name in ("verify", "dry-run", "trash", "restore", "journal", "history", "diagnose", "status", "explain"):
        assert name in top
    assert "130" in top and ok("--version").out.startswith("deletion-sync")


def test_what_makes_no_sense_is_a_usage_error_on_stderr() -> None:
    for arguments in ((), ("nonsense",), ("trash", "--force"), ("journal", "show", "--run-id"), ("restore",)):
        found = afresh(*arguments)
        assert found.code == 2 and found.err and not found.out


def test_json_is_one_document_wherever_something_is_listed(world: World) -> None:
    ready_to_trash(world)
    ok("dry-run")
    for command in LISTS:
        assert isinstance(ok(*command, "--json").json, dict), command


def test_no_colour_and_no_progress_where_nobody_looks(world: World) -> None:
    ready_to_trash(world)
    for command in LISTS:
        found = program.ok(*command)
        assert "\x1b" not in found.out + found.err, command


def test_lesson_70_a_terminal_sees_each_phase_of_a_run(world: World) -> None:
    ready_to_trash(world)
    world.simulator.faults.add("POST", "/api/search/metadata", delay=1.0, times=3)
    ours, theirs = pty.openpty()
    try:
        process = start("dry-run", stderr=theirs, env={"TERM": "xterm", "COLUMNS": "100"})
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert ended(process).code == 0
    finally:
        os.close(ours)
    assert b"fetch_server_assets" in shown and b"so far" in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux tells that the other side of a terminal is closed
        return b""


def test_lesson_71_the_estimate_uses_the_median_rate_and_only_work_done_now() -> None:
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    meter.report("hash", 90_000, 100_000)  # known from before: no work of now
    done = 90_000
    for rate in (10, 10, 10, 5000, 10, 10, 10):  # one burst of imputed items
        now[0] += 1
        done += rate
        meter.report("hash", done, 100_000)
    assert meter.line().startswith("hash  95,060 of 100,000  10/s  ") and "8 min left" in meter.line()


def test_lesson_71_an_unsure_estimate_is_a_range_and_a_young_one_is_none() -> None:
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    meter.report("hash", 0, 1000)
    now[0] = 1
    meter.report("hash", 10, 1000)
    assert "left" not in meter.line() and "1 s so far" in meter.line()
    for rate in (10, 40, 10, 40, 10, 40):
        now[0] += 1
        meter.report("hash", meter.done + rate, 1000)
    assert " to " in meter.line() and meter.line().endswith("left")


def test_lesson_70_a_new_phase_starts_its_own_counter() -> None:
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    meter.report("hash", 5, 5)
    now[0] = 300
    meter.report("fetch_server_assets", 0, None)
    now[0] = 310
    assert meter.line() == "fetch_server_assets  10 s so far"
    meter.report("fetch_server_assets", 2000, None)
    assert meter.line() == "fetch_server_assets  2,000  200/s  10 s so far"


def test_a_closed_pipe_ends_the_program_quietly(world: World) -> None:
    ok("verify")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        found = ended(start("settings", "show", stdout=writer))
    finally:
        os.close(writer)
    assert found.err == "" and found.code == 1


def test_a_bug_is_one_line_and_a_traceback_only_with_debug(world: World, tmp_path: Path) -> None:
    ok("verify")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "orjson.py").write_text(
        "raise RuntimeError('boom ' + __import__('os').environ['SERVER_API_KEY'])"
    )
    env = {"PYTHONPATH": f"{tmp_path / 'broken'}:{ROOT}"}
    short = afresh("journal", "list", env=env)
    assert short.code == 1 and len(short.err.splitlines()) == 1 and "RuntimeError at orjson.py, line 1" in short.err
    long = afresh("--debug", "journal", "list", env=env)
    assert long.code == 1 and "Traceback" in long.err and "boom [key]" in long.err


def test_way_prefect_without_a_server_is_refused_and_auto_goes_on_directly(world: World) -> None:
    ready_to_trash(world)
    assert afresh("dry-run", "--way", "prefect").code == 1
    assert afresh("dry-run", "--way", "sideways").code == 2
    found = afresh("dry-run", "--json", env={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert found.code == 0 and found.json["way"] == "direct" and "directly" in found.err


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_names_that_the_terminal_cannot_show_do_not_fail_the_command(world: World, encoding: str) -> None:
    world.backed_up("Gr\u00fc\u00dfe \U0001f600.jpg")
    ok("dry-run")
    world.backed_up("second.jpg")
    (world.folder / "Gr\u00fc\u00dfe \U0001f600.jpg").unlink()
    found = afresh("dry-run", env={"PYTHONIOENCODING": encoding})
    assert found.code == 0 and ("Gr\u00fc\u00dfe" in found.out or "Gr\\xfc\\xdfe" in found.out)
