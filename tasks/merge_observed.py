"""Step 3, merge_observed: what the enumeration means for the remembered sets, and a snapshot of them.

All of it is one transaction: the observed set, the confirmations, the anchors, the index and the change tokens
can never disagree, wherever the process is killed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.changes import apply_local_changes
from engine.collapse import losses
from engine.memory import memory
from engine.policy import LocalFacts, Loss, RailFacts, Verdict
from engine.rails import QUIET, evaluate_local
from state import hash_cache, journal, put_back
from state.db import replay_exclusions, writing
from state.libraries import clear_accepted_losses, registered, save_token
from state.runs import HISTORY_LOST, set_fact
from tasks.context import Context, open_context
from tasks.enumerate import FACTS as ENUMERATE_FACTS
from tasks.files import quoted, read_json, reference, relations, verified, write_json
from tasks.hash import FACTS as HASH_FACTS
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import duckdb

MEMORY = "memory.parquet"
NAMES = "names.parquet"
FACTS = "merge.json"


def merge_observed(run: RunRef, local: Ref) -> Ref:
    """Apply docs/rules.md, section 1, and write memory.parquet (engine.relations.MEMORY) (spec, items 5.3 and 10).

    While a local rail trips, the run counts as incomplete: nothing is confirmed deleted and no token is saved.
    """
    context = open_context(run)
    listed = read_json(context.folder / ENUMERATE_FACTS)
    change_log = context.checksums_file is None
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
        _register_beside(con, listed["handed_over"], journal.in_trash(records))
        replay_exclusions(con, records)
        labels = {library.library_id: library.label for library in registered(con)}
        lost = losses(con) if change_log else ()
        shown = tuple(replace(loss, library=labels.get(loss.library, loss.library)) for loss in lost)
        verdict = evaluate_local(local_rail_facts(context, kept_rows(con), shown))
        facts = LocalFacts(
            run_id=run.run_id,
            now=context.started_at,
            complete=verdict.passed,
            change_log=change_log,
            history_lost=bool(listed["history_lost"]),
            strictness=context.settings.deletionStrictness,
        )
        apply_local_changes(con, facts)
        merges = put_back.count_merge(con)
        if facts.complete and facts.change_log:
            for library_id, token in listed["tokens"].items():
                save_token(con, library_id, token, facts.now)
            clear_accepted_losses(con)
            if facts.history_lost:
                set_fact(con, HISTORY_LOST, "a change token expired")  # until a plan has shown what that means
        path = context.folder / MEMORY
        memory(con, facts).write_parquet(str(path), compression="zstd")
        path.chmod(0o600)
    put_back.mark(context.partition, merges)
    write_json(
        context.folder / FACTS,
        {
            "complete": facts.complete,
            "history_lost": facts.history_lost,
            "verdict": to_json(verdict),
            "losses": {loss.library: [loss.held, loss.lost] for loss in lost},
        },
    )
    return reference(path)


def _register_beside(
    con: duckdb.DuckDBPyConnection, handed_over: dict[str, list[str]], trashed: dict[str, str]
) -> None:
    """The two small relations that the rules of section 1 read beside the local rows."""
    import pyarrow as pa

    pairs = [(library_id, local_id) for library_id, local_ids in handed_over.items() for local_id in local_ids]
    moments = [datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=None) for at in trashed.values()]
    con.register(
        "handed_over",
        pa.table(
            {"library_id": [pair[0] for pair in pairs], "local_id": [pair[1] for pair in pairs]},
            schema=pa.schema([("library_id", pa.string()), ("local_id", pa.string())]),
        ),
    )
    con.register(
        "trashed_here",
        pa.table(
            {"checksum": list(trashed), "trashed_at": moments},
            schema=pa.schema([("checksum", pa.string()), ("trashed_at", pa.timestamp("us"))]),
        ),
    )


def kept_rows(con: duckdb.DuckDBPyConnection) -> int:
    """How many rows of ``local`` lie outside the trash."""
    ((count,),) = con.execute("SELECT count(*) FROM local WHERE in_trash IS NOT TRUE").fetchall()
    return int(count)


def local_rail_facts(context: Context, local_count: int, lost: tuple[Loss, ...]) -> RailFacts:
    """The facts of the local rails, from the run's folder, and of this run's settings; the others are neutral."""
    listed = read_json(context.folder / ENUMERATE_FACTS)
    hashed = read_json(context.folder / HASH_FACTS)
    return replace(
        QUIET,
        real=not context.facts["dry_run"],
        access_problems=tuple(listed["access_problems"]),
        inventory_problems=(*listed["gaps"], *hashed["problems"]),
        local_count=local_count,
        losses=lost,
        clock_skew_seconds=context.facts["server"]["clock_skew_seconds"],
        trash_enabled=bool(context.facts["server"]["trash_enabled"]),
        trash_days=context.facts["server"]["trash_days"],
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
