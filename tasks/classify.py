"""Step 7, classify: the bucket of each candidate. Pure."""

from __future__ import annotations

from dataclasses import asdict

from engine import decide
from tasks.context import open_context
from tasks.files import relations, write_relation
from tasks.merge_observed import history_lost
from tasks.refs import Ref, RunRef
from tasks.step import Step

DECISION = "decision.parquet"


def classify(run: RunRef, scoped: Ref, server: Ref, local: Ref, memory: Ref) -> Ref:
    """Write decision.parquet (engine.relations.DECISION) (spec, Candidate classification; docs/rules.md, section 4)."""
    context = open_context(run)
    policy = context.policy(history_lost=history_lost(context))
    with relations(context.folder, scoped=scoped, server=server, local=local, memory=memory) as con:
        return write_relation(con, decide.classify(con, policy), context.folder / DECISION)


def rule_facts(run: RunRef) -> dict[str, object]:
    """What this step's outcome depends on beside its input files."""
    context = open_context(run)
    return asdict(context.policy(history_lost=history_lost(context)))


STEP = Step("classify", classify, rule_version=1, rule_facts=rule_facts)
