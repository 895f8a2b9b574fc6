"""The demo as a user starts it: it succeeds with both server versions, notices what goes wrong, and leaves nothing."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from demo.__main__ import show
from demo.stage import staged
from demo.story import STEPS
from tasks import clock
from tests.deployments.upping import group, until

ROOT = Path(__file__).parents[2]


def started(tmp_path: Path, *arguments: str, warnings: str = "ignore") -> subprocess.Popen[str]:
    """The demo in a session of its own, where everything of the user's is a trap: it must not be read or written."""
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / ".env").write_text("SERVER_URL=http://127.0.0.1:9\nSERVER_API_KEY=the-users-own-key\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
        "DELETION_SYNC_HOME": str(tmp_path / "users-state"),
        "SERVER_URL": "http://127.0.0.1:9",
        "SERVER_API_KEY": "the-users-own-key",
        "PREFECT_HOME": str(tmp_path / "users-prefect"),
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": warnings,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=tmp_path / "work",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_nothing_is_left(tmp_path: Path, process: subprocess.Popen[str]) -> None:
    assert not list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "home").iterdir())
    assert [path.name for path in (tmp_path / "work").iterdir()] == [".env"]
    assert not (tmp_path / "users-state").exists() and not (tmp_path / "users-prefect").exists()
    until(lambda: not group(process.pid), "the end of its processes")


@pytest.mark.parametrize("version", ["2.7.5", "3.1.0"])
def test_lesson_51_the_demo_succeeds_and_leaves_nothing(version: str, tmp_path: Path) -> None:
    with started(tmp_path, "--server-version", version, warnings="error") as process:
        output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    assert errors == ""
    for number, step in enumerate(STEPS, start=1):
        assert f"\n{number}. {step.title}\n" in output
    assert "NOT SO" not in output and "All of it was as expected" in output
    assert_nothing_is_left(tmp_path, process)
    assert_the_command_line_takes(re.findall(r"^   \$ deletion-sync (.+)$", output, re.MULTILINE))


def assert_the_command_line_takes(commands: list[str]) -> None:
    """Help is shown only for a command that exists, after options that it has."""
    assert len(commands) > 10
    for shown in set(commands):
        line = [sys.executable, "-m", "cli", *shlex.split(shown), "--help"]
        answer = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


def interrupted(process: subprocess.Popen[str], at: str) -> str:
    """Ctrl-C once a line begins with ``at``, sent to the whole group as a terminal does; the output after it."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(at):
            break
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, output + errors
    assert output.endswith("Interrupted.\n") and errors == ""
    return output


@pytest.mark.parametrize("at", ["A photo server", "1. ", "4. ", "6. "])
def test_an_interrupted_demo_leaves_nothing(at: str, tmp_path: Path) -> None:
    with started(tmp_path) as process:
        interrupted(process, at)
    assert_nothing_is_left(tmp_path, process)


def test_keep_keeps_photos_and_state_and_says_where(tmp_path: Path) -> None:
    with started(tmp_path, "--keep") as process:
        output = interrupted(process, "3. ")
    (kept,) = (tmp_path / "temporary").iterdir()
    assert f"\nKept: {kept}\n" in output
    assert list(kept.glob("photos/**/*.MOV")) and list(kept.glob("state/partitions/*/state.duckdb"))


def test_a_server_that_only_says_done_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment, time_source, threads = dict(os.environ), clock._source, set(threading.enumerate())
    with staged("3.1.0") as stage:
        stage.simulator.faults.add("DELETE", "/api/assets", status=204, times=None)
        status = show(stage)
    output = capsys.readouterr().out
    assert status == 1
    assert "NOT SO: 3 photos were moved to the server's trash" in output
    assert STEPS[5].title in output and STEPS[6].title not in output
    assert (dict(os.environ), clock._source) == (environment, time_source)
    assert not set(threading.enumerate()) - threads
    assert not list(tmp_path.iterdir())


def test_an_error_fails_the_demo_and_is_said_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with staged("3.1.0") as stage:
        key = os.environ["SERVER_API_KEY"]
        stage.simulator.revoke_key(key)
        assert show(stage) == 1
        assert key not in repr(stage) and stage.phone_key not in repr(stage)
    output = capsys.readouterr().out
    assert "The demo failed by an error" in output and key not in output
