"""docs/rules.md, sections 2 to 5, a second time: plain Python, one function a rule, the simplest code that says it.

Written from that page alone, apart from the engine's SQL. Section 1 is in local_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from engine.policy import Loss, Policy, RailFacts
from engine.settings import Strictness
from tests.model.local_changes import alive_checksums, checksums_by_id, ids_outside_the_trash
from tests.model.world import Decision, Id, LocalRow, Remembered, Scene, ServerAsset

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)

# ---------------------------------------------------------------- 2. Diff, 3. Scope filter


@dataclass(frozen=True, slots=True)
class View:
    """What sections 2 to 4 look at."""

    server: tuple[ServerAsset, ...]
    rows: tuple[LocalRow, ...]
    memory: dict[str, Remembered]
    policy: Policy

    def of(self, checksum: str) -> Remembered:
        return self.memory.get(checksum, Remembered())

    def own(self, asset: ServerAsset) -> bool:
        return asset.owner_id == self.policy.user_id

    def lives(self, checksum: str) -> bool:
        return checksum in alive_checksums(self.rows) or self.of(checksum).anchored


def linking_to(view: View, asset_id: str, *, trashed: bool) -> list[ServerAsset]:
    """The own assets whose live_photo_video_id is this id."""
    return [a for a in view.server if view.own(a) and a.live_photo_video_id == asset_id and a.is_trashed is trashed]


def touchable(view: View, asset: ServerAsset) -> bool:
    """Own, untrashed, not locked, and external only with the setting."""
    external = asset.library_id is not None and not view.policy.include_external
    return view.own(asset) and not asset.is_trashed and asset.visibility != "locked" and not external


def is_candidate(view: View, asset: ServerAsset) -> bool:
    """Section 2."""
    return (
        touchable(view, asset)
        and view.of(asset.checksum).observed
        and not view.lives(asset.checksum)
        and not linking_to(view, asset.asset_id, trashed=False)
    )


def in_scope(view: View, checksum: str) -> bool:
    """Section 3."""
    selected = view.policy.selected_albums
    return selected is None or not view.of(checksum).albums.isdisjoint(selected)


def matched(view: View) -> int:
    """Section 3, matched assets."""
    return sum(touchable(view, a) and view.of(a.checksum).observed and in_scope(view, a.checksum) for a in view.server)


def candidates(view: View) -> list[ServerAsset]:
    return [a for a in view.server if is_candidate(view, a)]


def scoped(view: View) -> list[ServerAsset]:
    return [a for a in candidates(view) if in_scope(view, a.checksum)]


# ---------------------------------------------------------------- 4. Classification


@dataclass(frozen=True, slots=True)
class Line:
    """What the table says: a bucket (or 'dropped') and a reason."""

    bucket: str
    reason: str = ""
    due_at: datetime | None = None
    days_left: int | None = None


def whole_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def alive_under_another_checksum(view: View, asset: ServerAsset) -> bool:
    names = {asset.file_name.lower()} | view.of(asset.checksum).names
    seconds = [whole_second(t) for t in (asset.captured_at, asset.local_captured_at) if t is not None]
    return any(
        row.file_name.lower() in names
        and row.captured_at is not None
        and any(abs(whole_second(row.captured_at) - second) <= SECOND for second in seconds)
        for row in view.rows
    )


def excluded_line(known: Remembered) -> Line | None:
    """Lines 1 and 2."""
    if known.excluded_at is None:
        return None
    if known.confirmed_at is not None and known.confirmed_at > known.excluded_at:
        return Line("review", "deleted_again")
    return Line("dropped")


def held_line(known: Remembered, policy: Policy) -> Line | None:
    """Lines 6 and 7."""
    if known.confirmed_at is None:
        return Line("held", "retired_edit", None, policy.quarantine_days + 1) if known.retired else None
    due_at = known.confirmed_at + policy.quarantine_days * DAY
    if due_at > policy.now:
        return Line("held", "quarantine", due_at, max(1, ceil((due_at - policy.now) / DAY)))
    return None


def last_line(known: Remembered, policy: Policy) -> Line:
    """Lines 9 to 11."""
    if known.confirmed_at is not None:
        return Line("delete", "confirmed")
    return Line("delete" if policy.strictness is Strictness.TRUSTING else "review", "unconfirmed")


def table_line(view: View, asset: ServerAsset) -> Line:
    """The whole table, for a candidate."""
    known, policy = view.of(asset.checksum), view.policy
    first = excluded_line(known)
    if first:
        return first
    if policy.history_lost:
        return Line("review", "history_lost")
    if known.detached:
        return Line("review", "not_vouched_for")
    if not policy.change_log and known.indexed:
        return Line("review", "in_other_library")
    held = held_line(known, policy)
    if held:
        return held
    if known.cause != "retired" and alive_under_another_checksum(view, asset):
        return Line("review", "alive_under_another_checksum")
    return last_line(known, policy)


def motion_line(view: View, checksum: str) -> Line:
    """Lines 1, 2, 4, 6, 7, 9, 10 and 11, for a linked motion video."""
    known = view.of(checksum)
    detached = Line("review", "not_vouched_for") if known.detached else None
    return excluded_line(known) or detached or held_line(known, view.policy) or last_line(known, view.policy)


def is_orphan_motion(view: View, asset: ServerAsset) -> bool:
    return asset.visibility == "hidden" and not linking_to(view, asset.asset_id, trashed=True)


def is_shared(view: View, still: ServerAsset, deleted: set[str]) -> bool:
    """Whether another own, untrashed asset that stays links to the still's motion video."""
    video = still.live_photo_video_id
    assert video is not None
    return any(a.asset_id not in deleted | {still.asset_id} for a in linking_to(view, video, trashed=False))


def pair(view: View, still: ServerAsset, line: Line, deleted: set[str]) -> Decision:
    """The pair rules, for a candidate that the table puts in delete."""
    alone = Decision(still.asset_id, still.checksum, "delete", line.reason)
    video_id = still.live_photo_video_id
    if video_id is None or is_shared(view, still, deleted):
        return alone
    video = next((a for a in view.server if a.asset_id == video_id), None)
    if video is None:
        return replace(alone, motion_id=video_id)
    if video.is_trashed:
        return alone
    if not touchable(view, video):
        return replace(alone, bucket="review", reason="motion_foreign")
    if view.lives(video.checksum):
        return replace(alone, bucket="review", reason="motion_alive")
    together = replace(alone, motion_id=video_id, motion_checksum=video.checksum)
    known = view.of(video.checksum)
    if not known.observed and known.excluded_at is None:
        return together
    verdict = motion_line(view, video.checksum)
    if verdict.bucket == "delete":
        return together
    if verdict.bucket == "dropped":
        return replace(alone, bucket="review", reason="motion_excluded")
    return replace(
        alone, bucket=verdict.bucket, reason=verdict.reason, due_at=verdict.due_at, days_left=verdict.days_left
    )


def decide(view: View) -> list[Decision]:
    """Section 4: one decision for each candidate in scope that is not dropped."""
    lines = {asset.asset_id: table_line(view, asset) for asset in scoped(view)}
    orphans = {a.asset_id for a in scoped(view) if lines[a.asset_id].bucket == "delete" and is_orphan_motion(view, a)}
    # An orphan motion stays, so whatever it links to is still in use.
    deleted = {asset_id for asset_id, line in lines.items() if line.bucket == "delete"} - orphans
    decisions = []
    for asset in scoped(view):
        line = lines[asset.asset_id]
        if asset.asset_id in orphans:
            decisions.append(Decision(asset.asset_id, asset.checksum, "review", "orphan_motion"))
        elif line.bucket == "delete":
            decisions.append(pair(view, asset, line, deleted))
        elif line.bucket != "dropped":
            decisions.append(
                Decision(asset.asset_id, asset.checksum, line.bucket, line.reason, line.due_at, line.days_left)
            )
    return decisions


# ---------------------------------------------------------------- 5. Rails


def to_trash(decisions: Iterable[Decision]) -> set[str]:
    """The distinct ids of the delete bucket, linked motion videos included."""
    deleted = [d for d in decisions if d.bucket == "delete"]
    return {d.asset_id for d in deleted} | {d.motion_id for d in deleted if d.motion_id is not None}


def losses(scene: Scene, accepted: set[Id]) -> tuple[Loss, ...]:
    """Section 5, what the rail `collapse` counts, of each library that lost anything."""
    alive = alive_checksums(scene.rows)
    before = checksums_by_id(scene.state.index)
    before |= checksums_by_id(row for row in scene.state.index if row.part != "motion")
    held = ids_outside_the_trash(scene.state.index)
    still_there = {row.id for row in scene.rows} | scene.beside.handed_over
    lost = {local_id for local_id in held - still_there if before[local_id].isdisjoint(alive)}
    return tuple(
        Loss(library, _of(held, library), _of(lost, library), _of(lost & accepted, library))
        for library in sorted({library for library, _ in lost})
    )


def _of(ids: set[Id], library: str) -> int:
    return sum(library_id == library for library_id, _ in ids)


def tripped_rail(facts: RailFacts) -> str | None:
    """Section 5: the first rail that trips."""
    share = Fraction(str(facts.threshold_percent)) * facts.matched
    skew = facts.clock_skew_seconds
    rails = {
        "permission": bool(facts.access_problems),
        "incomplete": bool(facts.inventory_problems),
        "empty_local": facts.local_count == 0,
        "collapse": any(
            loss.lost > 5 and 2 * loss.lost > loss.held and loss.accepted < loss.lost for loss in facts.losses
        ),
        "clock": facts.real if skew is None else abs(skew) > 24 * 3600,
        "empty_server": facts.server_count == 0 and bool(facts.last_server_count),
        "retention": facts.real
        and (not facts.trash_enabled or (facts.trash_days is not None and facts.trash_days < 7)),
        "threshold": facts.to_trash > facts.threshold_floor and 100 * facts.to_trash > share,
    }
    return next((name for name, trips in rails.items() if trips), None)
