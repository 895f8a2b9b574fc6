"""A run's plan as a person reads it, and as one JSON document: what goes, what is held, what wants a look."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cli.output import day, plural, say, table
from engine.reasons import REASONS

if TYPE_CHECKING:
    from pathlib import Path

    from state.partition import Partition
    from tasks.summary import Summary

DELETE, HELD, REVIEW = "delete", "held", "review"
GOES, STOPPED, CARRIED_OUT = "To be moved to the server's trash", "Would have gone", "In the plan that was carried out"
_SHOWN = 200  # rows per bucket, unless all are asked for


def decisions(partition: Partition, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of decision.parquet per bucket, by file name; empty lists where the run did not get that far."""
    from tasks.classify import DECISION

    found: dict[str, list[dict[str, Any]]] = {DELETE: [], HELD: [], REVIEW: []}
    path = partition.runs / run_id / DECISION
    if path.exists():
        for row in _rows(path):
            found[row["bucket"]].append(row)
    return found


def document(partition: Partition, summary: Summary) -> dict[str, Any]:
    """A run's summary with its plan: the JSON document of the commands that run."""
    return {**asdict(summary), "plan": decisions(partition, summary.run_id)}


def show(found: dict[str, list[dict[str, Any]]], *, everything: bool = False, goes: str = GOES) -> None:
    """Print each bucket that has something. Held and review are told apart, and counted once each.

    ``goes``: what is to be said of what the plan moves to the trash.
    """
    _bucket(goes, found[DELETE], everything)
    _bucket("Held until their quarantine ends", found[HELD], everything)
    _bucket("Waiting for your review; never trashed by themselves", found[REVIEW], everything)


def lists_whole_server(partition: Partition, summary: Summary) -> bool:
    """Whether a run from a checksums file found every own, untrashed checksum of the server in that file."""
    from engine.database import database
    from tasks.context import RUN_FACTS
    from tasks.files import quoted, read_json

    folder = partition.runs / summary.run_id
    local, server = folder / "local.parquet", folder / "server.parquet"
    if not (local.exists() and server.exists()) or read_json(folder / RUN_FACTS)["checksums_file"] is None:
        return False
    with database() as con:
        ((assets, missing),) = con.execute(
            "SELECT count(*), count(*) FILTER (checksum NOT IN (SELECT checksum FROM read_parquet("
            f"{quoted(local)}) WHERE checksum IS NOT NULL)) FROM read_parquet({quoted(server)}) "
            "WHERE NOT is_trashed AND library_id IS NULL"
        ).fetchall()
    return bool(assets) and not missing


def _bucket(title: str, rows: list[dict[str, Any]], everything: bool) -> None:
    if not rows:
        return
    say(f"{title}: {plural(len(rows), 'photo')}")
    held = rows[0]["bucket"] == HELD
    columns = ["file name", "why", "taken", "Live Photo", *(["days left"] if held else [])]
    shown = rows if everything else rows[:_SHOWN]
    table(columns, [_cells(row, held) for row in shown])
    if len(shown) < len(rows):
        say(f"… and {len(rows) - len(shown):,} more: `deletion-sync plan --all` shows them.")
    say()


def _cells(row: dict[str, Any], held: bool) -> list[object]:
    cells: list[object] = [
        row["file_name"],
        REASONS.get(row["reason"], row["reason"]),
        day(row["captured_at"]),
        "yes" if row["motion_id"] else "",
    ]
    return [*cells, row["days_left"]] if held else cells


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return sorted(rows, key=lambda row: (row["file_name"], row["asset_id"]))
