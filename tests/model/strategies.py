"""Random worlds for the model and the engine. The alphabets are small, so that things collide.

Nothing here knows a rule; the moments are chosen around the boundaries that the rules have.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from engine.policy import LocalFacts, Loss, Policy, RailFacts
from engine.settings import Strictness
from tests.model.world import (
    Beside,
    Confirmed,
    Id,
    LocalRow,
    Observed,
    Remembered,
    Retired,
    Scene,
    ServerAsset,
    State,
)

NOW = datetime(2026, 1, 31, 12, 0, 0)  # noqa: DTZ001 - the state's timestamps carry no zone
TAKEN = datetime(2025, 7, 1, 9, 30, 0)  # noqa: DTZ001
INSTANT = timedelta(microseconds=1)

CHECKSUMS = [letter * 27 + "=" for letter in "ABCDEF"]
IDS: list[Id] = [(library, local_id) for library in ("L1", "L2") for local_id in ("1", "2", "3", "4")]
ALBUMS = ["x", "y"]
ASSETS = ["s1", "s2", "s3", "s4", "s5", "s6"]
NAMES = ["a.jpg", "A.JPG", "b.heic", "É.jpg", "é.JPG"]

checksums = st.sampled_from(CHECKSUMS)
names = st.sampled_from(NAMES)
albums = st.frozensets(st.sampled_from(ALBUMS))
quarantine_days = st.sampled_from([0, 1, 14, 90]) | st.sampled_from([1, 14]) | st.integers(0, 90)
# Half of the remembered moments lie an instant around the end of a usual quarantine.
moments = st.builds(
    lambda days, instants: NOW - timedelta(days=days) + instants * INSTANT,
    st.sampled_from([0, 1, 14, 90]),
    st.sampled_from([-1, 0, 0, 1]),
).filter(lambda moment: moment <= NOW)
captured = st.none() | st.builds(
    lambda seconds, part: TAKEN + timedelta(seconds=seconds, microseconds=part),
    st.integers(0, 4),
    st.sampled_from([0, 1, 999_999]),
)
strictness = st.sampled_from(Strictness)
known_names = st.frozensets(st.tuples(checksums, names), max_size=6)


@st.composite
def local_rows(draw: st.DrawFn, *, unhashed: bool = False) -> tuple[LocalRow, ...]:
    """Rows of up to six local ids, some of them Live Photos, some of them in the trash, whole or in part; with
    ``unhashed`` some without a checksum."""
    rows = []
    content = checksums | st.none() if unhashed else checksums
    for library_id, local_id in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=6)):
        name, taken, tags = draw(names), draw(captured), draw(albums)
        trash = draw(st.sampled_from(["outside"] * 4 + ["inside", "part"]))
        for part in ("primary", "motion") if draw(st.integers(0, 2)) == 0 else ("primary",):
            size = draw(st.integers(1, 2))
            lies = trash == "inside" or (trash == "part" and draw(st.booleans()))
            rows.append(LocalRow(library_id, local_id, part, draw(content), name, taken, tags, size, lies))
    return tuple(rows)


def confirmations() -> st.SearchStrategy[Confirmed]:
    return st.builds(Confirmed, moments, st.sampled_from(["deleted", "retired", "limbo"]))


@st.composite
def states(draw: st.DrawFn) -> State:
    """What a partition may remember, likely or not; but what is confirmed is never also noted as retired."""
    confirmed = draw(st.dictionaries(checksums, confirmations(), max_size=3))
    note = st.builds(
        lambda c, i, run: Retired(c, i[0], i[1], run),
        checksums,
        st.sampled_from(IDS),
        st.sampled_from(["run-0", "run-1"]),
    )
    return State(
        observed=draw(st.dictionaries(checksums, st.builds(Observed, albums, moments))),
        confirmed=confirmed,
        anchors=draw(st.dictionaries(st.sampled_from(IDS), st.frozensets(checksums, min_size=1, max_size=2))),
        retired=frozenset(r for r in draw(st.frozensets(note, max_size=3)) if r.checksum not in confirmed),
        exclusions=draw(st.dictionaries(checksums, moments, max_size=2)),
        detached=draw(st.frozensets(checksums, max_size=2)),
        index=frozenset(draw(local_rows())),
        file_only=draw(st.frozensets(checksums, max_size=2)),
    )


@st.composite
def local_facts(draw: st.DrawFn) -> LocalFacts:
    """Facts of the run 'run-1', which may be a second try of a run that noted retirements already."""
    return LocalFacts(
        run_id="run-1",
        now=NOW,
        complete=draw(st.integers(0, 3)) > 0,
        change_log=draw(st.integers(0, 4)) > 0,
        history_lost=draw(st.integers(0, 4)) == 0,
        strictness=draw(strictness),
    )


@st.composite
def rows_after(draw: st.DrawFn, index: frozenset[LocalRow], *, unhashed: bool) -> tuple[LocalRow, ...]:
    """What a run may see after the one that left this index: ids that stay, vanish, move (some to several new ids), are
    edited, go into the trash under their own id or another, whole or in part, and come out of it."""
    by_id: dict[Id, list[LocalRow]] = {}
    for row in sorted(index, key=lambda row: (*row.id, row.part)):
        by_id.setdefault(row.id, []).append(row)
    free = [local_id for local_id in IDS if local_id not in by_id]
    rows = []
    for local_id, parts in by_id.items():
        act = draw(
            st.sampled_from(["stay", "trash", "trash", "restore", "part", "edit", "gone", "move", "move", "copy"])
        )
        places = [] if act == "gone" else [local_id]
        if act in ("move", "copy"):
            places, free = free[: 1 + (act == "copy")], free[1 + (act == "copy") :]
        for library_id, name in places:
            into = {"trash": True, "restore": False}.get(act)
            if act in ("move", "copy", "edit"):
                into = draw(st.booleans())
            for row in parts:
                lies = draw(st.booleans()) if act == "part" else row.in_trash if into is None else into
                content = draw(checksums) if act == "edit" else row.checksum
                if unhashed and draw(st.integers(0, 3)) == 0:
                    content = None
                rows.append(replace(row, library_id=library_id, local_id=name, checksum=content, in_trash=lies))
    return tuple(rows)


# Mostly nothing lies beside; the moments of what was trashed collide with those of the confirmations.
besides = st.builds(
    Beside,
    st.just(frozenset()) | st.frozensets(st.sampled_from(IDS), max_size=2),
    st.just({}) | st.dictionaries(checksums, moments, max_size=2),
)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A run of any state: half of them see what the index can turn into; only an incomplete one has rows without a
    checksum."""
    state, facts = draw(states()), draw(local_facts())
    unhashed = not facts.complete
    rows = draw(rows_after(state.index, unhashed=unhashed) | local_rows(unhashed=unhashed))
    return Scene(state, facts, rows, draw(besides))


@st.composite
def remembered(draw: st.DrawFn) -> Remembered:
    """What may be remembered of a checksum. Most are observed; a checksum has at most a few marks."""
    confirmed = draw(st.none() | confirmations())
    return Remembered(
        observed=draw(st.integers(0, 6)) > 0,
        albums=draw(albums),
        confirmed_at=confirmed.at if confirmed else None,
        cause=confirmed.cause if confirmed else None,
        excluded_at=draw(st.none() | st.none() | st.none() | moments),
        anchored=draw(st.integers(0, 9)) == 0,
        retired=confirmed is None and draw(st.integers(0, 3)) == 0,
        detached=draw(st.integers(0, 9)) == 0,
        indexed=draw(st.integers(0, 4)) == 0,
        names=frozenset(name.lower() for name in draw(st.frozensets(names, max_size=2))),
    )


memories = st.dictionaries(checksums, remembered())


@st.composite
def servers(draw: st.DrawFn) -> tuple[ServerAsset, ...]:
    """Up to six assets: links that are shared, dangling, to themselves, to trashed and to foreign ends."""
    assets = []
    for asset_id in draw(st.lists(st.sampled_from(ASSETS), unique=True, max_size=6)):
        assets.append(
            ServerAsset(
                asset_id,
                draw(checksums),
                owner_id=draw(st.sampled_from(["me"] * 7 + ["partner"])),
                file_name=draw(names),
                live_photo_video_id=draw(st.none() | st.sampled_from([*ASSETS, "gone"])),
                visibility=draw(st.sampled_from(["timeline"] * 4 + ["hidden", "hidden", "archive", "locked"])),
                is_trashed=draw(st.integers(0, 4)) == 0,
                library_id=draw(st.sampled_from([None] * 6 + ["external"])),
                captured_at=draw(captured),
                local_captured_at=draw(captured),
            )
        )
    return tuple(assets)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    scope = st.none() | st.none() | st.frozensets(st.sampled_from(ALBUMS)).map(lambda chosen: tuple(sorted(chosen)))
    return Policy(
        user_id="me",
        now=NOW,
        strictness=draw(strictness),
        quarantine_days=draw(quarantine_days),
        selected_albums=draw(scope),
        include_external=draw(st.booleans()),
        change_log=draw(st.integers(0, 4)) > 0,
        history_lost=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def losses(draw: st.DrawFn) -> Loss:
    """Losses around the floor of the rail, the half, and what a person accepted."""
    lost = draw(st.sampled_from([0, 5, 6, 7]))
    accepted = draw(st.sampled_from([0, max(0, lost - 1), lost]))
    return Loss("L1", draw(st.integers(max(lost, 2 * lost - 1), 2 * lost + 1)), lost, accepted)


@st.composite
def rail_facts(draw: st.DrawFn) -> RailFacts:
    """Facts around every boundary; half of them trip nothing before the threshold."""
    matched = draw(st.sampled_from([0, 1, 99, 100, 101, 500, 1000, 10_000]))
    percent = draw(st.sampled_from([0.01, 0.07, 0.57, 1, 1.1, 2.5, 50, 100]))
    floor = draw(st.sampled_from([0, 5, 1000]))
    around = st.sampled_from([floor, int(percent * matched / 100)]).flatmap(lambda n: st.integers(max(0, n - 1), n + 2))
    quiet = RailFacts(
        real=draw(st.booleans()),
        access_problems=(),
        inventory_problems=(),
        local_count=1,
        losses=draw(st.just(()) | st.lists(losses(), max_size=2).map(tuple)),
        clock_skew_seconds=draw(st.none() | st.sampled_from([0.0, 86_400.0, -86_400.0])),
        server_count=1,
        last_server_count=draw(st.sampled_from([None, 0, 1])),
        trash_enabled=True,
        trash_days=draw(st.sampled_from([30, 7])),
        to_trash=draw(around),
        matched=matched,
        threshold_percent=percent,
        threshold_floor=floor,
    )
    troubles: list[dict[str, Any]] = [
        {"access_problems": ("the folder is gone",)},
        {"inventory_problems": ("a file vanished",)},
        {"local_count": 0},
        {"losses": (Loss("L1", 11, 6, 0),)},
        {"clock_skew_seconds": 86_400.5},
        {"clock_skew_seconds": -86_401.0},
        {"server_count": 0},
        {"trash_enabled": False},
        {"trash_days": 6},
    ]
    for trouble in draw(st.just([]) | st.lists(st.sampled_from(troubles), max_size=3)):
        quiet = replace(quiet, **trouble)
    return quiet
