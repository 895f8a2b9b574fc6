"""The direct way: each step is called as the function it is. Prefect is not imported."""

from __future__ import annotations

from typing import Any

from tasks import progress
from tasks.step import Step

WAY = "direct"


def call(step: Step, *arguments: Any) -> Any:
    """Run a step here and now. Its name is the phase of the progress display."""
    progress.report(step.name, 0, None)
    return step(*arguments)
