"""The README knows every command and every option of the command line, and nothing that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from cli.commands import app

README = (Path(__file__).parents[2] / "README.md").read_text()
TABLE = {
    match[1].split(" WHAT")[0]: match[0]
    for match in re.finditer(r"^\| `([a-z -]+?)(?: [A-Z]\w*…?(?: [A-Z]+)?)?` \|.*$", README, re.MULTILINE)
}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))
    else:
        yield " ".join(path), command


ALL = dict(commands(typer.main.get_command(app)))


def test_every_command_is_in_the_readme_and_no_other() -> None:
    assert set(TABLE) == set(ALL)


def test_every_option_of_a_command_is_in_its_row_and_no_other() -> None:
    for name, command in ALL.items():
        texts = {text for p in command.params if p.param_type_name == "option" for text in p.opts}
        options = {text for text in texts if text.startswith("--") and text != "--help"}
        shown = set(re.findall(r"--[a-z][a-z-]*", TABLE[name]))
        assert shown == options, name


def test_the_exit_codes_of_the_readme_are_those_of_the_program() -> None:
    from cli.main import FAILED, INTERRUPTED, USAGE
    from engine import errors

    codes = {0, FAILED, USAGE, INTERRUPTED} | {
        getattr(errors, name).exit_code
        for name in ("RailTripped", "ConfirmationNeeded", "PartlyDone", "PartitionBusy", "DeletionSyncError")
    }
    paragraph = README.split("**Exit codes**")[1].split("\n\n")[0]
    assert {int(number) for number in re.findall(r"\b\d+\b", paragraph)} == codes
