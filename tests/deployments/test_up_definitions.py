"""When the deployments are written anew: whenever what they are made of changed, and at no other time."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments import definitions


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the sources that the deployments are made of."""
    for name in definitions.SOURCES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"source of {name}")
    (tmp_path / "written.yaml").write_text("deployments: []")
    return tmp_path


@pytest.mark.parametrize("name", definitions.SOURCES)
def test_an_upgraded_program_writes_its_deployments_anew(program: Path, name: str) -> None:
    before = definitions.mark(program / "written.yaml", "UTC", program)
    assert definitions.mark(program / "written.yaml", "UTC", program) == before, "a mere restart writes nothing"
    (program / name).write_text("another version")
    assert definitions.mark(program / "written.yaml", "UTC", program) != before


def test_the_sources_are_those_of_the_installed_program(program: Path) -> None:
    assert definitions.mark(program / "written.yaml", "UTC") != definitions.mark(program / "written.yaml", "Asia/Tokyo")
