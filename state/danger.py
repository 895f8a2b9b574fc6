"""The three actions that forget something (spec, item 12). Each tries all of its parts and reports every failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from engine.errors import DeletionSyncError, PartlyDone
from state import hash_cache, identity, session_store
from state.db import writing
from state.files import sync_folder, writing_to
from state.home import Home
from state.journal import append, decision, locked
from state.lock import partition_lock
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, FIRST_DRY_RUN, HISTORY_LOST, clear_fact, set_fact

# Exclusions, libraries, the record of runs and the server's credentials stay.
RESET_TABLES = (
    *("observed", "confirmed_deleted", "retired", "edit_anchors", "detached", "file_only", "local_index"),
    "accepted_losses",
)


def sign_out(home: Home, server_url: str, partition: Partition | None, now: datetime) -> list[str]:
    """Forgets who the keys of this address belong to; indexed state stays. Returns what a person should know.

    .env is the user's own file and is not touched. Raises PartlyDone, naming what failed.
    """
    steps: dict[str, Callable[[], object]] = {"forget the identity": lambda: identity.forget(home, server_url)}
    if partition is not None:
        steps["forget the session"] = lambda: session_store.clear(partition)
    if partition is not None and partition.journal.exists():
        steps = {"journal it": _journaled(partition, "sign_out", now), **steps}
    _all_of("Signing out", steps)
    return ["SERVER_URL and SERVER_API_KEY are still in your .env file or environment: remove them there."]


def reset_index(home: Home, partition: Partition, now: datetime) -> None:
    """Wipes the hash cache, the observed set and all quarantine state; the next run counts as a first run.

    Credentials, exclusions, settings, the journal and the registered libraries stay. Raises PartitionBusy, and
    PartlyDone, naming what failed (lesson 49).
    """

    def forget() -> None:
        with writing(partition) as con:
            for table in RESET_TABLES:
                con.execute(f"DELETE FROM {table}")
            con.execute("UPDATE libraries SET token = NULL, enumerated_at = NULL, snapshot = snapshot + 1")
            clear_fact(con, FIRST_DRY_RUN)
            clear_fact(con, FIRST_DELETE_CONFIRMED)
            set_fact(con, HISTORY_LOST, "the index was reset")

    with partition_lock(partition, "reset index"):
        _all_of(
            "Resetting the index",
            {
                "journal it": _journaled(partition, "reset_index", now),
                "wipe the partition's index": forget,
                "wipe the hash cache": lambda: hash_cache.wipe(home),
            },
        )


def clear_journal(partition: Partition) -> None:
    """Deletes deletion-journal.jsonl: `restore` then knows only what the server's tags tell. Raises PartitionBusy."""
    with partition_lock(partition, "clear journal"), locked(partition), writing_to(partition.journal):
        partition.journal.unlink(missing_ok=True)
        sync_folder(partition.path)


def _journaled(partition: Partition, name: str, now: datetime) -> Callable[[], object]:
    return lambda: append(partition, [decision(name, now)])


def _all_of(what: str, steps: dict[str, Callable[[], object]]) -> None:
    """Runs every step, also after one failed. Raises PartlyDone with all failures; of one step, its error."""
    failures: list[tuple[str, DeletionSyncError]] = []
    for name, step in steps.items():
        try:
            step()
        except DeletionSyncError as error:
            failures.append((name, error))
    if len(failures) == len(steps) == 1:
        raise failures[0][1]
    if failures:
        named = " ".join(f"Could not {name}: {error}" for name, error in failures)
        raise PartlyDone(f"{what} was done in part. {named}", "Correct that, and run it again.")
