"""How many random worlds each property is tried on: HYPOTHESIS_PROFILE is 'default' or 'thorough'."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
