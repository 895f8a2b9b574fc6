"""The fixtures that tell a table to the model and to the engine."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.model import bridge
from tests.model.makers import Maker, engine_maker, model_maker


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with bridge.open_database() as database:
        yield database


@pytest.fixture(scope="module", params=["model", "engine"])
def maker(request: pytest.FixtureRequest) -> Maker:
    return model_maker() if request.param == "model" else engine_maker(request.getfixturevalue("con"))
