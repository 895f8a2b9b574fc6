"""Step 8, rails: the verdict over the whole run, and the plan that a person or a setting may then apply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import decide, plan
from engine.plan import Unit
from engine.policy import Verdict
from engine.rails import evaluate
from state.db import reading
from state.runs import last_server_count
from tasks.context import Context, open_context, stamp
from tasks.files import read_json, reference_of_bytes, relations, write_json
from tasks.merge_observed import history_lost, kept_rows, local_rail_facts, to_json
from tasks.refs import Ref, RunRef
from tasks.step import Step

PLAN = "plan.json"


def rails(run: RunRef, decision: Ref, server: Ref, local: Ref, memory: Ref) -> Ref:
    """Write plan.json: the verdict, the counts, and exactly what would be trashed, with its digest (spec, item 8)."""
    context = open_context(run)
    policy = context.policy(history_lost=history_lost(context))
    with relations(context.folder, decision=decision, server=server, local=local, memory=memory) as con:
        rows = con.sql("FROM decision WHERE bucket = 'delete' ORDER BY file_name, asset_id").to_arrow_table()
        buckets = dict(con.execute("SELECT bucket, count(*) FROM decision GROUP BY bucket").fetchall())
        matched = decide.matched(con, policy)
        ((shown,),) = con.execute("SELECT count(*) FROM server WHERE NOT is_trashed").fetchall()
        kept = kept_rows(con)
    units = plan.units(rows.to_pylist())
    with reading(context.partition) as con:
        last = last_server_count(con)
    facts = replace(
        local_rail_facts(context, kept, ()),  # a collapse ended the run before
        server_count=shown,
        last_server_count=last,
        to_trash=plan.asset_count(units),
        matched=matched,
    )
    verdict = evaluate(facts)
    path = context.folder / PLAN
    write_json(path, document(context, units, buckets, shown, matched, verdict))
    return reference_of_bytes(path, len(units))


def document(
    context: Context, units: tuple[Unit, ...], buckets: dict[str, int], shown: int, matched: int, verdict: Verdict
) -> dict[str, object]:
    """plan.json: what a person approves, and what the rails said."""
    held, review = buckets.get("held", 0), buckets.get("review", 0)
    return {
        "schema": plan.SCHEMA,
        "run_id": context.run.run_id,
        "partition": context.partition.name,
        "created_at": stamp(),
        "dry_run": context.facts["dry_run"],
        "digest": plan.digest(context.partition.name, units),
        "counts": {
            "delete": len(units),
            "pending": held + review,
            "held": held,
            "review": review,
            "to_trash": plan.asset_count(units),
            "server": shown,
            "matched": matched,
        },
        "verdict": to_json(verdict),
        "units": [plan.to_json(unit) for unit in units],
    }


def read_plan(folder: Path) -> tuple[dict[str, Any], tuple[Unit, ...]]:
    """plan.json of a run's folder and its units."""
    content = read_json(folder / PLAN)
    return content, tuple(plan.from_json(unit) for unit in content["units"])


STEP = Step("rails", rails, retries=1)
