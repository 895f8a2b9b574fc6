"""Histories: what a person does to the libraries between runs, and what each run sees of it.

The truth here is kept apart from the model and the engine: it is what the promises are checked against.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from hypothesis import strategies as st

from engine.policy import LocalFacts, Policy
from engine.settings import Strictness
from tests.model.strategies import CHECKSUMS, IDS, INSTANT, NOW, TAKEN
from tests.model.world import Id, LocalRow, ServerAsset

Kind = Literal["complete", "incomplete", "file", "history_lost"]

ids = st.sampled_from(IDS[:3] + IDS[4:5])
contents = st.tuples(st.sampled_from(CHECKSUMS[:4]), st.none() | st.none() | st.sampled_from(CHECKSUMS[3:]))


@dataclass(frozen=True, slots=True)
class Change:
    """One act of a person. ``other`` is a second local id, ``content`` a still with a motion video or without."""

    what: Literal["add", "edit", "revert", "delete", "move", "duplicate", "exclude"]
    id: Id
    other: Id
    content: tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Round:
    """Some changes, then a wait, then a run. ``unseen`` and ``unhashed`` matter for an incomplete run alone."""

    changes: tuple[Change, ...]
    wait: timedelta
    kind: Kind
    unseen: frozenset[Id]
    unhashed: frozenset[tuple[Id, str]]
    applied: bool


@dataclass(frozen=True, slots=True)
class History:
    """Two to six rounds under one policy. ``policy.now`` is where the clock starts."""

    policy: Policy
    rounds: tuple[Round, ...]


@dataclass(slots=True)
class Truth:
    """What is really so: every photo, its first content, the server's copies, and the exclusions."""

    now: datetime = NOW
    photos: dict[Id, tuple[str, str | None]] = field(default_factory=dict)
    originals: dict[Id, tuple[str, str | None]] = field(default_factory=dict)
    server: dict[str, ServerAsset] = field(default_factory=dict)
    exclusions: dict[str, datetime] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        held = self.photos.get(change.id)
        if change.what == "add" and held is None:
            self._put(change.id, change.content)
        elif change.what == "exclude":
            self.exclusions[change.content[0]] = self.now
        elif held is None:
            return
        elif change.what == "edit":
            self.photos[change.id] = change.content
        elif change.what == "revert":
            self.photos[change.id] = self.originals[change.id]
        elif change.what == "delete":
            del self.photos[change.id]
        elif change.other not in self.photos:
            self._put(change.other, held)
            if change.what == "move":
                del self.photos[change.id]

    def _put(self, local_id: Id, content: tuple[str, str | None]) -> None:
        self.photos[local_id] = self.originals[local_id] = content

    def upload(self) -> None:
        """The uploader's part: every photo that the server does not hold goes there, a motion video hidden."""
        for still, motion in self.photos.values():
            if motion is not None:
                self._store(ServerAsset(f"s-{motion[0]}", motion, visibility="hidden"))
            self._store(ServerAsset(f"s-{still[0]}", still, live_photo_video_id=f"s-{motion[0]}" if motion else None))

    def _store(self, asset: ServerAsset) -> None:
        self.server.setdefault(asset.asset_id, asset)

    def rows(self, a_round: Round) -> tuple[LocalRow, ...]:
        """What the run of this round sees."""
        if a_round.kind == "file":
            listed = {c for i, parts in self.photos.items() if i not in a_round.unseen for c in parts if c is not None}
            return tuple(LocalRow("file", c, "primary", c, "") for c in sorted(listed))
        rows = []
        for local_id, content in self.photos.items():
            if a_round.kind == "incomplete" and local_id in a_round.unseen:
                continue
            for part, checksum in zip(("primary", "motion"), content, strict=True):
                if checksum is not None:
                    hidden = a_round.kind == "incomplete" and (local_id, part) in a_round.unhashed
                    # A name of its own for each id: the guard of line 8 is tested elsewhere and would hide much here.
                    name = f"{'-'.join(local_id)}.jpg"
                    rows.append(LocalRow(*local_id, part, None if hidden else checksum, name, TAKEN))
        return tuple(rows)


def facts_of(a_round: Round, number: int, now: datetime, strictness: Strictness) -> LocalFacts:
    return LocalFacts(
        run_id=f"run-{number}",
        now=now,
        complete=a_round.kind != "incomplete",
        change_log=a_round.kind != "file",
        history_lost=a_round.kind == "history_lost",
        strictness=strictness,
    )


changes = st.builds(
    Change,
    st.sampled_from(["add", "add", "edit", "edit", "revert", "delete", "delete", "move", "duplicate", "exclude"]),
    ids,
    ids,
    contents,
)

waits = st.builds(
    lambda days, instants: days * timedelta(days=1) + instants * INSTANT,
    st.sampled_from([0, 1, 1, 14, 14, 15]),
    st.integers(0, 1),
)

kinds: st.SearchStrategy[Kind] = st.sampled_from(
    ["complete", "complete", "complete", "complete", "complete", "incomplete", "incomplete", "file", "history_lost"]
)

rounds = st.builds(
    Round,
    st.lists(changes, max_size=4).map(tuple),
    waits,
    kinds,
    st.frozensets(ids, max_size=2),
    st.frozensets(st.tuples(ids, st.sampled_from(["primary", "motion"])), max_size=2),
    st.booleans(),
)

histories = st.builds(
    History,
    st.builds(
        Policy,
        st.just("me"),
        st.just(NOW),
        strictness=st.sampled_from(Strictness),
        quarantine_days=st.sampled_from([0, 1, 14, 14]),
    ),
    st.lists(rounds, min_size=2, max_size=6).map(tuple),
)
