"""What is said of one asset: a line per rule, in the order of docs/rules.md.

The facts come from explain.py, the verdicts from the run's own relations. No rule is decided here; the sentence at
the end is in explain_ending.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import SimpleNamespace

from engine.policy import Bucket, Policy, Verdict


class Says(StrEnum):
    """What one rule says of an asset, taken by itself."""

    GOES = "goes"
    STAYS = "stays"
    WAITS = "waits"
    REVIEW = "review"
    SILENT = "-"  # the rule was not asked, or its answer is not known


@dataclass(frozen=True, slots=True)
class Line:
    """One rule's verdict. ``text`` holds names as they are: whoever shows it neutralises control characters."""

    rule: str
    says: Says
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All lines about one asset, or about a checksum that the server has no asset of (``asset_id`` is None).

    ``bucket`` and ``reason`` are those of the decision, for a linked motion video its still's; None where there is
    none. ``conclusion`` is one sentence: what will happen, and what the user can do.
    """

    asset_id: str | None
    checksum: str | None
    file_name: str
    bucket: str | None
    reason: str | None
    lines: tuple[Line, ...]
    conclusion: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """How far the run got, beside its relations. ``has`` names the relations that it wrote.

    ``verdict`` is that of the rails, None where they were not reached. ``outcome`` is the word of the run's summary,
    None while there is none. ``sent``: asset ids that were tagged, to be sent to the trash; ``left_out``: asset id to
    why the last look left it out.
    """

    run_id: str
    policy: Policy
    has: frozenset[str]
    verdict: Verdict | None = None
    outcome: str | None = None
    sent: frozenset[str] = frozenset()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def tripped(self) -> Verdict | None:
        """The verdict of the rail that aborted the run, if one did."""
        return None if self.verdict is None or self.verdict.passed else self.verdict


REASONS = {
    "confirmed": "its deletion is confirmed, and its quarantine is over",
    "unconfirmed": "it is gone from the libraries, and nothing confirmed that it was deleted",
    "quarantine": "its quarantine is not over",
    "retired_edit": "it is an earlier edit of a photo that lives, noted and not confirmed yet",
    "deleted_again": "it was deleted again after you protected it",
    "history_lost": "the libraries' history was lost, so nothing tells when it was deleted",
    "not_vouched_for": "no library here tells of its deletion",
    "in_other_library": "a library that this run did not read had it",
    "alive_under_another_checksum": "a photo of its name and capture time is in a library, with other bytes",
    "motion_foreign": "its motion video is not yours to trash",
    "motion_alive": "its motion video is in a library, or is the edit anchor of a photo that is",
    "motion_excluded": "you protected its motion video",
    "orphan_motion": "it is a motion video, and no still on the server explains it",
}
_SAYS = {Bucket.DELETE: Says.GOES, Bucket.REVIEW: Says.REVIEW, Bucket.HELD: Says.WAITS}
_SHOWN = 5


def lines(f: SimpleNamespace, run: RunFacts) -> Iterator[Line]:
    """The lines about one row of engine.explain.FACTS."""
    yield from _on_server(f, run)
    yield from _remembered(f, run)
    yield from _candidate(f, run)
    if f.on_server and "scoped" in run.has:
        for line in _table(f, run):
            yield line if f.scoped else Line(line.rule, Says.SILENT, line.text)
    yield _bucket(f, run)
    yield from of_run(f.asset_id, run)


def _unknown(run: RunFacts, ended: str) -> str:
    """Why a relation is not there: an old run that came to its decisions gave up the copies of its listings."""
    return (
        "Not known any more: the listings of old runs are removed." if "decision" in run.has else f"Not known: {ended}"
    )


def _on_server(f: SimpleNamespace, run: RunFacts) -> Iterator[Line]:
    if "server" not in run.has:
        yield Line("server", Says.SILENT, _unknown(run, "the run ended before it had the server's listing."))
    elif not f.on_server and f.asset_id is None:
        yield Line("server", Says.STAYS, "The server has no asset with this checksum.")
    elif not f.on_server:
        yield Line("server", Says.GOES, f"Not in the listing; “{f.still_name}” links to it, so it is asked for by id.")
    if not f.on_server:
        return
    yield Line("server", Says.GOES, f"On the server as “{f.file_name}” ({(f.type or 'other').lower()}).")
    yield _either("owner", f.owner_id == run.policy.user_id, "Yours.", f"It belongs to another user ({f.owner_id}).")
    yield _either("trash", not f.is_trashed, "Not in the server's trash.", "In the server's trash already.")
    yield _either("visibility", f.visibility != "locked", f"Its visibility is {f.visibility}.", "It is locked.")
    yield _either(
        "external", f.external is None or run.policy.include_external,
        "In no external library of the server." if f.external is None else "External libraries are included.",
        f"It is of the server's external library {f.external}, and includeExternalLibraries is off.",
    )  # fmt: skip


def _remembered(f: SimpleNamespace, run: RunFacts) -> Iterator[Line]:
    if "memory" not in run.has:
        yield Line("observed", Says.SILENT, _unknown(run, "the run ended before it looked at what is remembered."))
    else:
        yield _either(
            "observed",
            f.observed,
            "A local library or a checksums file had it once.",
            "No local library here ever had it.",
        )
    if "local" not in run.has:
        yield Line("alive", Says.SILENT, _unknown(run, "the run ended before the libraries were read."))
    else:
        yield _either("alive", not f.alive, "In no local library now.", f"Alive in {some(f.alive)}.")
    if "memory" in run.has:
        yield _either(
            "anchor", not f.anchored, "No living photo has it as its edit anchor.",
            "The edit anchor (first known version) of a photo that lives, or that was not looked for.",
        )  # fmt: skip


def _candidate(f: SimpleNamespace, run: RunFacts) -> Iterator[Line]:
    stills = [still["name"] for still in f.stills or () if not still["trashed"]]
    if stills:
        text = f"The motion video of {some(stills)}: it goes with its still, never by itself."
        yield Line("linked_motion", Says.STAYS, text)
    elif f.on_server:
        yield Line("linked_motion", Says.GOES, "No untrashed still links to it.")
    if not f.on_server or "candidates" not in run.has:
        return
    yield _either("candidate", f.candidate, "A candidate.", "No candidate, by what says “stays” above.")
    if "scoped" not in run.has:
        return
    selected = run.policy.selected_albums
    text = "The whole library is in scope."
    if selected is not None:
        text = f"In scope: {some(selected) or 'nothing'}. Its albums: {some(f.albums) or 'none'}."
    says = Says.SILENT if not f.candidate else Says.GOES if f.scoped else Says.STAYS
    yield Line("scope", says, text)


def _table(f: SimpleNamespace, run: RunFacts) -> Iterator[Line]:
    """Section 4 of the rules, each line by itself; which of them came first is the bucket's line."""
    policy = run.policy
    if f.excluded_at is None:
        yield Line("excluded", Says.GOES, "You did not protect it.")
    elif f.confirmed_at is not None and f.confirmed_at > f.excluded_at:
        text = f"You protected it on {day(f.excluded_at)}, and it was deleted again after that."
        yield Line("excluded", Says.REVIEW, text)
    else:
        yield Line("excluded", Says.STAYS, f"You protected it on {day(f.excluded_at)}.")
    yield _either(
        "history", not policy.history_lost, "The libraries' history is known.",
        "The libraries' history was lost: every candidate of this run waits for you.", Says.REVIEW,
    )  # fmt: skip
    yield _either(
        "detached", not f.detached, "No removed library had it last.",
        "No library here tells of its deletion: a removed one or a file had it, or it came back.", Says.REVIEW,
    )  # fmt: skip
    if f.indexed_in is None:
        yield Line("index", Says.GOES, "No registered library had it at its last enumeration.")
    else:
        text = f"The library {f.indexed_in} had it at its last enumeration"
        text += "." if policy.change_log else ", and this run read a checksums file alone."
        yield Line("index", Says.GOES if policy.change_log else Says.REVIEW, text)
    yield _either(
        "retired", not f.retired, "No earlier edit that waits to be confirmed.",
        "An earlier edit of a photo that lives: the next complete run confirms it.", Says.WAITS,
    )  # fmt: skip
    yield _confirmed(f, policy)
    if f.elsewhere and f.cause == "retired":
        text = f"Its photo lives in {some(f.elsewhere)}, as is to be expected of an earlier edit."
        yield Line("elsewhere", Says.GOES, text)
    else:
        yield _either(
            "elsewhere", not f.elsewhere, "No local photo has its name and capture time.",
            f"A photo of its name and capture time, with other bytes, is in {some(f.elsewhere)}.", Says.REVIEW,
        )  # fmt: skip
    yield _pair(f, run)


def _confirmed(f: SimpleNamespace, policy: Policy) -> Line:
    if f.confirmed_at is None:
        trusting = policy.strictness == "trusting"
        text = f"Nothing confirmed its deletion; the strictness is {policy.strictness.value}."
        return Line("confirmed", Says.GOES if trusting else Says.REVIEW, text)
    text = f"Confirmed deleted since {day(f.confirmed_at)} (cause: {f.cause}); quarantine until {day(f.due)}"
    if f.due <= policy.now:
        return Line("confirmed", Says.GOES, f"{text}: over.")
    left = f", {days(f.days_left)} left" if f.bucket == Bucket.HELD and f.due_at == f.due else ""
    return Line("confirmed", Says.WAITS, f"{text}{left}.")


def _pair(f: SimpleNamespace, run: RunFacts) -> Line:
    """The linked motion video's word on its still."""
    if f.reason == "orphan_motion":
        return Line("pair", Says.REVIEW, "A hidden motion video, and no trashed still on the server links to it.")
    if f.live_photo_video_id is None:
        return Line("pair", Says.GOES, "It has no motion video.")
    text = f"Its motion video is {f.live_photo_video_id}{_video(f, run)}"
    if f.motion_id is not None:
        return Line("pair", Says.GOES, f"{text}; it goes along.")
    if f.bucket == Bucket.DELETE:
        shared = f"; {some(f.sharing)} keeps it" if f.sharing and not f.video_trashed else ""
        return Line("pair", Says.GOES, f"{text}{shared}; the still goes alone.")
    return Line("pair", _SAYS[f.bucket] if f.bucket and _by_video(f, run) else Says.SILENT, f"{text}.")


def _video(f: SimpleNamespace, run: RunFacts) -> str:
    if f.video_id is None:
        return ", not in the listing"
    facts = [f"“{f.video_name}”"]
    if f.video_trashed:
        facts.append("in the trash already")
    if f.video_owner != run.policy.user_id or f.video_visibility == "locked":
        facts.append("locked, or another user's")
    if f.video_alive:
        facts.append(f"alive in {some(f.video_alive)}")
    if f.video_anchored:
        facts.append("the edit anchor of a living photo")
    if f.video_excluded_at is not None:
        facts.append(f"protected by you on {day(f.video_excluded_at)}")
    if f.video_retired:
        facts.append("an earlier edit, not confirmed yet")
    if f.video_confirmed_at is not None:
        facts.append(f"confirmed deleted since {day(f.video_confirmed_at)}, quarantine until {day(f.video_due)}")
    elif not f.video_observed:
        facts.append("never in a local library")
    return ", " + ", ".join(facts)


def _by_video(f: SimpleNamespace, run: RunFacts) -> bool:
    """Whether the still is where it is because of its motion video: nothing of its own explains the reason."""
    own = {
        "quarantine": f.due is not None and f.due > run.policy.now,
        "retired_edit": f.retired,
        "deleted_again": f.excluded_at is not None,
        "unconfirmed": f.confirmed_at is None,
    }
    return not own.get(f.reason, not f.reason.startswith("motion_"))


def _bucket(f: SimpleNamespace, run: RunFacts) -> Line:
    if "decision" not in run.has:
        return Line("bucket", Says.SILENT, "Not known: the run ended before it classified anything.")
    if f.bucket is not None:
        return Line("bucket", _SAYS[f.bucket], f"{f.bucket} ({f.reason}): {REASONS[f.reason]}.")
    if f.still_id is not None:
        return Line("bucket", Says.GOES, f"It goes along with “{f.still_name}” ({f.still_reason}).")
    if f.scoped:
        return Line("bucket", Says.STAYS, "In none: you protected it.")
    return Line("bucket", Says.SILENT, "In none: only candidates in scope are classified.")


def of_run(asset_id: str | None, run: RunFacts) -> Iterator[Line]:
    """What became of the run, and of this asset in it."""
    if run.verdict is None:
        yield Line("rails", Says.SILENT, "Not known: the run ended before its rails.")
    else:
        stopped = f"The rail {run.verdict.rail} aborted the run: {run.verdict.what}"
        yield _either("rails", run.verdict.passed, "Every rail passed.", stopped)
    text = "The run did not finish." if run.outcome is None else f"The run ended with: {run.outcome}."
    if asset_id is not None and asset_id in run.left_out:
        yield Line("outcome", Says.STAYS, f"{text} It was left out at the last look: {run.left_out[asset_id]}.")
    elif asset_id in run.sent:
        yield Line("outcome", Says.GOES, f"{text} It was tagged, to be sent to the trash.")
    else:
        yield Line("outcome", Says.SILENT, text)


def _either(rule: str, goes: bool, yes: str, no: str, otherwise: Says = Says.STAYS) -> Line:
    return Line(rule, Says.GOES, yes) if goes else Line(rule, otherwise, no)


def some(values: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    shown = "; ".join(values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown}; and {len(values) - _SHOWN} more"


def day(moment: datetime) -> str:
    """A UTC moment, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def days(count: int) -> str:
    """``1 day``, ``2 days``."""
    return f"{count} day{'' if count == 1 else 's'}"
