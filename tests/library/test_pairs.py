"""Live Photos are paired by content: over real folders, and against a second telling of the rules in plain Python."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.relations import LOCAL
from library.content_identifier import content_identifier
from library.pairs import MOVED, pair_by_content
from tests.library.live_photo_files import CHUNK, apple_film, apple_note, picture
from tests.library.worlds import library_of, put

IDENTIFIERS = pa.schema([(name, pa.string()) for name in ("library_id", "local_id", "part", "content_id")])
Row = tuple[str, str]
PRIMARY, MOTION = ("primary", "heic"), ("motion", "mov")
STILLS, VIDEOS = (".heic", ".jpg"), (".mov", ".mp4")


def write(root: Path, tree: dict[str, str | None]) -> None:
    """Path to identifier; a path listed with None has none."""
    for name, identifier in tree.items():
        if name.lower().endswith(VIDEOS):
            content = apple_film(identifier or "")
        else:
            content = picture(None if identifier is None else apple_note(identifier))
        put(root, name, content=content + name.encode())


def listed(root: Path, library_id: str = "L") -> tuple[pa.Table, pa.Table]:
    """The LOCAL rows of a folder, and the identifiers that its files carry."""
    library = library_of(root, library_id)
    table = library.enumerate().table
    rows = [{**row, "captured_at": None} for row in table.to_pylist()]
    identifiers = []
    for row in rows:
        with library.open_bytes(row["local_id"], row["part"]) as stream:
            head = stream.read(CHUNK)
            found = content_identifier(row["file_name"], head, stream)
        identifiers.append({**row, "content_id": found})
    return pa.Table.from_pylist(rows, LOCAL), pa.Table.from_pylist(identifiers, IDENTIFIERS)


def grouped(local: pa.Table) -> dict[str, list[str]]:
    """Local id to the file names of its parts, the primary first."""
    parts: dict[str, dict[str, str]] = {}
    for row in local.to_pylist():
        assert row["part"] not in parts.setdefault(row["local_id"], {})
        parts[row["local_id"]][row["part"]] = row["file_name"]
    return {name: [found[part] for part in ("primary", "motion") if part in found] for name, found in parts.items()}


def pairs_in(root: Path, tree: dict[str, str | None]) -> dict[str, list[str]]:
    write(root, tree)
    return grouped(pair_by_content(*listed(root), {"L"}).local)


def test_a_pair_split_over_folders_is_a_pair(tmp_path: Path) -> None:
    write(tmp_path, {"stills/IMG_1.HEIC": "X", "videos/clip.MOV": "X", "videos/other.MOV": "Y", "IMG_2.JPG": None})
    local, identifiers = listed(tmp_path)
    paired = pair_by_content(local, identifiers, {"L"})
    assert grouped(paired.local) == {
        "stills/IMG_1.HEIC": ["IMG_1.HEIC", "clip.MOV"],
        "videos/other.MOV": ["other.MOV"],
        "IMG_2.JPG": ["IMG_2.JPG"],
    }
    [moved] = paired.moved.to_pylist()
    assert moved == {
        "library_id": "L",
        "listed_id": "videos/clip.MOV",
        "local_id": "stills/IMG_1.HEIC",
        "listed_part": "primary",
        "part": "motion",
    }


@pytest.mark.parametrize("folder", ["", "trip/", "a/b/trip/"])
def test_a_still_and_a_video_of_one_stem_with_other_identifiers_are_no_pair(tmp_path: Path, folder: str) -> None:
    write(tmp_path, {f"{folder}IMG_1.HEIC": "X", f"{folder}img_1.MOV": "Y"})
    paired = pair_by_content(*listed(tmp_path), {"L"})
    assert grouped(paired.local) == {
        f"{folder}IMG_1.HEIC": ["IMG_1.HEIC"],
        f"{folder}img_1.MOV": ["img_1.MOV"],
    }
    assert [tuple(row.values()) for row in paired.moved.to_pylist()] == [
        ("L", f"{folder}IMG_1.HEIC", f"{folder}img_1.MOV", "motion", "primary")
    ]


def test_a_path_that_needs_escapes_is_the_path_of_the_video_itself(tmp_path: Path) -> None:
    folder = "ß\\x41 %$'é\U0001f600"
    write(tmp_path, {f"{folder}/1.HEIC": "X", f"{folder}/1.MOV": "Y"})
    local, identifiers = listed(tmp_path)
    [moved] = pair_by_content(local, identifiers, {"L"}).moved.to_pylist()
    with library_of(tmp_path).open_bytes(moved["local_id"], "primary") as stream:
        assert content_identifier("1.MOV", stream.read(), stream) == "Y"


@pytest.mark.parametrize(("still", "video"), [("X", "X"), (None, "X"), ("X", None), (None, None)])
def test_a_pair_of_one_stem_stays_one_unless_both_identifiers_are_known_and_differ(
    tmp_path: Path, still: str | None, video: str | None
) -> None:
    write(tmp_path, {"IMG_1.HEIC": still, "IMG_1.MOV": video, "b/x.HEIC": "X", "b/y.MOV": None})
    local, identifiers = listed(tmp_path)
    paired = pair_by_content(local, identifiers, {"L"})
    assert paired.local is local
    assert paired.moved.num_rows == 0
    assert paired.moved.schema == MOVED


def test_videos_that_were_swapped_go_back_to_their_stills(tmp_path: Path) -> None:
    tree: dict[str, str | None] = {"a/1.HEIC": "X", "a/1.MOV": "Y", "b/2.HEIC": "Y", "b/2.MOV": "X"}
    assert pairs_in(tmp_path, tree) == {"a/1.HEIC": ["1.HEIC", "2.MOV"], "b/2.HEIC": ["2.HEIC", "1.MOV"]}


def test_a_video_in_a_pair_is_not_taken_out_of_it(tmp_path: Path) -> None:
    tree: dict[str, str | None] = {"1.JPG": None, "1.MOV": "X", "original.HEIC": "X"}
    assert pairs_in(tmp_path, tree) == {"1.JPG": ["1.JPG", "1.MOV"], "original.HEIC": ["original.HEIC"]}


def test_a_split_video_pairs_with_the_still_of_its_stem_that_the_listing_passed_over(tmp_path: Path) -> None:
    tree: dict[str, str | None] = {"1.HEIC": "Y", "1.JPG": "X", "1.MOV": "X", "2.JPG": "X"}
    assert pairs_in(tmp_path, tree) == {"1.HEIC": ["1.HEIC"], "1.JPG": ["1.JPG", "1.MOV"], "2.JPG": ["2.JPG"]}


@pytest.mark.parametrize(
    ("tree", "pairs"),
    [
        (["a/s.HEIC", "a/v.MOV", "b/s.HEIC", "b/v.MOV"], {"a/s.HEIC": "a/v.MOV", "b/s.HEIC": "b/v.MOV"}),
        (["a/s.HEIC", "a/v.MOV", "v.MOV", "a/b/v.MOV"], {"a/s.HEIC": "a/v.MOV"}),
        (
            ["x/s/1.HEIC", "x/v/1.MOV", "y/s/1.HEIC", "y/v/1.MOV"],
            {"x/s/1.HEIC": "x/v/1.MOV", "y/s/1.HEIC": "y/v/1.MOV"},
        ),
        (["s/1.HEIC", "s/2.HEIC", "v/1.MOV", "v/2.MOV"], {"s/1.HEIC": "v/1.MOV", "s/2.HEIC": "v/2.MOV"}),
        (["s/1.HEIC", "s/1 copy.HEIC", "v/1.MOV"], {"s/1.HEIC": "v/1.MOV"}),
        (["s/1.HEIC", "t/1.HEIC", "v/1.MOV"], {}),
        (["s/1.HEIC", "s/1.JPG", "v/1.MOV"], {}),
        (["s/1.HEIC", "v/1.MOV", "w/1.MOV"], {}),
        (["s/a.HEIC", "s/b.HEIC", "v/c.MOV", "v/d.MOV"], {}),
        (["s/1.HEIC"], {}),
        (["s/1.HEIC", "t/1.HEIC"], {}),
        (["v/1.MOV", "w/1.MP4"], {}),
    ],
)
def test_of_copies_the_nearest_pair_and_what_cannot_be_told_apart_stays(
    tmp_path: Path, tree: list[str], pairs: dict[str, str]
) -> None:
    write(tmp_path, dict.fromkeys(tree, "X"))
    paired = pair_by_content(*listed(tmp_path), {"L"})
    assert {row["local_id"]: row["listed_id"] for row in paired.moved.to_pylist()} == pairs


def test_what_lies_in_a_trash_pairs_only_with_what_lies_in_a_trash(tmp_path: Path) -> None:
    tree: dict[str, str | None] = {"s/1.HEIC": "X", ".Trash/2.MOV": "X", "#recycle/a.HEIC": "Z", "v/b.MOV": "Z"}
    tree |= {".Trash/s/3.HEIC": "Y", ".Trash/v/4.MOV": "Y"}
    write(tmp_path, tree)
    paired = pair_by_content(*listed(tmp_path), {"L"})
    assert [(row["listed_id"], row["local_id"]) for row in paired.moved.to_pylist()] == [
        (".Trash/v/4.MOV", ".Trash/s/3.HEIC")
    ]


def test_libraries_pair_each_for_itself_and_only_those_that_take_part(tmp_path: Path) -> None:
    tables = []
    for name, tree in {
        "A": ["s/1.HEIC"],
        "B": ["v/2.MOV"],
        "C": ["s/1.HEIC", "v/2.MOV"],
        "D": ["s/1.HEIC", "v/2.MOV"],
    }.items():
        write(tmp_path / name, dict.fromkeys(tree, "X"))
        tables.append(listed(tmp_path / name, name))
    local, identifiers = (pa.concat_tables(column) for column in zip(*tables, strict=True))
    assert pair_by_content(local, identifiers, {"A", "B"}).local is local
    assert pair_by_content(local, identifiers, set()).local is local
    moved = pair_by_content(local, identifiers, {"A", "B", "C", "D"}).moved.to_pylist()
    assert [(row["library_id"], row["listed_id"]) for row in moved] == [("C", "v/2.MOV"), ("D", "v/2.MOV")]


# A second telling of the rules. A file is (path, identifier); the listing's own pairs come from the real listing.
def told(rows: list[dict[str, Any]], identifiers: dict[Row, str | None]) -> dict[str, tuple[str, str]]:
    """Path of each file to its (local id, part)."""
    result, free = {}, []
    of_pair = {row["local_id"] for row in rows if row["part"] == "motion"}
    for row in rows:
        still_id, video_id = (
            (identifiers[row["local_id"], part] for part in ("primary", "motion"))
            if (row["local_id"] in of_pair)
            else (identifiers[row["local_id"], "primary"], None)
        )
        folder = row["local_id"].split("/")[:-1]
        path = "/".join([*folder, row["file_name"]])
        stays = row["local_id"] in of_pair and not (still_id and video_id and still_id != video_id)
        own = identifiers[row["local_id"], row["part"]]
        result[path] = (row["local_id"], row["part"]) if stays else (path, "primary")
        if own and not stays:
            free.append((path, folder, own, bool(row["in_trash"]), path.lower().endswith(VIDEOS)))
    levels: list[Any] = []
    for depth in [None, *range(9, -1, -1)]:
        for by_stem in (True, False):
            levels.append((depth, by_stem))
    for depth, by_stem in levels:
        classes: dict[Any, list[Any]] = {}
        for file in free:
            path, folder, own, trashed, _ = file
            if depth is None or len(folder) >= depth:
                stem = path.split("/")[-1].rpartition(".")[0].lower() if by_stem else None
                classes.setdefault((own, trashed, tuple(folder[:depth]), stem), []).append(file)
        for members in classes.values():
            stills, videos = ([f for f in members if f[4] is kind] for kind in (False, True))
            if len(stills) == len(videos) == 1:
                result[videos[0][0]] = (stills[0][0], "motion")
                free = [f for f in free if f not in members]
    return result


NAMES = st.builds(
    lambda folders, stem, end: "/".join([*folders, stem + end]),
    st.lists(st.sampled_from(["a", "b", ".Trash"]), max_size=3),
    st.sampled_from(["1", "2", "I"]),
    st.sampled_from([*STILLS, *VIDEOS]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(NAMES, st.sampled_from(["X", "Y", "X", "", None]), max_size=14), st.randoms(use_true_random=False)
)
def test_pairs_are_as_the_rules_say_whatever_the_order_of_the_rows(
    tree: dict[str, str | None], chance: random.Random
) -> None:
    from library.live_photos import motions_of

    rows: list[dict[str, Any]] = []
    names: dict[str, list[bytes]] = {}
    for path in tree:
        names.setdefault(path.rpartition("/")[0], []).append(path.rpartition("/")[2].encode())
    still_of = {
        f"{folder}/{video.decode()}".lstrip("/"): f"{folder}/{still.decode()}".lstrip("/")
        for folder, found in names.items()
        for still, video in motions_of(found).items()
    }
    identifiers: dict[Row, str | None] = {}
    for path, identifier in tree.items():
        local_id, part = (still_of[path], "motion") if path in still_of else (path, "primary")
        identifiers[local_id, part] = identifier
        row = dict.fromkeys(LOCAL.names) | {"library_id": "L", "local_id": local_id, "part": part, "checksum": path}
        rows.append(row | {"file_name": path.rpartition("/")[2], "in_trash": ".Trash" in path, "albums": [path]})
    chance.shuffle(rows)
    local = pa.Table.from_pylist(rows, LOCAL)
    known = [{"library_id": "L", "local_id": k[0], "part": k[1], "content_id": v} for k, v in identifiers.items()]
    chance.shuffle(known)
    paired = pair_by_content(local, pa.Table.from_pylist(known, IDENTIFIERS), ["L"])
    grouped(paired.local)  # no part twice
    assert paired.local.schema == LOCAL
    assert {row["checksum"]: (row["local_id"], row["part"]) for row in paired.local.to_pylist()} == told(
        rows, identifiers
    )
    rest = [name for name in LOCAL.names if name not in ("local_id", "part")]
    assert paired.local.select(rest).equals(local.select(rest))
    places = zip(local.to_pylist(), paired.local.to_pylist(), strict=True)
    assert paired.moved.to_pylist() == [
        {
            "library_id": "L",
            "listed_id": before["local_id"],
            "local_id": after["local_id"],
            "listed_part": before["part"],
            "part": after["part"],
        }
        for before, after in places
        if before["local_id"] != after["local_id"]
    ]


def many_rows(rows: list[tuple[str, str, str]]) -> pa.Table:
    """LOCAL rows of (local id, part, file name), with nothing else in them."""
    ids, parts, names = zip(*rows, strict=True)
    columns = {name: pa.nulls(len(rows), LOCAL.field(name).type) for name in LOCAL.names}
    columns |= {"library_id": pa.array(["L"] * len(rows)), "local_id": pa.array(ids)}
    return pa.table(columns | {"part": pa.array(parts), "file_name": pa.array(names)}, LOCAL)


def identified(local: pa.Table, identifiers: list[str]) -> pa.Table:
    return local.select(["library_id", "local_id", "part"]).append_column("content_id", pa.array(identifiers))


def test_one_identifier_on_very_many_files_ends_soon() -> None:
    names = [f"{n % 7}/{n % 11}/{n}.{'mov' if n % 2 else 'heic'}" for n in range(20_000)]
    local = many_rows([(name, "primary", name.rpartition("/")[2]) for name in names])
    start = time.process_time()
    assert pair_by_content(local, identified(local, ["X"] * len(names)), {"L"}).local is local
    assert time.process_time() - start < 20


def test_each_of_very_many_rows_keeps_its_place() -> None:
    rows = [(f"a/{n}.heic", part, f"{n}.{end}") for n in range(150_000) for part, end in (PRIMARY, MOTION)]
    random.Random(1).shuffle(rows)
    local = many_rows(rows)
    paired = pair_by_content(local, identified(local, [part for _, part, _ in rows]), {"L"})
    assert paired.local.column("local_id").to_pylist() == [f"a/{name}" for *_, name in rows]
    assert paired.local.column("file_name").equals(local.column("file_name"))
    assert set(paired.local.column("part").to_pylist()) == {"primary"}
