"""Ctrl-C: whatever a library makes of it, the command says "Interrupted." and ends with 130, without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.program import ROOT, ended, environment, heed_interrupts, start

QUERY = """
import sys
from cli.commands import app
from cli.main import main
from engine.database import connect

@app.command("count")
def count() -> None:
    con = connect()
    print("begun", flush=True)
    {work}

sys.argv = ["deletion-sync", "count"]
main()
"""
ENDLESS = "con.execute('SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range')"
PLAIN = "import threading; threading.Event().wait()"
SWALLOWED = f"""try:
        {ENDLESS}
    except BaseException:
        print("it went on")"""


@contextmanager
def script(code: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,  # noqa: PLW1509  (it takes no lock)
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()  # where it has not ended by itself


@pytest.mark.parametrize("work", [ENDLESS, SWALLOWED, PLAIN], ids=["query", "swallowed", "waiting"])
def test_ctrl_c_in_a_command_is_an_interruption_and_no_bug(work: str) -> None:
    with script(QUERY.format(work=work)) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        found = ended(process)
    assert (found.code, found.err) == (130, "Interrupted.\n")


def test_ctrl_c_while_the_program_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    found = ended(start("--help", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}))
    assert (found.code, found.err) == (130, "Interrupted.\n")


def test_an_error_without_ctrl_c_is_still_told_as_what_it_is() -> None:
    with script(QUERY.format(work="raise RuntimeError('x')")) as process:
        found = ended(process)
    assert found.code == 1 and "This is a bug in deletion-sync: RuntimeError" in found.err
