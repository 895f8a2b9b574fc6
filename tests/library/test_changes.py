"""The difference of two listings: what came, changed, moved, went into a trash or out of it, and went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from library.changes import difference, with_updated, with_withheld
from library.protocol import ENUMERATED
from tests.library.worlds import library_of, put

Told = set[tuple[str, str, str | None]]


def row(
    local_id: str, *, part: str = "primary", size: int = 1, modified: int = 1, inode: int | None = None,
    checksum: str | None = None, in_trash: bool = False, name: str | None = None,
) -> dict[str, object]:  # fmt: skip
    return {
        "library_id": "L",
        "local_id": local_id,
        "part": part,
        "file_name": name or local_id,
        "size": size,
        "modified_ns": modified,
        "file_identity": None if inode is None else f"7:{inode}",
        "albums": [],
        "checksum": checksum,
        "in_trash": in_trash,
    }


def listing(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ENUMERATED)


def told(table: pa.Table) -> Told:
    return {(line["local_id"], line["change"], line["former_id"]) for line in table.to_pylist()}


def between(known: list[dict[str, object]], now: list[dict[str, object]]) -> Told:
    return told(difference(listing(*known), listing(*now)))


def test_what_is_the_same_is_no_change() -> None:
    rows = [row("a", inode=1), row("a", part="motion", inode=2), row("b", inode=3, in_trash=True), row("c")]
    assert between(rows, rows[::-1]) == set()


def test_each_kind_of_change_is_told() -> None:
    known = [row("gone", inode=1), row("edited", inode=2), row("old", inode=3), row("out", inode=4)]
    known += [row("back", inode=5, in_trash=True), row("same", inode=6)]
    now = [row("edited", inode=2, size=2), row("new", inode=3), row("out", inode=4, in_trash=True)]
    now += [row("back", inode=5), row("same", inode=6), row("fresh", inode=7)]
    assert between(known, now) == {
        ("gone", "deleted", None),
        ("edited", "updated", None),
        ("new", "moved", "old"),
        ("out", "trashed", None),
        ("back", "restored", None),
        ("fresh", "inserted", None),
    }


def test_a_file_that_moves_into_a_trash_was_put_there_and_came_from_where_it_was() -> None:
    outside, inside = row("a.jpg", inode=1), row(".Trash-1/a.jpg", inode=1, in_trash=True)
    assert between([outside], [inside]) == {(".Trash-1/a.jpg", "trashed", "a.jpg")}
    assert between([inside], [outside]) == {("a.jpg", "restored", ".Trash-1/a.jpg")}


def test_an_inode_alone_makes_no_move_because_a_new_file_gets_one_that_was_freed() -> None:
    for other in ({"size": 2}, {"modified": 2}):
        known, now = [row("a", inode=1)], [row("b", inode=1, **other)]  # type: ignore[arg-type]
        assert between(known, now) == {("a", "deleted", None), ("b", "inserted", None)}


def test_a_move_to_another_disk_is_known_by_its_bytes_and_bytes_outweigh_the_inode() -> None:
    assert between([row("a", inode=1, checksum="x")], [row("b", inode=9, modified=5, checksum="x")]) == {
        ("b", "moved", "a")
    }
    assert between([row("a", inode=1, checksum="x")], [row("b", inode=1, checksum="y")]) == {
        ("a", "deleted", None),
        ("b", "inserted", None),
    }


def test_among_copies_no_move_is_guessed() -> None:
    known = [row("a", inode=1, checksum="x"), row("b", inode=2, checksum="x")]
    now = [row("c", inode=3, checksum="x")]
    assert between(known, now) == {("a", "deleted", None), ("b", "deleted", None), ("c", "inserted", None)}


def test_a_live_photo_moves_as_one() -> None:
    def live(name: str) -> list[dict[str, object]]:
        return [row(f"{name}.HEIC", inode=1), row(f"{name}.HEIC", part="motion", inode=2, name=f"{name}.MOV")]

    assert between(live("a"), live("b")) == {("b.HEIC", "moved", "a.HEIC")}
    assert between(live("a"), live("a")[:1]) == {("a.HEIC", "updated", None)}


def test_a_motion_video_that_is_counted_elsewhere_is_no_change() -> None:
    still, motion = row("a/1.HEIC", inode=1), row("a/1.HEIC", part="motion", inode=2, name="1.MOV")
    assert between([still, motion], [still, row("b/1.MOV", inode=2, name="1.MOV")]) == set()


def test_another_mount_of_the_same_disk_changes_nothing_and_another_file_of_the_same_time_does() -> None:
    known, moved = listing(row("a", inode=1)), listing({**row("a"), "file_identity": "8:1"})
    assert told(difference(known, moved)) == set()
    assert between([row("a", inode=1)], [row("a", inode=2)]) == {("a", "updated", None)}


def test_what_the_library_holds_still_is_withheld_and_what_it_says_was_touched_is_updated() -> None:
    known, now = listing(row("a"), row("b"), row("c")), listing(row("c"), row("d"))
    changes = difference(known, now)
    assert told(with_withheld(changes, {"a", "c"})) == {
        ("a", "withheld", None),
        ("b", "deleted", None),
        ("d", "inserted", None),
    }
    assert told(with_updated(changes, {"c", "a", "d", "z"}, known, now)) == told(changes) | {("c", "updated", None)}


FILES = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(1, 6), st.integers(1, 2), st.booleans()), max_size=6
).filter(lambda files: len({inode for inode, _, _ in files.values()}) == len(files))


@settings(max_examples=60, deadline=None)
@given(FILES, FILES)
def test_the_changes_lead_from_one_listing_to_the_other(
    known: dict[str, tuple[int, int, bool]], now: dict[str, tuple[int, int, bool]]
) -> None:
    def rows(files: dict[str, tuple[int, int, bool]]) -> list[dict[str, object]]:
        return [row(name, inode=i, size=size, in_trash=trash) for name, (i, size, trash) in files.items()]

    found = between(rows(known), rows(now))
    former = {old or (None if change == "inserted" else name) for name, change, old in found} - {None}
    present = {name for name, change, _ in found if change != "deleted"}
    assert former | (known.keys() & {n for n in known if known[n] == now.get(n)}) == known.keys()
    assert present | {n for n in now if known.get(n) == now[n]} == now.keys()
    assert len(former) == sum(change != "inserted" for _, change, _ in found)


# Hidden is not deleted


def hide_folder(root: Path) -> None:
    (root / "2019").rename(root / ".2019")


def hide_file(root: Path) -> None:
    (root / "2019/Rome/1.jpg").rename(root / "2019/Rome/.1.jpg")


def change_type(root: Path) -> None:
    (root / "2019/Rome/1.jpg").rename(root / "1.jpg_original")


@pytest.mark.parametrize("hide", [hide_folder, hide_file, change_type])
def test_a_photo_under_a_name_that_is_left_out_is_withheld_and_not_deleted(
    tmp_path: Path, hide: Callable[[Path], None]
) -> None:
    put(tmp_path, "2019/Rome/1.jpg", "2020/2.jpg")
    library = library_of(tmp_path)
    before = library.enumerate()
    hide(tmp_path)
    (tmp_path / "2020/2.jpg").unlink()
    after = library.enumerate()
    assert told(library.changes_since(before.token or "", before.table, after.table).table) == {
        ("2019/Rome/1.jpg", "withheld", None),
        ("2020/2.jpg", "deleted", None),
    }


def test_another_file_under_a_freed_inode_does_not_pass_for_a_hidden_photo(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg", "2.jpg")
    library = library_of(tmp_path)
    before = library.enumerate()
    (tmp_path / "1.jpg").rename(tmp_path / "1.txt")
    put(tmp_path, "1.txt", content=b"other bytes, in the file that was the photo")
    after = library.enumerate()
    assert library.changes_since(before.token or "", before.table, after.table).ids("deleted") == {"1.jpg"}
