"""The direct way: each step is called as the function it is. Prefect is not imported."""

from __future__ import annotations

from typing import Any

from tasks.step import Step

WAY = "direct"


def call(step: Step, *arguments: Any) -> Any:
    """Run a step here and now."""
    return step(*arguments)
