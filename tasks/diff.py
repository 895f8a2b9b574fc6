"""Step 5, diff: the candidates. Pure: its output follows from its inputs."""

from __future__ import annotations

from dataclasses import asdict

from engine import decide
from tasks.context import open_context
from tasks.files import relations, write_relation
from tasks.merge_observed import history_lost
from tasks.refs import Ref, RunRef
from tasks.step import Step

CANDIDATES = "candidates.parquet"


def diff(run: RunRef, server: Ref, local: Ref, memory: Ref) -> Ref:
    """Write candidates.parquet (engine.relations.CANDIDATES) (spec, item 5.5; docs/rules.md, section 2)."""
    context = open_context(run)
    policy = context.policy(history_lost=history_lost(context))
    with relations(context.folder, server=server, local=local, memory=memory) as con:
        return write_relation(con, decide.diff(con, policy), context.folder / CANDIDATES)


def rule_facts(run: RunRef) -> dict[str, object]:
    """What this step's outcome depends on beside its input files."""
    context = open_context(run)
    facts = asdict(context.policy(history_lost=history_lost(context)))
    return {name: facts[name] for name in ("user_id", "include_external")}


STEP = Step("diff", diff, rule_version=1, rule_facts=rule_facts)
