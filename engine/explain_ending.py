"""The sentence that an explanation ends with: what will happen to the asset, and what the user can do.

It follows from the decision, the run's end, and the first rule that keeps the asset (explain_lines.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from engine.explain_lines import Line, RunFacts, Says, day, days, some
from engine.policy import Bucket

# What to do about an asset that stays, by the first rule that keeps it.
_ADVICE = {
    "server": "there is nothing to move, and nothing to do",
    "owner": "only its owner can trash it",
    "trash": "restore it on the server if you want it back",
    "visibility": "unlock it on the server if it is to follow your libraries",
    "external": "switch includeExternalLibraries on if such assets are to follow your libraries",
    "observed": "trash it on the server yourself if you do not want it",
    "alive": "it is in {alive}; delete it there too if you do not want it",
    "anchor": "it is kept for as long as the edited photo lives",
    "scope": "select one of its albums in indexingScope if it is to follow your libraries",
    "excluded": "`deletion-sync exclude remove {checksum}` lifts the protection",
}


def ending(f: SimpleNamespace, run: RunFacts, lines: Sequence[Line]) -> str:
    """The sentence about one row of engine.explain.FACTS, whose lines are given too."""
    checksum = f.still_checksum or f.checksum
    bucket = f.bucket or f.still_bucket
    keep = f"`deletion-sync exclude add {checksum}` keeps it"
    if bucket == Bucket.DELETE:
        return _going(f, run, keep)
    if bucket == Bucket.HELD:
        if f.due_at is None:
            return (
                f"It waits: the next complete run confirms it, and {days(run.policy.quarantine_days)} later it goes "
                f"to the trash; {keep} for good."
            )
        return (
            f"It waits: a run after {day(f.due_at)} ({days(f.days_left)} left) moves it to the trash, unless the "
            f"photo comes back before; {keep} for good."
        )
    if bucket == Bucket.REVIEW:
        return f"It stays until you decide: trash it on the server yourself, or {keep} for good."
    if "decision" not in run.has:
        if run.tripped is not None:
            return f"Nothing goes: the rail {run.tripped.rail} aborted the run. {run.tripped.next_step}"
        return "Nothing goes: the run ended before it decided anything; start another with `deletion-sync dry-run`."
    stills = [still["name"] for still in f.stills or () if not still["trashed"]]
    if stills:
        return f"It stays as long as its still does: `deletion-sync explain` of {some(stills)} tells why."
    rule = next((line.rule for line in lines if line.says is Says.STAYS and line.rule in _ADVICE), None)
    if rule is None:
        return "It stays: nothing was decided about it."
    return f"It stays: {_ADVICE[rule].format(checksum=checksum, alive=some(f.alive))}."


def _going(f: SimpleNamespace, run: RunFacts, keep: str) -> str:
    asset_id = f.asset_id
    if asset_id in run.left_out:
        return f"It stays for now: at the last look, {run.left_out[asset_id]}; the next run looks again."
    if asset_id in run.sent and run.outcome == "trashed":
        back = f"`deletion-sync restore --run-id {run.run_id} --asset-id {asset_id}`"
        return f"This run moved it to the trash: {back} brings it back."
    if asset_id in run.sent:
        look = f"`deletion-sync journal show --run-id {run.run_id}`"
        return f"This run began to move it to the trash and did not end well: {look} tells what became of it."
    if run.tripped is not None:
        return f"It would go to the trash, but the rail {run.tripped.rail} aborted the run. {run.tripped.next_step}"
    if run.outcome == "planned":
        return f"It goes to the trash when you approve the plan (`deletion-sync trash`); {keep} for good."
    return f"It was to go to the trash, but the run did not get there: the next run decides again; {keep} for good."
