"""What is worth a notice when a run ends: a rail, a waiting plan, a mass offload, a silent server, an ended session, ….

Reads the run's summary and what the partition remembers. Whether it was told before, and how it is sent, is not here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from engine.errors import RailTripped
from engine.policy import Verdict
from engine.rails import QUIET, evaluate
from flows.channels import Notice
from server.errors import ServerError, ServerFault, ServerUnreachable
from state import settings_file
from state.db import reading, writing
from state.home import Home
from state.notices import no_answer_since, set_no_answer_since
from state.partition import Partition
from state.runs import FIRST_DELETE_CONFIRMED, STREAM_NOTICE, get_fact, runs
from tasks import clock
from tasks.context import RUN_FACTS, run_folder
from tasks.files import read_json
from tasks.overview import MASS_OFFLOAD, Offload, overview
from tasks.summary import ABORTED, FAILED, NOTHING, PARTLY, PLANNED, TRASHED, Summary

if TYPE_CHECKING:
    import duckdb

# Keys: the names of Prefect events, and the beginnings of what is remembered.
RAIL, PLAN, OFFLOAD, SERVER_DOWN, SESSION_EXPIRED, RETENTION, FAILURE = (
    "rail", "plan", "mass_offload", "server_down", "session_expired", "retention", "failed",
)  # fmt: skip
KEYS = (RAIL, PLAN, OFFLOAD, SERVER_DOWN, SESSION_EXPIRED, RETENTION, FAILURE)
DOWN_AFTER = timedelta(hours=24)

# What the engine says of these rails names a library, a folder or a file, and that stays here.
NAMELESS = {
    "permission": ("A photo library cannot be read whole.", "Run `deletion-sync library list` to see which."),
    "incomplete": ("Some local files could not be read.", "Run `deletion-sync library deferred` to see which."),
    "collapse": (
        "A photo library lacks more than half of the photos that it held before.",
        "Check that all of it is there; `deletion-sync dry-run` says which library it is.",
    ),
}
_SESSION_GONE = "The server does not know the session"  # how the change stream tells that (server.stream)
_MANY = "SELECT 1 FROM confirmed_deleted WHERE cause <> 'retired' GROUP BY confirmed_at HAVING count(*) >= ? LIMIT 1"


@dataclass(frozen=True, slots=True)
class Standing:
    """``notices``: what holds now. ``judged``: beginnings of the marks that this run could judge at all; what was told
    under another one stays told."""

    notices: tuple[Notice, ...] = ()
    judged: tuple[str, ...] = ()


def of_end(home: Home, partition: Partition, end: Summary | Exception, *, dry_run: bool) -> Standing:
    """What holds after a run that ended so. Since when the server is silent is noted here. Raises StateError."""
    if isinstance(end, Summary):
        return _of_summary(home, partition, end)
    return _of_error(partition, end, dry_run)


def _of_error(partition: Partition, error: Exception, dry_run: bool) -> Standing:
    """A run that ended by an error. It knows nothing of what other runs found."""
    if isinstance(error, ServerUnreachable | ServerFault):
        return _unanswered(partition)
    answered = isinstance(error, ServerError | RailTripped)
    if answered:
        _answered(partition)
    judged = (SERVER_DOWN,) if answered else ()
    if isinstance(error, RailTripped):
        verdict = Verdict(error.rail, error.what, error.next_step)
        notice = _of_rail(partition, verdict)
        return Standing((notice,), (*judged, notice.key))
    notice = _failure(
        dry_run, type(error).__name__, f"A run ended by an error ({type(error).__name__}).",
        "Open it on the web page, or see `deletion-sync logs`.",
    )  # fmt: skip
    return Standing((notice,), (*judged, f"{FAILURE} {_kind(dry_run)}"))


def _of_summary(home: Home, partition: Partition, summary: Summary) -> Standing:
    """A run that came to its end."""
    _answered(partition)
    failures = _of_outcome(summary)
    # That a dry run went well says nothing of a real one.
    judged = [SERVER_DOWN, f"{FAILURE} {_kind(True)}"] + ([] if summary.dry_run else [f"{FAILURE} {_kind(False)}"])
    if summary.flow == "restore":
        return Standing(tuple(failures), tuple(judged))
    rails, rails_judged = _rails_of(partition, summary)
    plans = _waiting_plan(partition, summary)
    remembered = _remembered(home, partition)
    if summary.outcome in (PLANNED, NOTHING, TRASHED, PARTLY):
        judged.append(PLAN)
    return Standing((*rails, *plans, *remembered, *failures), (*judged, *rails_judged, OFFLOAD, SESSION_EXPIRED))


def _kind(dry_run: bool) -> str:
    return "dry" if dry_run else "real"


def _unanswered(partition: Partition) -> Standing:
    """The server gave no answer: a notice once it has given none for a day, and no run found it well meanwhile."""
    now = clock.naive_now()
    with writing(partition) as con:
        since = no_answer_since(con)
        if since is None or runs(con, "started_at > ?", (since,)):
            since = now
            set_no_answer_since(con, since)
    if now - since < DOWN_AFTER:
        return Standing((), (SERVER_DOWN,))
    notice = Notice(
        SERVER_DOWN, since.isoformat(), "The photo server does not answer",
        f"It has not answered since {since:%Y-%m-%d %H:%M} UTC. Run `deletion-sync verify` to see why.",
    )  # fmt: skip
    return Standing((notice,), (SERVER_DOWN,))


def _answered(partition: Partition) -> None:
    with reading(partition) as con:
        since = no_answer_since(con)
    if since is not None:
        with writing(partition) as con:
            set_no_answer_since(con, None)


def _rails_of(partition: Partition, summary: Summary) -> tuple[list[Notice], list[str]]:
    """The rail that ended the run; and, of a dry run too, what the server says of itself that would end a real one."""
    verdicts: list[Verdict] = []
    judged = [RAIL]
    if summary.outcome == ABORTED:
        verdicts.append(Verdict(summary.rail, summary.notes[0], summary.next_step))
    if summary.flow == "full":
        said = read_json(run_folder(partition, summary.run_id) / RUN_FACTS)["server"]
        clock_only = replace(QUIET, clock_skew_seconds=said["clock_skew_seconds"])
        trash_only = replace(QUIET, trash_enabled=said["trash_enabled"], trash_days=said["trash_days"])
        verdicts += [verdict for verdict in map(evaluate, (clock_only, trash_only)) if not verdict.passed]
        judged.append(RETENTION)
    notices = {notice.mark: notice for notice in (_of_rail(partition, verdict) for verdict in verdicts)}
    return list(notices.values()), judged


def _of_rail(partition: Partition, verdict: Verdict) -> Notice:
    """Told again when a run got through in between, also one that notified of nothing."""
    what, next_step = NAMELESS.get(verdict.rail or "", (verdict.what, verdict.next_step))
    if verdict.rail == "retention":
        return Notice(RETENTION, verdict.what, "The server's trash is not safe to use", f"{what} {next_step}")
    identity = str(verdict.rail)
    if verdict.rail != "clock":  # a dry run gets through that one where a real run does not
        identity = f"{verdict.rail} after {_last_through(partition)}"
    return Notice(RAIL, identity, "A safety rail stopped a run", f"{what} {next_step}")


def _last_through(partition: Partition) -> str:
    """The newest run that no rail and no error ended."""
    marks = ", ".join("?" for _ in (PLANNED, NOTHING, TRASHED))
    with reading(partition) as con:
        found = runs(con, f"rail IS NULL AND flow <> 'restore' AND outcome IN ({marks})", (PLANNED, NOTHING, TRASHED))
    return found[0].run_id if found else "none"


def _waiting_plan(partition: Partition, summary: Summary) -> list[Notice]:
    """A plan that waits for a person, because real runs may not carry out their own."""
    if summary.outcome != PLANNED or summary.digest is None:
        return []
    with reading(partition) as con:
        confirmed = get_fact(con, FIRST_DELETE_CONFIRMED) is not None
    if confirmed and summary.dry_run and settings_file.load(partition).applyScheduledRuns:
        return []
    count = summary.counts["delete"]
    what = f"{count:,} deleted {'photo waits' if count == 1 else 'photos wait'} for you to approve the plan."
    return [
        Notice(PLAN, summary.digest, "A plan waits for your approval", f"{what} Run `deletion-sync plan` to see them.")
    ]


def _remembered(home: Home, partition: Partition) -> list[Notice]:
    """What `status` shows beside: mass offloads (spec, item 14), and a session that has ended."""
    with reading(partition) as con:
        stream_notice = get_fact(con, STREAM_NOTICE) or ""
        many = _many(con)
    notices = [
        Notice(
            OFFLOAD, offload.confirmed_at.isoformat(), "Many photos were deleted at once",
            f"{offload.confirmed:,} deletions were confirmed at once on {offload.confirmed_at:%Y-%m-%d %H:%M} UTC. "
            "To keep all of them on the server: `deletion-sync exclude add --mass-offload`.",
        )
        for offload in (_offloads(home, partition) if many else ())
    ]  # fmt: skip
    if stream_notice.startswith(_SESSION_GONE):
        notices.append(
            Notice(
                SESSION_EXPIRED, "signed out", "The photo server ended the session",
                "Runs list everything by search, which is slower. Sign in again with `deletion-sync login`.",
            )
        )  # fmt: skip
    return notices


def _many(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether there may be a mass offload: what `status` shows takes long to find out for a large library."""
    return con.execute(_MANY, [MASS_OFFLOAD]).fetchone() is not None


def _offloads(home: Home, partition: Partition) -> tuple[Offload, ...]:
    found = overview(home, partition, clock.naive_now()).remembered
    return () if found is None else found.offloads


def _of_outcome(summary: Summary) -> list[Notice]:
    """Photos that the server did not take, in a run that came to its end."""
    if summary.outcome not in (FAILED, PARTLY):
        return []
    what = f"{summary.counts.get('failed', 0):,} photos failed."
    return [_failure(summary.dry_run, summary.outcome, what, "Run `deletion-sync journal show --last` to see them.")]


def _failure(dry_run: bool, identity: str, what: str, next_step: str) -> Notice:
    return Notice(FAILURE, f"{_kind(dry_run)} {identity}", "A run failed", f"{what} {next_step}")
