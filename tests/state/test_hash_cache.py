"""The hash cache: a byte is hashed once, a name is never lost, and a damaged file costs only time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.relations import LOCAL
from state import hash_cache
from state.home import Home
from tests.state.helpers import NOW, checksum, finish, process

# library.protocol.ENUMERATED, which state does not import.
LISTING = pa.schema(
    [LOCAL.field(n) for n in ("library_id", "local_id", "part", "file_name", "size", "modified_ns")]
    + [LOCAL.field(n) for n in ("file_identity", "albums", "checksum", "in_trash")]
)


def row(local_id: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "library_id": "lib",
        "local_id": local_id,
        "part": "primary",
        "checksum": None,
        "file_name": f"{local_id}.JPG",
        "size": 10,
        "modified_ns": 1_000,
        "file_identity": "1:1",
        "captured_at": None,
        "albums": ["x", "y"],
        "in_trash": False,
        **changes,
    }


def hashed(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), LOCAL)


def listing(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), LISTING)


def split(home: Home, *rows: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    known, wanted = hash_cache.split(home, listing(*rows))
    assert known.schema == LOCAL
    assert wanted.schema == LISTING
    return known.to_pylist(), wanted.to_pylist()


def names(home: Home, *numbers: int) -> dict[str, list[str]]:
    table = hash_cache.names_for(home, [checksum(n) for n in numbers])
    return {r["checksum"]: r["names"] for r in table.to_pylist()}


def test_what_was_hashed_is_known_and_the_rest_is_wanted(home: Home) -> None:
    one = row("a", checksum=checksum(1), captured_at=NOW)
    hash_cache.remember(home, hashed(one))
    known, wanted = split(home, row("a"), row("b"))
    assert known == [one]
    assert [w["local_id"] for w in wanted] == ["b"]


def test_a_live_photo_has_two_checksums(home: Home) -> None:
    still, motion = row(checksum=checksum(1)), row(part="motion", checksum=checksum(2), size=99)
    hash_cache.remember(home, hashed(still, motion))
    known, wanted = split(home, row(), row(part="motion", size=99))
    assert {(k["part"], k["checksum"]) for k in known} == {("primary", checksum(1)), ("motion", checksum(2))}
    assert wanted == []


@pytest.mark.parametrize(
    "changes", [{"size": 11}, {"modified_ns": 1_001}, {"library_id": "other"}, {"modified_ns": None}]
)
def test_another_size_date_or_library_is_hashed_again(home: Home, changes: dict[str, Any]) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    known, wanted = split(home, row(**changes))
    assert (known, len(wanted)) == ([], 1)


def test_a_file_that_was_only_touched_keeps_its_entry_until_it_is_hashed_again(home: Home) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    assert len(split(home, row(modified_ns=2_000))[1]) == 1
    hash_cache.remember(home, hashed(row(modified_ns=2_000)))  # could not be hashed: no checksum
    assert len(split(home, row())[0]) == 1
    hash_cache.remember(home, hashed(row(modified_ns=2_000, checksum=checksum(1))))
    assert len(split(home, row(modified_ns=2_000))[0]) == 1
    assert len(split(home, row())[1]) == 1


def test_a_checksum_that_the_library_knows_passes_through(home: Home) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    known, wanted = split(home, row(checksum=checksum(2)), row("z", checksum=checksum(3), size=None))
    assert {k["checksum"] for k in known} == {checksum(2), checksum(3)}
    assert wanted == []


def test_lesson_27_a_second_write_without_the_date_does_not_wipe_it(home: Home) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1), captured_at=NOW)))
    hash_cache.remember(home, hashed(row(checksum=checksum(1), file_identity=None)))
    known, _ = split(home, row())
    assert [k["captured_at"] for k in known] == [NOW]
    hash_cache.remember(home, hashed(row(checksum=checksum(2))))  # other bytes: the old date says nothing
    assert split(home, row())[0][0]["captured_at"] is None


def test_the_same_row_twice_is_one_entry(home: Home) -> None:
    one = row(checksum=checksum(1))
    hash_cache.remember(home, hashed(one, {**one, "captured_at": NOW}))
    known, _ = split(home, row())
    assert [k["captured_at"] for k in known] == [NOW]


def test_lesson_10_all_names_of_a_content_are_kept_ignoring_case(home: Home) -> None:
    hash_cache.remember(home, hashed(row("a", checksum=checksum(1), file_name="IMG_1.JPG")))
    hash_cache.remember_names(home, hashed(row("b", checksum=checksum(1), file_name="FullSizeRender.jpg")))
    hash_cache.remember_names(home, hashed(row("c", checksum=checksum(1), file_name="img_1.jpg")))
    assert names(home, 1, 2) == {checksum(1): ["fullsizerender.jpg", "img_1.jpg"]}


def test_lesson_9_a_known_list_of_names_is_never_emptied(home: Home, tmp_path: Path) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1), file_name="IMG_1.JPG")))
    for name in (None, ""):
        hash_cache.remember(home, hashed(row(checksum=checksum(1), file_name=name)))
        hash_cache.remember_names(home, hashed(row(checksum=checksum(1), file_name=name)))
    hash_cache.wipe(home)
    assert names(home, 1) == {checksum(1): ["img_1.jpg"]}
    hash_cache.export_names(home, tmp_path / "names.parquet")
    assert pq.read_table(tmp_path / "names.parquet").to_pylist() == [{"checksum": checksum(1), "names": ["img_1.jpg"]}]
    assert (tmp_path / "names.parquet").stat().st_mode & 0o777 == 0o600


def test_wiping_forgets_every_hash(home: Home) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    assert hash_cache.cached_checksums(home).column("checksum").to_pylist() == [checksum(1)]
    hash_cache.wipe(home)
    assert hash_cache.cached_checksums(home).num_rows == 0
    assert len(split(home, row())[1]) == 1


def test_lesson_31_the_cache_forgets_no_id_because_one_account_no_longer_lists_it(home: Home) -> None:
    hash_cache.remember(home, hashed(row("a", checksum=checksum(1)), row("b", checksum=checksum(2))))
    split(home, row("b"))  # one account's listing, in which a is gone
    hash_cache.remember(home, hashed(row("b", checksum=checksum(2))))
    assert [k["checksum"] for k in split(home, row("a"))[0]] == [checksum(1)]


@pytest.mark.parametrize("junk", [b"", b"hello", b"\x07" * 100_000])
def test_a_damaged_cache_is_set_aside_and_begun_anew(home: Home, caplog: pytest.LogCaptureFixture, junk: bytes) -> None:
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    home.hash_cache.write_bytes(junk)
    assert len(split(home, row())[1]) == 1
    assert "damaged" in caplog.text
    assert home.hash_cache.with_name("hash-cache.duckdb.damaged-1").read_bytes() == junk
    hash_cache.remember(home, hashed(row(checksum=checksum(1))))
    assert len(split(home, row())[0]) == 1


def test_damage_that_shows_only_while_reading_is_no_abort_either(home: Home) -> None:
    hash_cache.remember(home, hashed(*(row(str(n), checksum=checksum(n)) for n in range(20_000))))
    data = home.hash_cache.read_bytes()
    half = len(data) // 4
    home.hash_cache.write_bytes(data[:half] + b"\x07" * (len(data) - half))
    known, wanted = split(home, *(row(str(n)) for n in range(20_000)))
    assert (len(known), len(wanted)) == (0, 20_000)


def test_another_programs_file_is_set_aside(home: Home) -> None:
    from engine.database import connect

    home.root.mkdir()
    con = connect(home.hash_cache)
    con.execute("CREATE TABLE hashes (x INTEGER)")
    con.close()
    assert len(split(home, row())[1]) == 1


def test_two_processes_at_once_both_remember(home: Home) -> None:
    code = """
import sys
from pathlib import Path
import pyarrow as pa
from engine.relations import LOCAL
from state import hash_cache
from state.home import Home
row = {n: None for n in LOCAL.names} | {"library_id": "lib", "local_id": sys.argv[2], "part": "primary",
    "checksum": sys.argv[2], "size": 1, "modified_ns": 1}
hash_cache.remember(Home(Path(sys.argv[1])), pa.Table.from_pylist([row], LOCAL))
"""
    children = [process(code, home.root, n) for n in range(4)]
    assert [finish(child)[0] for child in children] == [0] * 4
    assert hash_cache.cached_checksums(home).num_rows == 4


def test_times_come_back_as_they_went_in(home: Home) -> None:
    moment = datetime.fromisoformat("2026-10-25T02:30:00.123456")
    hash_cache.remember(home, hashed(row(checksum=checksum(1), captured_at=moment)))
    assert split(home, row())[0][0]["captured_at"] == moment
