"""Explains an asset from the folder of one run, which is the evidence: nothing else is read, and nothing is written.

What is said lives in engine/explain.py; this finds the run and hands over its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import explain as assets
from engine.database import database
from engine.errors import UsageError
from engine.explain import Explanation, RunFacts
from engine.policy import Verdict
from engine.runs import parse_run_id
from state.home import Home
from state.partition import Partition
from tasks.batch import ids_of, read_batch
from tasks.context import RUN_FACTS, Context, open_context, run_folder
from tasks.enumerate import FACTS as ENUMERATE_FACTS
from tasks.files import quoted, read_json
from tasks.merge_observed import FACTS as MERGE_FACTS
from tasks.merge_observed import verdict_of
from tasks.rails import PLAN
from tasks.refs import RunRef
from tasks.summary import ABORTED, SUMMARY, stamp_of

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Explained:
    """What one run's files tell of ``what``. ``started_at`` is UTC, RFC 3339."""

    what: str
    run_id: str
    started_at: str
    matches: tuple[Explanation, ...]


def explain(home: Home, partition: Partition, what: str, run_id: str | None = None) -> Explained:
    """Explain every match of a checksum, asset id, file name or local id, by the last reconciliation or ``run_id``.

    Raises UsageError where there is no such run, or the run knows nothing of ``what``; DeletionSyncError for a damaged
    file of the run.
    """
    chosen = _last_run(partition) if run_id is None else _known_run(partition, run_id)
    context = open_context(RunRef(str(home.root), partition.name, chosen))
    labels = (_document(context.folder / ENUMERATE_FACTS) or {}).get("labels", {})
    with _relations(context.folder, labels) as (con, has):
        run = _run_facts(context, has)
        matches = assets.explain(con, what.strip(), run)
    if not matches:
        raise _unknown(what, run)
    return Explained(what, chosen, stamp_of(context), matches)


def _last_run(partition: Partition) -> str:
    """The newest reconciliation that began. Raises UsageError."""
    folders = sorted(partition.runs.iterdir(), reverse=True) if partition.runs.is_dir() else []
    for folder in folders:
        if (folder / RUN_FACTS).is_file() and read_json(folder / RUN_FACTS)["flow"] != "restore":
            return folder.name
    raise UsageError("There is no run to explain by yet.", "Start one with `deletion-sync dry-run`.")


def _known_run(partition: Partition, run_id: str) -> str:
    folder = run_folder(partition, parse_run_id(run_id))
    if not (folder / RUN_FACTS).is_file():
        raise UsageError(f"No run {run_id} is kept here.", "`deletion-sync journal list` shows the runs.")
    if read_json(folder / RUN_FACTS)["flow"] == "restore":
        raise UsageError(
            f"The run {run_id} is a restore, which decides nothing.",
            f"`deletion-sync journal show --run-id {run_id}` shows what it did.",
        )
    return run_id


def _unknown(what: str, run: RunFacts) -> UsageError:
    missing = "" if "server" in run.has else " It ended before it had the server's listing."
    if "decision" in run.has and "server" not in run.has:
        missing = " Its listings were removed since; only what it decided on is kept."
    return UsageError(
        f"The run {run.run_id} knows nothing of “{what[:100]}”.{missing}",
        "Give a checksum, an asset id, or a whole file name without its folder; or name an earlier run by --run-id.",
    )


# Where a library's id stands in a relation that a person is told of.
SHOWN_BY_LABEL = {"local": "library_id", "memory": "indexed_in"}


@contextmanager
def _relations(folder: Path, labels: dict[str, str]) -> Iterator[tuple[duckdb.DuckDBPyConnection, frozenset[str]]]:
    """The run's relations by name, and which of them the run wrote; the others are empty. Where a library's id stands,
    its label is shown.

    A Parquet file that a killed step left torn counts as not written.
    """
    import duckdb

    from engine.relations import CANDIDATES, DECISION, LOCAL, MEMORY, SERVER

    schemas = {
        "local": LOCAL,
        "memory": MEMORY,
        "server": SERVER,
        "candidates": CANDIDATES,
        "scoped": CANDIDATES,
        "decision": DECISION,
    }
    with database(spill=folder / "spill") as con:
        con.execute(
            "CREATE TABLE labels AS SELECT unnest($ids) AS id, unnest($labels) AS label",
            {"ids": list(labels), "labels": list(labels.values())},
        )
        con.execute("CREATE MACRO label_of(wanted) AS (SELECT any_value(label) FROM labels WHERE id = wanted)")
        has = set()
        for name, schema in schemas.items():
            try:
                file = f"read_parquet({quoted(folder / f'{name}.parquet')})"
                shown = SHOWN_BY_LABEL.get(name)
                columns = "*" if shown is None else f"* REPLACE (coalesce(label_of({shown}), {shown}) AS {shown})"
                con.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM {file}")
                has.add(name)
            except (duckdb.IOException, duckdb.InvalidInputException):
                con.register(name, schema.empty_table())
        yield con, frozenset(has)


def _run_facts(context: Context, has: frozenset[str]) -> RunFacts:
    """How far the run got, by its JSON files; what is not there yet is left open."""
    merged = _document(context.folder / MERGE_FACTS)
    summary = _document(context.folder / SUMMARY)
    sent: set[str] = set()
    left_out: dict[str, str] = {}
    for path in sorted(context.folder.glob("batch-*.json")):
        sent.update(ids_of(read_batch(path)[1]))
        left_out |= read_json(path)["dropped"]
    return RunFacts(
        run_id=context.run.run_id,
        policy=context.policy(history_lost=bool(merged and merged["history_lost"])),
        has=has,
        verdict=_verdict(merged, _document(context.folder / PLAN), summary),
        outcome=None if summary is None else summary["outcome"],
        sent=frozenset(sent),
        left_out=left_out,
    )


def _verdict(
    merged: dict[str, Any] | None, plan: dict[str, Any] | None, summary: dict[str, Any] | None
) -> Verdict | None:
    """The rails' last word: that of an abort while the plan was applied, of the plan, or of the local rails."""
    if summary is not None and summary["outcome"] == ABORTED:
        return Verdict(summary["rail"], summary["notes"][0], summary["next_step"])
    if plan is not None:
        return verdict_of(plan["verdict"])
    local = None if merged is None else verdict_of(merged["verdict"])
    return None if local is None or local.passed else local


def _document(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None
