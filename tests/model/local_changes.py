"""docs/rules.md, section 1, a second time: plain Python, one function a rule, the simplest code that says it.

Written from that page alone, apart from the engine's SQL. Sections 2 to 5 are in rules.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from engine.policy import LocalFacts
from engine.settings import Strictness
from tests.model.world import NOTHING_BESIDE, Beside, Confirmed, Id, LocalRow, Observed, Remembered, Retired, State


def hashed(rows: Iterable[LocalRow]) -> list[LocalRow]:
    """The rows that section 1 reads: those with a checksum."""
    return [row for row in rows if row.checksum is not None]


def alive_checksums(rows: Iterable[LocalRow]) -> set[str]:
    return {row.checksum for row in rows if row.checksum is not None}


def kept_checksums(rows: Iterable[LocalRow]) -> set[str]:
    """Those that a row outside the trash holds."""
    return alive_checksums(row for row in rows if not row.in_trash)


def ids_outside_the_trash(rows: Iterable[LocalRow]) -> set[Id]:
    """The ids of which a row, hashed or not, lies outside the trash. The other ids are in the trash."""
    return {row.id for row in rows if not row.in_trash}


def checksums_by_id(rows: Iterable[LocalRow]) -> dict[Id, set[str]]:
    found: dict[Id, set[str]] = {}
    for row in rows:
        if row.checksum is not None:
            found.setdefault(row.id, set()).add(row.checksum)
    return found


def parts_by_id(rows: Iterable[LocalRow]) -> dict[Id, frozenset[tuple[str, str]]]:
    return {
        local_id: frozenset((r.part, r.checksum) for r in rows if r.id == local_id and r.checksum is not None)
        for local_id in checksums_by_id(rows)
    }


def living_ids(index: Iterable[LocalRow], rows: Iterable[LocalRow], facts: LocalFacts) -> set[Id]:
    """The ids of the run's rows, hashed or not; the unseen ones too unless the run is complete with a change log."""
    living = {row.id for row in rows}
    if facts.complete and facts.change_log:
        return living
    return living | {row.id for row in index}


def protected_by_anchor(state: State, living: set[Id]) -> set[str]:
    return {checksum for local_id in living for checksum in state.anchors.get(local_id, frozenset())}


def observe(state: State, rows: list[LocalRow], facts: LocalFacts) -> State:
    """Rule 1.1."""
    observed = dict(state.observed)
    for checksum in alive_checksums(rows):
        observed.setdefault(checksum, Observed(frozenset(), facts.now))
    for checksum in kept_checksums(rows):
        holders = [row for row in rows if row.checksum == checksum and not row.in_trash]
        albums = frozenset(album for row in holders for album in row.albums)
        observed[checksum] = replace(observed[checksum], albums=albums)
    return replace(state, observed=observed)


def unconfirm(state: State, rows: list[LocalRow]) -> State:
    """Rule 1.2."""
    kept = kept_checksums(rows)
    return replace(
        state,
        confirmed={c: entry for c, entry in state.confirmed.items() if c not in kept},
        detached=state.detached - kept,
    )


def unconfirm_known_files(state: State, rows: Iterable[LocalRow]) -> State:
    """Rule 1.2, last sentence. Here a file is known by its id and part, and by its size; all have one time."""
    unread = {(row.id, row.part, row.size) for row in rows if row.checksum is None and not row.in_trash}
    known = {row.checksum for row in state.index if (row.id, row.part, row.size) in unread}
    return replace(state, confirmed={c: entry for c, entry in state.confirmed.items() if c not in known})


def unretire(state: State, rows: list[LocalRow]) -> State:
    """The first sentence of rule 1.5."""
    alive = alive_checksums(rows)
    return replace(state, retired=frozenset(r for r in state.retired if r.checksum not in alive))


@dataclass(frozen=True, slots=True)
class Heir:
    """Rule 1.3: ``new`` gained a file that ``old`` gave up, ``before`` and ``now`` by its checksum."""

    old: Id
    new: Id
    before: str
    now: str


def find_heirs(state: State, rows: list[LocalRow], hashed_rows: list[LocalRow]) -> set[Heir]:
    """Rule 1.3. By inode is beyond what these rows can tell."""
    known = checksums_by_id(state.index)
    seen = checksums_by_id(hashed_rows)
    given_up = [row for row in state.index if row.checksum not in seen.get(row.id, set())]
    gained = [row for row in rows if row.checksum not in known.get(row.id, set())]
    found = {row.checksum for row in given_up} & {row.checksum for row in gained}
    return {
        Heir(old.id, new.id, str(old.checksum), str(new.checksum))
        for old in given_up
        for new in gained
        if old.id != new.id
        and (old.checksum == new.checksum or (not {old.checksum, new.checksum} & found and _regrouped(old, new)))
    }


def _regrouped(old: LocalRow, new: LocalRow) -> bool:
    return (
        old.library_id == new.library_id
        and {old.part, new.part} == {"motion", "primary"}
        and old.file_name == new.file_name
    )


def inherit_anchors(state: State, rows: list[LocalRow], heirs: set[Heir], listed: set[Id]) -> State:
    """Rule 1.3: what an heir takes over, and what a new one is anchored to by itself."""
    before, now = checksums_by_id(state.index), checksums_by_id(rows)
    anchors = dict(state.anchors)
    for heir in heirs:
        went_on = {h.before for h in heirs if (h.old, h.new) == (heir.old, heir.new)}
        other_files = before[heir.old] - now[heir.new] - went_on
        taken = set(state.anchors.get(heir.old, frozenset())) - other_files
        if heir.new not in before:
            taken |= now[heir.new] - {h.now for h in heirs if h.new == heir.new and h.old not in listed}
        if taken:
            anchors[heir.new] = anchors.get(heir.new, frozenset()) | taken
    return replace(state, anchors=anchors)


def seed_anchors(state: State, rows: list[LocalRow], living: set[Id]) -> State:
    """Rule 1.4: from the index where it knows the id, else from what the id holds now."""
    before, now = checksums_by_id(state.index), checksums_by_id(rows)
    anchors = dict(state.anchors)
    for local_id in living & (before.keys() | now.keys()):
        if not anchors.get(local_id):
            anchors[local_id] = frozenset(before.get(local_id) or now[local_id])
    return replace(state, anchors=anchors)


def unconfirm_anchors(state: State, outside: set[Id]) -> State:
    """Rule 1.4, second sentence."""
    anchored = protected_by_anchor(state, outside)
    return replace(state, confirmed={c: entry for c, entry in state.confirmed.items() if c not in anchored})


def note_retired(state: State, rows: list[LocalRow], alive: set[str], facts: LocalFacts) -> State:
    """Rule 1.5, second sentence."""
    before, now = checksums_by_id(state.index), checksums_by_id(rows)
    noted = set(state.retired)
    for local_id in before.keys() & now.keys():
        given_up = before[local_id] - now[local_id] - state.anchors.get(local_id, frozenset())
        for checksum in given_up - alive - state.confirmed.keys():
            noted.add(Retired(checksum, *local_id, facts.run_id))
    return replace(state, retired=frozenset(noted))


def confirm(state: State, checksums: set[str], cause: str, facts: LocalFacts) -> State:
    """Confirms what is not confirmed yet (first write wins); what is confirmed is no longer retired."""
    fresh = checksums - state.confirmed.keys()
    return replace(
        state,
        confirmed=state.confirmed | {c: Confirmed(facts.now, cause) for c in fresh},
        retired=frozenset(r for r in state.retired if r.checksum not in checksums),
    )


def confirm_retired(state: State, alive: set[str], anchored: set[str], facts: LocalFacts) -> State:
    """Rule 1.5: entries of earlier runs, unless the checksum is noted again in this one."""
    noted_now = {r.checksum for r in state.retired if r.run_id == facts.run_id}
    earlier = {r.checksum for r in state.retired} - noted_now
    return confirm(state, earlier - alive - anchored, "retired", facts)


def entering_the_trash(state: State, rows: list[LocalRow], heirs: set[Heir], listed: set[Id]) -> set[Id]:
    """Rule 1.6: ids in the trash that were outside at the last run, under their own id or under a vanished one."""
    before = {row.id for row in state.index}
    were_outside = ids_outside_the_trash(state.index)
    from_outside = {heir.new for heir in heirs if heir.old in were_outside - listed and heir.new not in before}
    in_the_trash = {row.id for row in rows} - ids_outside_the_trash(rows)
    return in_the_trash & (were_outside | from_outside)


def confirm_deleted(state: State, rows: list[LocalRow], gone: set[Id], entering: set[Id], facts: LocalFacts) -> State:
    """Rule 1.6."""
    before, now = checksums_by_id(state.index), checksums_by_id(rows)
    lost = set()
    for local_id in gone | entering:
        lost |= before.get(local_id, set()) | now.get(local_id, set()) | state.anchors.get(local_id, frozenset())
    spared = kept_checksums(rows) | protected_by_anchor(state, ids_outside_the_trash(rows))
    state = confirm(state, lost - spared, "deleted", facts)
    return replace(state, anchors={k: v for k, v in state.anchors.items() if k not in gone})


def confirm_limbo(state: State, alive: set[str], anchored: set[str], facts: LocalFacts) -> State:
    """Rule 1.7."""
    known = alive | anchored | state.confirmed.keys() | state.exclusions.keys() | state.detached
    known |= {r.checksum for r in state.retired}
    return confirm(state, state.observed.keys() - known, "limbo", facts)


def replace_index(state: State, rows: list[LocalRow], facts: LocalFacts) -> State:
    """Rule 1.8, and the removal of gone index rows of rules 1.3 and 1.6."""
    if facts.complete:
        return replace(state, index=frozenset(rows))
    seen = {row.id for row in rows}
    outside = ids_outside_the_trash(state.index)
    rows = [replace(row, in_trash=row.in_trash and row.id not in outside) for row in rows]
    return replace(state, index=frozenset(row for row in state.index if row.id not in seen) | frozenset(rows))


def hand_over(state: State, handed_over: frozenset[Id]) -> State:
    """Rule 1.9."""
    held = {row.checksum for row in state.index if row.id in handed_over and row.checksum is not None}
    held |= {r.checksum for r in state.retired if (r.library_id, r.local_id) in handed_over}
    return replace(
        state,
        detached=state.detached | held | protected_by_anchor(state, set(handed_over)),
        index=frozenset(row for row in state.index if row.id not in handed_over),
        anchors={local_id: kept for local_id, kept in state.anchors.items() if local_id not in handed_over},
        retired=frozenset(r for r in state.retired if (r.library_id, r.local_id) not in handed_over),
    )


def note_file_only(state: State, rows: list[LocalRow], facts: LocalFacts) -> State:
    """Rule 1.10."""
    alive = alive_checksums(rows)
    if facts.change_log:
        file_only = state.file_only - alive
        return replace(state, file_only=file_only, detached=state.detached | file_only)
    return replace(
        state,
        detached=state.detached - state.file_only,
        file_only=state.file_only | (alive - state.observed.keys()),
    )


def detach_trashed_here(state: State, alive: set[str], trashed_here: dict[str, datetime]) -> State:
    """Rule 1.11."""
    ours = {
        checksum
        for checksum, at in trashed_here.items()
        if checksum not in alive and not (checksum in state.confirmed and state.confirmed[checksum].at > at)
    }
    return replace(state, detached=state.detached | ours)


def seen_whole(rows: Iterable[LocalRow]) -> list[LocalRow]:
    """The rows of ids without an unhashed row. What is half seen gives nothing up: it keeps its index rows."""
    rows = list(rows)
    unhashed = {row.id for row in rows if row.checksum is None}
    return [row for row in rows if row.id not in unhashed]


def apply_local_changes(
    state: State, all_rows: tuple[LocalRow, ...], facts: LocalFacts, beside: Beside = NOTHING_BESIDE
) -> State:
    """Section 1: the state after a run that saw these rows."""
    rows = hashed(all_rows)
    alive = alive_checksums(rows)
    if facts.change_log:
        state = hand_over(state, beside.handed_over)
    state = note_file_only(state, rows, facts)
    state = unretire(unconfirm(observe(state, rows, facts), rows), rows)
    state = unconfirm_known_files(state, all_rows)
    if facts.change_log:
        state = compare_with_index(state, all_rows, alive, facts)
    return detach_trashed_here(state, alive, beside.trashed_here)


def compare_with_index(state: State, all_rows: tuple[LocalRow, ...], alive: set[str], facts: LocalFacts) -> State:
    """Rules 1.3 to 1.8."""
    whole = seen_whole(all_rows)
    living = living_ids(state.index, all_rows, facts)
    listed = {row.id for row in all_rows}
    heirs = find_heirs(state, whole, hashed(all_rows))
    entering = entering_the_trash(state, whole, heirs, listed)
    state = inherit_anchors(state, whole, heirs, listed)
    state = seed_anchors(state, whole, living)
    state = unconfirm_anchors(state, ids_outside_the_trash(all_rows))
    state = note_retired(state, whole, alive, facts)
    if facts.complete:
        anchored = protected_by_anchor(state, living)
        gone = {row.id for row in state.index} - living
        state = confirm_retired(state, alive, anchored, facts)
        state = confirm_deleted(state, whole, gone, entering, facts)
        if not facts.history_lost and facts.strictness is Strictness.TRUSTING:
            state = confirm_limbo(state, alive, anchored, facts)
    return replace_index(state, whole, facts)


def memory(
    state: State, rows: Iterable[LocalRow], facts: LocalFacts, names: Iterable[tuple[str, str]]
) -> dict[str, Remembered]:
    """What is remembered of each checksum after section 1; checksums of which nothing is remembered are left out."""
    anchored = protected_by_anchor(state, living_ids(state.index, rows, facts))
    retired = {r.checksum for r in state.retired} - state.confirmed.keys()
    indexed = {row.checksum for row in state.index if row.checksum is not None}
    named: dict[str, set[str]] = {}
    for checksum, name in names:
        named.setdefault(checksum, set()).add(name.lower())
    everything = state.observed.keys() | state.confirmed.keys() | state.exclusions.keys()
    everything |= state.detached | anchored | retired | indexed
    found = {}
    for checksum in everything:
        confirmed = state.confirmed.get(checksum)
        found[checksum] = Remembered(
            observed=checksum in state.observed,
            albums=state.observed[checksum].albums if checksum in state.observed else frozenset(),
            confirmed_at=confirmed.at if confirmed else None,
            cause=confirmed.cause if confirmed else None,
            excluded_at=state.exclusions.get(checksum),
            anchored=checksum in anchored,
            retired=checksum in retired,
            detached=checksum in state.detached,
            indexed=checksum in indexed,
            names=frozenset(named.get(checksum, ())),
        )
    return found
