"""The store of deferred hashes: noted at once, forgotten when hashed or gone. A cache of the first layout lives on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.database import connect
from state import deferred, hash_cache
from state.home import Home
from tests.state.helpers import NOW, checksum
from tests.state.test_hash_cache import hashed, listing, row, split

LATER = NOW + timedelta(days=1)
FIRST_LAYOUT = """
CREATE TABLE hashes (
    library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, part VARCHAR NOT NULL, checksum VARCHAR NOT NULL,
    size BIGINT, modified_ns BIGINT, file_identity VARCHAR, captured_at TIMESTAMP
);
CREATE TABLE names (checksum VARCHAR NOT NULL, file_name VARCHAR NOT NULL);
"""


def note(home: Home, *rows: dict[str, Any], reason: str = "unreadable", at: Any = NOW) -> None:
    table = listing(*rows)
    deferred.record(home, table.append_column("reason", pa.array([reason] * table.num_rows)), at)


def kept(home: Home) -> dict[str, dict[str, Any]]:
    return {r["local_id"]: r for r in deferred.deferred(home, ["lib"]).to_pylist()}


def test_lesson_28_a_part_that_failed_is_on_record_with_its_dates_and_attempts(home: Home) -> None:
    note(home, row("a"))
    note(home, row("a"), at=LATER)
    one = kept(home)["a"]
    assert (one["first_deferred_at"], one["last_tried_at"], one["attempts"]) == (NOW, LATER, 2)
    assert (one["size"], one["reason"], one["file_name"]) == (10, "unreadable", "a.JPG")


def test_other_bytes_begin_at_the_first_attempt(home: Home) -> None:
    note(home, row("a"))
    note(home, row("a"))
    note(home, row("a", modified_ns=2_000), at=LATER)
    assert (kept(home)["a"]["attempts"], kept(home)["a"]["first_deferred_at"]) == (1, NOW)


@pytest.mark.parametrize("reason", ["too_large", "time_budget"])
def test_what_a_limit_kept_back_is_no_attempt(home: Home, reason: str) -> None:
    note(home, row("a"), reason=reason)
    assert (kept(home)["a"]["attempts"], kept(home)["a"]["last_tried_at"]) == (0, None)


def test_only_what_failed_often_enough_unchanged_is_given_up(home: Home) -> None:
    note(home, row("a"), row("b"), reason="changed")
    note(home, row("a"), reason="changed")
    assert deferred.given_up(home, listing(row("a"), row("b")), 2)["local_id"].to_pylist() == ["a"]
    assert deferred.given_up(home, listing(row("a", size=11)), 2).num_rows == 0


def test_what_merely_cannot_be_opened_is_tried_for_ever(home: Home) -> None:
    for _ in range(5):
        note(home, row("a"), reason="unreadable")
    assert deferred.given_up(home, listing(row("a")), 2).num_rows == 0


def test_a_part_that_is_hashed_is_deferred_no_longer(home: Home) -> None:
    note(home, row("a"), row("b"))
    hash_cache.remember(home, hashed(row("a", checksum=checksum(1)), row("b")))
    assert kept(home).keys() == {"b"}


def test_a_whole_listing_takes_out_what_is_gone_and_no_other_librarys(home: Home) -> None:
    note(home, row("a"), row("b"), row("c", library_id="other"))
    deferred.sweep(home, [], listing())
    assert kept(home).keys() == {"a", "b"}
    deferred.sweep(home, ["lib"], listing(row("b")))
    assert kept(home).keys() == {"b"}
    assert deferred.deferred(home, ["other"]).num_rows == 1


def test_the_newest_facts_come_first(home: Home) -> None:
    note(home, row("a"))
    note(home, row("b"), at=LATER)
    assert list(kept(home)) == ["b", "a"]


def test_a_photo_that_was_moved_to_the_cloud_keeps_its_checksum(home: Home) -> None:
    hash_cache.remember(home, hashed(row("a", checksum=checksum(1), captured_at=NOW)))
    away = {"size": None, "modified_ns": None, "file_identity": None}
    known, wanted = split(home, row("a", **away), row("b", **away))
    assert [(k["local_id"], k["checksum"], k["captured_at"], k["size"]) for k in known] == [
        ("a", checksum(1), NOW, None)
    ]
    assert [w["local_id"] for w in wanted] == ["b"]


def test_a_content_id_is_kept_like_a_capture_date(home: Home) -> None:
    one = hashed(row("a", checksum=checksum(1)))
    hash_cache.remember(home, one.append_column("content_id", pa.array(["ID"])))
    hash_cache.remember(home, one)
    told = hash_cache.content_ids(home, hashed(row("a", checksum=checksum(1)), row("b"))).to_pylist()
    assert {t["local_id"]: t["content_id"] for t in told} == {"a": "ID", "b": None}
    hash_cache.remember(home, hashed(row("a", checksum=checksum(2))))
    assert hash_cache.content_ids(home, hashed(row("a", checksum=checksum(2))))["content_id"].to_pylist() == [None]


@pytest.mark.parametrize("write", [False, True])
def test_a_cache_of_the_first_layout_becomes_what_a_new_one_is_and_forgets_nothing(home: Home, write: bool) -> None:
    home.root.mkdir()
    con = connect(home.hash_cache)
    con.execute(FIRST_LAYOUT)
    con.execute(
        "INSERT INTO hashes VALUES ('lib', 'a', 'primary', ?, 10, 1000, '1:1', NULL), "
        "('lib', 'b', 'primary', ?, 10, 1000, '1:1', NULL)",
        [checksum(1), checksum(2)],
    )
    con.close()
    if write:
        hash_cache.remember(home, hashed(row("c", checksum=checksum(3))))
    assert {k["local_id"] for k in split(home, row("a"), row("b"))[0]} == {"a", "b"}
    note(home, row("d"))
    assert kept(home).keys() == {"d"}
    assert not list(home.root.glob("*damaged*"))
    assert _columns(home) == _columns(Home(_fresh(home)))


def _fresh(home: Home) -> Path:
    other = Home(home.root / "other")
    hash_cache.wipe(other)
    return other.root


def _columns(home: Home) -> list[Any]:
    con = connect(home.hash_cache, read_only=True)
    try:
        return con.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY ALL"
        ).fetchall()
    finally:
        con.close()
