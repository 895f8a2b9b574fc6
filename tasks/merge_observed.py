"""Step 3, merge_observed: what the enumeration means for the remembered sets, and a snapshot of them.

All of it is one transaction: the observed set, the confirmations, the anchors, the index and the change tokens
can never disagree, wherever the process is killed.
"""

from __future__ import annotations

from engine.changes import apply_local_changes
from engine.memory import memory
from engine.policy import LocalFacts, RailFacts, Verdict
from engine.rails import evaluate_local
from state import hash_cache, journal
from state.db import replay_exclusions, writing
from state.libraries import hand_over, save_token
from state.runs import HISTORY_LOST, set_fact
from state.vouching import note_listing, note_trashed
from tasks.context import Context, open_context
from tasks.enumerate import FACTS as ENUMERATE_FACTS
from tasks.files import quoted, read_json, reference, relations, verified, write_json
from tasks.hash import FACTS as HASH_FACTS
from tasks.refs import Ref, RunRef
from tasks.step import Step

MEMORY = "memory.parquet"
NAMES = "names.parquet"
FACTS = "merge.json"


def merge_observed(run: RunRef, local: Ref) -> Ref:
    """Apply docs/rules.md, section 1, and write memory.parquet (engine.relations.MEMORY) (spec, items 5.3 and 10).

    While a local rail trips, the run counts as incomplete: nothing is confirmed deleted and no token is saved.
    """
    context = open_context(run)
    listed = read_json(context.folder / ENUMERATE_FACTS)
    verdict = local_verdict(context, local)
    facts = LocalFacts(
        run_id=run.run_id,
        now=context.started_at,
        complete=verdict.passed,
        change_log=context.checksums_file is None,
        history_lost=bool(listed["history_lost"]),
        strictness=context.settings.deletionStrictness,
    )
    names = context.folder / NAMES
    with relations(context.folder, local=local) as con:
        hash_cache.remember_names(context.home, con.sql("SELECT checksum, file_name FROM local").to_arrow_table())
    hash_cache.export_names(context.home, names)
    records = journal.read(context.partition).records
    with writing(context.partition) as con:
        con.execute(
            f"CREATE OR REPLACE TEMP VIEW local AS FROM read_parquet({quoted(verified(context.folder, local))})"
        )
        con.execute(
            "CREATE OR REPLACE TEMP VIEW names AS "
            f"SELECT checksum, unnest(names) AS file_name FROM read_parquet({quoted(names)})"
        )
        for library_id, local_ids in listed["handed_over"].items():
            hand_over(con, library_id, local_ids, facts.now)
        replay_exclusions(con, records)
        note_listing(con, facts.now, change_log=facts.change_log)
        apply_local_changes(con, facts)
        note_trashed(con, records)
        if facts.complete and facts.change_log:
            for library_id, token in listed["tokens"].items():
                save_token(con, library_id, token, facts.now)
            if facts.history_lost:
                set_fact(con, HISTORY_LOST, "a change token expired")  # until a plan has shown what that means
        path = context.folder / MEMORY
        memory(con, facts).write_parquet(str(path), compression="zstd")
        path.chmod(0o600)
    write_json(
        context.folder / FACTS,
        {"complete": facts.complete, "history_lost": facts.history_lost, "verdict": to_json(verdict)},
    )
    return reference(path)


def local_verdict(context: Context, local: Ref) -> Verdict:
    """The rails that the local side alone can trip."""
    return evaluate_local(local_rail_facts(context, local.rows))


def local_rail_facts(context: Context, local_count: int) -> RailFacts:
    """The facts of the local rails, from the run's folder; the other facts are neutral."""
    listed = read_json(context.folder / ENUMERATE_FACTS)
    hashed = read_json(context.folder / HASH_FACTS)
    return RailFacts(
        real=not context.facts["dry_run"],
        access_problems=tuple(listed["access_problems"]),
        inventory_problems=(*listed["gaps"], *hashed["problems"]),
        local_count=local_count,
        clock_skew_seconds=context.facts["server"]["clock_skew_seconds"],
        server_count=0,
        last_server_count=None,
        trash_enabled=bool(context.facts["server"]["trash_enabled"]),
        trash_days=context.facts["server"]["trash_days"],
        to_trash=0,
        matched=0,
        threshold_percent=context.settings.thresholdPercent,
        threshold_floor=context.settings.thresholdFloor,
    )


def history_lost(context: Context) -> bool:
    """Whether this run's libraries have no history to compare with (spec, Token expired)."""
    return bool(read_json(context.folder / FACTS)["history_lost"])


def to_json(verdict: Verdict) -> dict[str, str | None]:
    return {"rail": verdict.rail, "what": verdict.what, "next_step": verdict.next_step}


def verdict_of(document: dict[str, str | None]) -> Verdict:
    return Verdict(document["rail"], document["what"] or "", document["next_step"] or "")


STEP = Step("merge_observed", merge_observed, retries=1)
