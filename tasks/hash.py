"""Step 2, hash: the checksum of every local part, from the hash cache or from its bytes; what has none is deferred."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from engine.deferral import Reason, in_words
from engine.relations import LOCAL as SCHEMA
from library.hash_cluster import cluster_address, connected
from library.hash_file import Outcome
from library.hashing import hash_groups, worth_a_cluster
from library.pairs import pair_by_content
from library.protocol import Library
from state import deferred, hash_cache
from state.home import Home
from tasks import clock, progress
from tasks.context import Context, open_context
from tasks.enumerate import FACTS as ENUMERATE_FACTS
from tasks.files import read_json, relations, write_json, write_table
from tasks.refs import Ref, RunRef
from tasks.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

LOCAL = "local.parquet"
FACTS = "hash.json"
REMEMBERED_TOGETHER = 2000  # parts whose checksums reach the cache in one transaction, if not after
REMEMBERED_AFTER = timedelta(seconds=5)

_MEGABYTE = 1_000_000
_ORDER = [("library_id", "ascending"), ("local_id", "ascending"), ("part", "ascending")]
_TOLD = 1000  # problems that are told one by one; of more, the number
_NAMED = 3  # files that are named for each reason for which they were not tried


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run does not hash; None: no limit. ``retries``: failures after which an unchanged part is left alone."""

    size: int | None = None  # bytes
    budget: timedelta | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class Hashing:
    """How many parts were known, how many were to be read, what could not be (a line each), and how many were deferred
    by reason (engine.deferral.Reason)."""

    known: int
    hashed: int
    problems: list[str]
    deferred: dict[str, int] = field(default_factory=dict)


def hash_parts_of_run(run: RunRef, listing: Ref) -> Ref:
    """Write local.parquet (engine.relations.LOCAL) and hash.json from listing.parquet (spec, item 5.1)."""
    context = open_context(run)
    with relations(context.folder, listing=listing) as con:
        listed = con.sql("FROM listing").to_arrow_table()
    local, facts = with_checksums(context, listed, cluster_address(os.environ))
    listing_facts = read_json(context.folder / ENUMERATE_FACTS)
    if not listing_facts["access_problems"] and not listing_facts["gaps"]:
        deferred.sweep(context.home, listing_facts["tokens"], without_checksum(local))
    write_json(context.folder / FACTS, asdict(facts))
    return write_table(local, context.folder / LOCAL)


def with_checksums(context: Context, listed: pa.Table, cluster: str | None = None) -> tuple[pa.Table, Hashing]:
    """``hash_listing`` of a run, within the limits of its settings and of its request; Live Photos paired by content.

    From here on a part has the local id of the asset that it belongs to. Its library and the hash cache know it by the
    one that it was listed under.
    """
    libraries = context.libraries(with_registered=True)
    local, facts = hash_listing(context.home, libraries, listed, limits_of(context), cluster)
    paired_here = {library_id for library_id, library in libraries.items() if library.pairs_by_content}
    paired = pair_by_content(local, content_ids(context, local), paired_here)
    return paired.local.sort_by(_ORDER) if paired.moved.num_rows else local, facts


def hash_listing(
    home: Home, libraries: Mapping[str, Library], listed: pa.Table, limits: Limits, cluster: str | None = None
) -> tuple[pa.Table, Hashing]:
    """The listing as LOCAL rows; a part that could not be hashed has a null checksum, and is deferred (spec, item 9).

    ``problems`` is empty exactly when every row has a checksum. What was hashed, and what was not, is remembered every
    few seconds: a run that is stopped goes on where it was (lesson 29). ``cluster``: the Dask scheduler whose workers
    read the files where there are many; what they do not read is deferred.
    """
    import pyarrow as pa

    known, wanted = hash_cache.split(home, listed)
    kept_back = _kept_back(home, wanted, limits)
    open_rows: Sequence[int] = range(wanted.num_rows)
    if kept_back:
        open_rows = [row for row in open_rows if row not in kept_back]
    todo = wanted.take(pa.array(open_rows, pa.int64())) if kept_back else wanted
    fresh: list[pa.Table] = []
    problems: list[str] = []
    reasons: dict[int, str] = {row: reason for row, (reason, _) in kept_back.items()}
    _defer(home, wanted, {row: reason for row, (reason, is_new) in kept_back.items() if is_new})
    until = None if limits.budget is None else clock.now() + limits.budget
    done, is_done = 0, bytearray(todo.num_rows)
    with ExitStack() as stack:
        found = stack.enter_context(connected(cluster)) if cluster is not None and worth_a_cluster(todo) else None
        groups = stack.enter_context(
            closing(hash_groups(libraries, todo, enough=lambda: _is_past(until), cluster=found))
        )
        for group in _collected(groups):
            outcomes = {open_rows[row]: outcome for row, outcome in group}
            failed = {row: _reason(wanted, row, problem[0]) for row, (*_, problem) in outcomes.items() if problem}
            hashed = _rows(wanted, {row: outcome for row, outcome in outcomes.items() if row not in failed})
            hash_cache.remember(home, hashed)
            _defer(home, wanted, failed)
            fresh.append(hashed.select(SCHEMA.names))
            reasons |= failed
            problems += [
                f"{wanted['local_id'][row].as_py()}: {problem[1]}" for row, (*_, problem) in outcomes.items() if problem
            ]
            for row, _ in group:
                is_done[row] = 1
            done += len(group)
            progress.report("hash", done, todo.num_rows)
    late = {open_rows[row]: str(Reason.TIME_BUDGET) for row, value in enumerate(is_done) if not value}
    _defer(home, wanted, late)
    reasons |= late
    fresh.append(_rows(wanted, dict.fromkeys(reasons, (None, None, None, None))).select(SCHEMA.names))
    local = pa.concat_tables([known.cast(SCHEMA), *fresh])
    ordered = local.sort_by(_ORDER)
    counts = _counted(reasons.values())
    problems = [*problems[:_TOLD], *([f"and {len(problems) - _TOLD:,} more"] if len(problems) > _TOLD else [])]
    problems += _not_read(wanted, {row: reasons[row] for row in (*kept_back, *late)})
    return ordered, Hashing(known.num_rows, todo.num_rows, problems, counts)


def _is_past(until: datetime | None) -> bool:
    return until is not None and clock.now() >= until


def limits_of(context: Context) -> Limits:
    """The limits of a run: its settings, and the time budget of its request where it has one."""
    settings = context.settings
    seconds = context.facts.get("time_budget_seconds") or settings.hashTimeBudgetSeconds
    return Limits(
        size=settings.hashSizeLimitMB * _MEGABYTE or None,
        budget=timedelta(seconds=seconds) if seconds else None,
        retries=settings.hashRetries or None,
    )


def content_ids(context: Context, local: pa.Table) -> pa.Table:
    """``library_id``, ``local_id``, ``part`` and ``content_id`` (or null) of every LOCAL row of a run."""
    return hash_cache.content_ids(context.home, local)


def without_checksum(local: pa.Table) -> pa.Table:
    """The rows that wait for one."""
    import pyarrow.compute as pc

    return local.filter(pc.is_null(local["checksum"]))


def notes(facts: Mapping[str, object]) -> tuple[str, ...]:
    """What a run's summary says of deferred parts, from hash.json; nothing where there are none."""
    counts = facts.get("deferred")
    if not isinstance(counts, dict) or not counts:
        return ()
    total = sum(counts.values())
    words = "; ".join(f"{count:,} {in_words(reason)}" for reason, count in sorted(counts.items()))
    return (
        f"{total:,} {'file has' if total == 1 else 'files have'} no checksum yet ({words}). Until then nothing is "
        "trashed and no clock starts: `deletion-sync library hash-now`.",
    )


def _kept_back(home: Home, wanted: pa.Table, limits: Limits) -> dict[int, tuple[str, bool]]:
    """Row numbers that are not to be read: why, and whether the store is to be told."""
    found: dict[int, tuple[str, bool]] = {}
    if limits.retries is not None and wanted.num_rows:
        left_alone = deferred.given_up(home, wanted, limits.retries).to_pylist()
        reasons = {(row["library_id"], row["local_id"], row["part"]): row["reason"] for row in left_alone}
        if reasons:
            keys = zip(*(wanted[name].to_pylist() for name in ("library_id", "local_id", "part")), strict=True)
            found = {number: (reasons[key], False) for number, key in enumerate(keys) if key in reasons}
    if limits.size is not None:
        for number, size in enumerate(wanted["size"].to_pylist()):
            if size is not None and size > limits.size:
                found[number] = (str(Reason.TOO_LARGE), True)
    return found


def _not_read(wanted: pa.Table, reasons: Mapping[int, str]) -> list[str]:
    """A line per reason: how many parts were not tried, and the first of them by name."""
    lines = []
    for reason, count in _counted(reasons.values()).items():
        names = [wanted["local_id"][row].as_py() for row, why in reasons.items() if why == reason][:_NAMED]
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        lines.append(f"{count:,} not read, {in_words(reason)}: {', '.join(names)}{more}")
    return lines


def _reason(wanted: pa.Table, row: int, code: str) -> str:
    """A part that was listed with neither size nor date is not here, whatever the attempt to open it said."""
    absent = wanted["size"][row].as_py() is None and wanted["modified_ns"][row].as_py() is None
    return str(Reason.NOT_ON_THIS_COMPUTER) if absent else code


def _collected(groups: Iterable[list[tuple[int, Outcome]]]) -> Iterator[list[tuple[int, Outcome]]]:
    """Small groups as large ones, each handed on after a few seconds at the latest."""
    collected: list[tuple[int, Outcome]] = []
    since = clock.now()
    for group in groups:
        collected += group
        if len(collected) >= REMEMBERED_TOGETHER or clock.now() - since >= REMEMBERED_AFTER:
            yield collected
            collected, since = [], clock.now()
    if collected:
        yield collected


def _rows(wanted: pa.Table, outcomes: Mapping[int, Outcome]) -> pa.Table:
    """LOCAL rows and their ``content_id``: what the listing says of each part, and what its bytes say."""
    import pyarrow as pa

    listed = wanted.take(pa.array(list(outcomes), pa.int64()))
    told = {"checksum": 0, "captured_at": 1, "content_id": 2}
    columns = {
        name: pa.array(
            [outcome[place] for outcome in outcomes.values()],
            pa.string() if name == "content_id" else SCHEMA.field(name).type,
        )
        for name, place in told.items()
    }
    names = [*SCHEMA.names, "content_id"]
    return pa.table({name: columns.get(name, listed[name] if name not in told else None) for name in names})


def _defer(home: Home, wanted: pa.Table, reasons: Mapping[int, str]) -> None:
    import pyarrow as pa

    if reasons:
        rows = wanted.take(pa.array(list(reasons), pa.int64()))
        deferred.record(home, rows.append_column("reason", pa.array(list(reasons.values()))), clock.naive_now())


def _counted(reasons: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return counts


STEP = Step("hash", hash_parts_of_run, retries=1)
