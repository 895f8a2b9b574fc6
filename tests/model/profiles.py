"""How many random worlds each property is tried on: HYPOTHESIS_PROFILE is 'quick' (the default) or 'thorough'."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def _settings(quick: int, thorough: int) -> settings:
    examples = thorough if _THOROUGH else quick
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


PROFILE = _settings(150, 20_000)
# One run, but one of several promises that look at the same kind of world.
PROFILE_OF_PROMISES = _settings(50, 20_000)
# A history is two to six runs.
PROFILE_OF_WALKS = _settings(25, 5_000)
