"""Step 6, scope_filter: only what the indexing scope covers. Pure."""

from __future__ import annotations

from dataclasses import asdict

from engine import decide
from tasks.context import open_context
from tasks.files import relations, write_relation
from tasks.merge_observed import history_lost
from tasks.refs import Ref, RunRef
from tasks.step import Step

SCOPED = "scoped.parquet"


def scope_filter(run: RunRef, candidates: Ref, memory: Ref) -> Ref:
    """Write scoped.parquet (engine.relations.CANDIDATES) (spec, Scope semantics; docs/rules.md, section 3)."""
    context = open_context(run)
    policy = context.policy(history_lost=history_lost(context))
    with relations(context.folder, candidates=candidates, memory=memory) as con:
        return write_relation(con, decide.scope_filter(con, policy), context.folder / SCOPED)


def rule_facts(run: RunRef) -> dict[str, object]:
    """What this step's outcome depends on beside its input files."""
    context = open_context(run)
    facts = asdict(context.policy(history_lost=history_lost(context)))
    return {name: facts[name] for name in ("selected_albums",)}


STEP = Step("scope_filter", scope_filter, rule_version=1, rule_facts=rule_facts)
