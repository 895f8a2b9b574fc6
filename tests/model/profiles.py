"""How many random worlds each property is tried on: HYPOTHESIS_PROFILE is 'quick' (the default) or 'thorough'.

Promises that look at the same kind of world share one seed, new in every run of the tests. So they meet the same
worlds, and what the engine makes of each need be computed once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, seed, settings

Test = TypeVar("Test", bound=Callable[..., None])
Key = TypeVar("Key")
Value = TypeVar("Value")

_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def _settings(quick: int, thorough: int) -> settings:
    examples = thorough if _THOROUGH else quick
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


_seed = seed(random.SystemRandom().randrange(1 << 32))
_REMEMBERED = 1000


def _alike(profile: settings) -> Callable[[Test], Test]:
    """The profile, with the worlds of every other test that has it."""

    def decorate(test: Test) -> Test:
        return _seed(profile(test))

    return decorate


def once(compute: Callable[[Key], Value]) -> Callable[[Key], Value]:
    """The function, computed once for each of the last arguments, which are told apart by their representation."""
    known: dict[str, Value] = {}

    def found(key: Key) -> Value:
        name = repr(key)
        if name not in known:
            if len(known) == _REMEMBERED:
                known.clear()
            known[name] = compute(key)
        return known[name]

    return found


PROFILE = _settings(150, 20_000)
# One run, but one of several promises that look at the same kind of world.
PROFILE_OF_PROMISES = _alike(_settings(80, 20_000))
# A history is two to six runs.
PROFILE_OF_WALKS = _alike(_settings(40, 5_000))
