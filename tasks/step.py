"""What a step is: a plain function with a name, and how it may be cached and retried.

The direct way calls the function; flows.prefect_way makes a Prefect task of it. Prefect is not imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.refs import RunRef


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the pipeline.

    ``rule_version`` is set for the pure steps only: it goes into the cache key beside the step's name and the digests
    of its inputs, and is raised whenever the step's rule changes. Every other step is never cached. ``retries`` is
    for steps that only read or whose writes are idempotent; tag, delete and journal have none.
    """

    name: str
    function: Callable[..., Any]
    rule_version: int | None = None
    rule_facts: Callable[[RunRef], Mapping[str, object]] | None = None  # what a pure step depends on beside its files
    retries: int = 0

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)
