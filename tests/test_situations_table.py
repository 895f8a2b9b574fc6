"""docs/situations.md: every row has its test, and every test of a situation has its row."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/situations.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    """The cells of every row of every table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if not re.match(r"\|[-| ]+$", line) and not line.startswith("| what happened")
    ]


def test_every_row_says_what_happens_what_to_do_and_names_a_test_that_exists() -> None:
    found = rows()
    assert len(found) > 100
    for row in found:
        assert len(row) == 4 and all(row), row
        named = NAMED.fullmatch(row[3])
        assert named is not None, row
        assert f"def {named[2]}(" in (ROOT / named[1]).read_text(), row


def test_no_situation_is_listed_twice() -> None:
    situations = [row[0] for row in rows()]
    assert len(situations) == len(set(situations))


def test_every_test_of_a_situation_has_a_row() -> None:
    named = {NAMED.fullmatch(row[3])[2] for row in rows()}  # type: ignore[index]
    for path in ROOT.glob("tests/e2e/test_situations*.py"):
        for test in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE):
            assert test in named, f"{path.name}: {test} has no row in {PAGE.name}"


def test_every_rail_and_command_that_the_page_names_is_there() -> None:
    text = PAGE.read_text()
    rails = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/rules.md").read_text(), re.MULTILINE))
    assert set(re.findall(r"stops \(`(\w+)`\)", text)) <= rails
    commands = set(re.findall(r"`((?:library|exclude|settings) [a-z-]+)", text))
    readme = (ROOT / "README.md").read_text()
    assert commands and all(f"`{command}" in readme for command in commands)
