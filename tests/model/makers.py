"""The two implementations of the rules behind one face, and the words in which the tables by hand are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import duckdb

from engine.policy import LocalFacts, Policy
from engine.settings import Strictness
from tests.model import bridge, local_changes, rules
from tests.model.strategies import CHECKSUMS, NOW
from tests.model.world import NOTHING_BESIDE, Beside, Decision, LocalRow, Remembered, ServerAsset, State

A, B, C, D, E, F = CHECKSUMS
DAY = timedelta(days=1)
Merge = Callable[..., tuple[State, dict[str, Remembered]]]  # state, rows, facts, and mostly nothing beside
Decide = Callable[[dict[str, Remembered], tuple[LocalRow, ...], tuple[ServerAsset, ...], Policy], list[Decision]]


@dataclass(frozen=True, slots=True)
class Maker:
    """One of the two implementations."""

    merge: Merge
    decide: Decide


def engine_maker(con: duckdb.DuckDBPyConnection) -> Maker:
    """Of a database that bridge.open_database made."""
    return Maker(
        lambda state, rows, facts, beside=NOTHING_BESIDE: bridge.merge(con, state, rows, facts, (), beside),
        lambda known, rows, server, policy: bridge.decide(con, known, rows, server, policy).decisions,
    )


def model_maker() -> Maker:
    def merge(
        state: State, rows: tuple[LocalRow, ...], facts: LocalFacts, beside: Beside = NOTHING_BESIDE
    ) -> tuple[State, dict[str, Remembered]]:
        after = local_changes.apply_local_changes(state, rows, facts, beside)
        return after, local_changes.memory(after, rows, facts, ())

    def decide(
        known: dict[str, Remembered], rows: tuple[LocalRow, ...], server: tuple[ServerAsset, ...], policy: Policy
    ) -> list[Decision]:
        return sorted(rules.decide(rules.View(server, rows, known, policy)), key=lambda d: d.asset_id)

    return Maker(merge, decide)


def run_facts(day: float, **changes: object) -> LocalFacts:
    facts = LocalFacts(f"run-{day}", NOW + day * DAY, True, True, False, Strictness.TRUSTING)
    return replace(facts, **changes)  # type: ignore[arg-type]


def policy_on(day: float, **changes: object) -> Policy:
    return replace(Policy("me", NOW + day * DAY), **changes)  # type: ignore[arg-type]


def photo(checksum: str | None, local_id: str = "1", **changes: object) -> LocalRow:
    return replace(LocalRow("L1", local_id, "primary", checksum), **changes)  # type: ignore[arg-type]


def verdicts(decisions: list[Decision]) -> dict[str, tuple[str, str]]:
    return {d.asset_id: (d.bucket, d.reason) for d in decisions}


def in_trash(row: LocalRow, local_id: str | None = None) -> LocalRow:
    return replace(row, local_id=local_id or row.local_id, in_trash=True)


def walk(maker: Maker, *steps: tuple[tuple[LocalRow, ...], LocalFacts], start: State | None = None) -> State:
    state = start or State()
    for rows, facts in steps:
        state, _ = maker.merge(state, rows, facts)
    return state


def confirmed_at(state: State) -> dict[str, datetime]:
    return {checksum: entry.at for checksum, entry in state.confirmed.items()}
