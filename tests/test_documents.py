"""The documents name only what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_every_test_that_a_document_names_exists() -> None:
    named = [
        (document.name, file, test)
        for document in DOCUMENTS
        for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", document.read_text())
    ]
    assert len(named) > 20
    for document, file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{document}: {file}::{test}"


def test_every_invariant_has_a_test() -> None:
    text = (ROOT / "docs/invariants.md").read_text().split("And of the two ways")[0]
    parts = re.split(r"^(\d+)\. ", text, flags=re.MULTILINE)[1:]
    assert parts[::2] == [str(number) for number in range(1, 14)]
    assert all("::test_" in part for part in parts[1::2])


def test_every_file_that_a_document_links_to_exists() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([\w./-]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_no_document_names_a_rail_or_reason_that_the_engine_does_not_have() -> None:
    from engine import decide, rails

    text = (ROOT / "docs/rules.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", text.split("## 5. Rails")[1].split("## 6.")[0], re.MULTILINE)
    assert rows == [rail.__name__.strip("_") for rail in rails.RAILS]
    reasons = set(re.findall(r"'reason': '(\w+)'", decide.CLASSIFY)) - {"excluded"}
    assert all(f"`{reason}`" in text for reason in reasons)
