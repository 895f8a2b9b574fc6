"""docs/guards.md: every guard names a test that exists, and every test of the guards has its row."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"^\| (.+) \| `(tests/[\w/]+\.py)::(\w+)` \|$")


def rows() -> list[tuple[str, str, str]]:
    lines = (ROOT / "docs/guards.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    found = [NAMED.match(line) for line in table]
    assert all(found), table
    return [(match[1], match[2], match[3]) for match in found if match]


def test_every_guard_names_a_test_that_exists() -> None:
    assert len(rows()) > 20
    for guard, path, name in rows():
        assert f"def {name}(" in (ROOT / path).read_text(), guard


def test_every_test_of_the_guards_has_its_row() -> None:
    named = {name for _, _, name in rows()}
    for name in re.findall(r"^def (test_\w+)", (ROOT / "tests/deployments/test_guards_under_up.py").read_text(), re.M):
        assert name in named, name
