"""Histories: what a person does to the libraries between runs, and what each run sees of it.

The truth here is kept apart from the model and the engine: it is what the promises are checked against.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from hypothesis import strategies as st

from engine.policy import LocalFacts, Policy
from engine.settings import Strictness
from tests.model.strategies import CHECKSUMS, IDS, INSTANT, NOW, TAKEN
from tests.model.world import Beside, Id, LocalRow, ServerAsset

Kind = Literal["complete", "incomplete", "file", "history_lost"]
Content = tuple[str, str | None]  # a still, and its motion video if it has one
# In the trash of Photos a photo keeps its id; a file that goes into a trash folder, or comes out of it, gets another.
What = Literal[
    "add",
    "edit",
    "revert",
    "delete",
    "move",
    "duplicate",
    "exclude",
    "trash",
    "trash_as_file",
    "restore",
    "restore_as_file",
    "empty_trash",
    "hand_over",
    "bring_back",
]

ids = st.sampled_from(IDS[:3] + IDS[4:5])
contents = st.tuples(st.sampled_from(CHECKSUMS[:4]), st.none() | st.none() | st.sampled_from(CHECKSUMS[3:]))


@dataclass(frozen=True, slots=True)
class Change:
    """One act of a person. ``other`` is a second local id, ``content`` a still with a motion video or without."""

    what: What
    id: Id
    other: Id
    content: Content


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
    """What is really so: every photo, those in the trash, those that others may delete now, the first content of
    each, the server's copies, what runs trashed there, and the exclusions."""

    now: datetime = NOW
    photos: dict[Id, Content] = field(default_factory=dict)
    trash: dict[Id, Content] = field(default_factory=dict)
    withheld: dict[Id, Content] = field(default_factory=dict)
    originals: dict[Id, Content] = field(default_factory=dict)
    server: dict[str, ServerAsset] = field(default_factory=dict)
    trashed_here: dict[str, datetime] = field(default_factory=dict)
    exclusions: dict[str, datetime] = field(default_factory=dict)

    def copy(self) -> Truth:
        """As it is now, whatever comes."""
        return replace(self, **{each.name: copy(getattr(self, each.name)) for each in fields(self)})

    def apply(self, change: Change) -> None:
        """One act. What cannot be done (no such photo, the id is taken) does nothing."""
        match change.what:
            case "add" if self._free(change.id):
                self._put(change.id, change.content)
            case "edit" if change.id in self.photos:
                self.photos[change.id] = change.content
            case "revert" if change.id in self.photos:
                self.photos[change.id] = self.originals[change.id]
            case "delete":
                self.photos.pop(change.id, None)
            case "move" if change.id in self.photos and self._free(change.other):
                self._put(change.other, self.photos.pop(change.id))
            case "duplicate" if change.id in self.photos and self._free(change.other):
                self._put(change.other, self.photos[change.id])
            case "trash" if change.id in self.photos:
                self.trash[change.id] = self.photos.pop(change.id)
            case "trash_as_file" if change.id in self.photos and self._free(change.other):
                self._put(change.other, self.photos.pop(change.id), self.trash)
            case "restore" if change.id in self.trash:
                self.photos[change.id] = self.trash.pop(change.id)
            case "restore_as_file" if change.id in self.trash and self._free(change.other):
                self._put(change.other, self.trash.pop(change.id))
            case "empty_trash":
                self.trash.clear()
            case "hand_over" if change.id in self.photos:
                self.withheld[change.id] = self.photos.pop(change.id)
            case "exclude":
                self.exclusions[change.content[0]] = self.now
            case "bring_back":
                self.server = {i: replace(asset, is_trashed=False) for i, asset in self.server.items()}
            case _:
                pass

    def _free(self, local_id: Id) -> bool:
        return local_id not in self.photos.keys() | self.trash.keys() | self.withheld.keys()

    def _put(self, local_id: Id, content: Content, place: dict[Id, Content] | None = None) -> None:
        (self.photos if place is None else place)[local_id] = content
        self.originals[local_id] = content

    def trash_on_server(self, asset_ids: set[str]) -> None:
        """What applying a plan does, there and in the journal."""
        for asset_id in asset_ids:
            asset = self.server[asset_id]
            self.server[asset_id] = replace(asset, is_trashed=True)
            self.trashed_here[asset.checksum] = self.now

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
        for local_id, content in (*self.photos.items(), *self.trash.items()):
            if a_round.kind == "incomplete" and local_id in a_round.unseen:
                continue
            for part, checksum in zip(("primary", "motion"), content, strict=True):
                if checksum is not None:
                    hidden = a_round.kind == "incomplete" and (local_id, part) in a_round.unhashed
                    # A name of its own for each id: the guard of line 8 is tested elsewhere and would hide much here.
                    name = f"{'-'.join(local_id)}.jpg"
                    lies = local_id in self.trash
                    rows.append(LocalRow(*local_id, part, None if hidden else checksum, name, TAKEN, in_trash=lies))
        return tuple(rows)

    def beside(self) -> Beside:
        """What the run of this round is told beside its rows."""
        return Beside(frozenset(self.withheld), dict(self.trashed_here))


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
    st.sampled_from([*get_args(What), "add", "add", "edit", "delete", "trash", "trash_as_file"]),
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
