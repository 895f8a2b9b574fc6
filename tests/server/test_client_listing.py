"""Listings: complete or an error, each asset once, own only; and the look-up of what a listing lost."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.errors import UsageError
from engine.relations import SERVER
from server import errors
from server.listing import pages
from server.rows import rows
from tests.server.client_support import BOTH, NORMAL, TAKEN, World, checksum, world
from tests.server.replaying import FOLDER, VERSIONS


def item(**changes: Any) -> dict[str, Any]:
    """One asset object with nothing but what an asset must have."""
    return {
        "id": "47924c4a-413b-4d95-b658-ea001da889e8",
        "ownerId": "d542518a-e5dc-4a64-8279-df89e072fb7d",
        "checksum": checksum("x"),
        "originalFileName": "IMG_1.jpg",
        "type": "IMAGE",
        "isTrashed": False,
        "visibility": "timeline",
    } | changes


def listed(w: World) -> dict[str, dict[str, Any]]:
    return {row["asset_id"]: row for row in w.server.fetch_assets(w.user).to_pylist()}


@BOTH
def test_every_visibility_but_locked_is_listed_trashed_ones_too(version: str) -> None:
    with world(version) as w:
        video = w.add("v", visibility="hidden", type="video")[0]
        still = w.add("s", live_photo_video_id=video, is_favorite=True)[0]
        archived = w.add("a", visibility="archive")[0]
        gone = w.add("t", trashed=True)[0]
        w.add("l", visibility="locked")
        table = w.server.fetch_assets(w.user)
        assert table.schema == SERVER
        found = listed(w)
        assert set(found) == {video, still, archived, gone}
        assert found[still] == {
            "asset_id": still,
            "owner_id": w.user,
            "checksum": checksum("s0"),
            "file_name": "s0.jpg",
            "live_photo_video_id": video,
            "visibility": "timeline",
            "is_trashed": False,
            "type": "image",
            "library_id": None,
            "captured_at": TAKEN.replace(tzinfo=None),
            "local_captured_at": TAKEN.replace(tzinfo=None),
            "is_favorite": True,
        }
        assert found[gone]["is_trashed"]
        assert {r.json["visibility"] for r in w.requests("POST", "/api/search")} == {"timeline", "hidden", "archive"}


@BOTH
def test_an_empty_server_gives_an_empty_table(version: str) -> None:
    with world(version) as w:
        table, report = w.server.fetch_assets_reported(w.user)
        assert len(table) == 0
        assert table.schema == SERVER
        assert not report.suspicious


@BOTH
def test_pages_are_read_to_the_last_one_and_progress_is_told(version: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    with world(version, size=7) as w:
        ids = [w.add(f"p{n}-", captured_at=TAKEN + timedelta(seconds=n))[0] for n in range(29)]
        table, report = w.server.fetch_assets_reported(w.user, progress=lambda *a: told.append(a))
        assert set(table["asset_id"].to_pylist()) == set(ids)
        assert report.pages == 5 + 2
        assert told[-1][:2] == ("fetch_server_assets", 29)
        assert not report.suspicious


@BOTH
def test_a_partners_assets_are_not_listed(version: str) -> None:
    with world(version) as w:
        partner = w.sim.add_user("Bob", "bob@example.com")
        foreign = w.sim.add_asset(partner, checksum=checksum("b"), file_name="b.jpg")
        w.sim.share_with_partner(partner, w.user)
        mine = w.add("m")
        assert set(listed(w)) == set(mine)
        assert foreign not in w.server.find_by_checksums([checksum("b")], w.user)["asset_id"].to_pylist()


@BOTH
def test_lesson_45_a_page_that_repeats_assets_counts_them_once_and_makes_the_listing_suspicious(version: str) -> None:
    with world(version, size=10) as w:
        w.sim.unstable_ties = True
        w.add("tie", 45)
        table, report = w.server.fetch_assets_reported(w.user)
        ids = table["asset_id"].to_pylist()
        assert len(ids) == len(set(ids)) < 45, "this server loses ties"
        assert report.duplicates == 45 - len(ids)
        assert report.suspicious
        assert report.counted == 45
        assert f"shows {len(ids)} untrashed" in report.text


@BOTH
@pytest.mark.parametrize("scopes", [{"all"}, NORMAL])
def test_what_a_listing_lost_is_found_by_its_checksum(version: str, scopes: set[str]) -> None:
    with world(version, scopes, size=10) as w:
        w.sim.unstable_ties = True
        ids = w.add("tie", 45)
        shown = set(listed(w))
        lost = [n for n, asset_id in enumerate(ids) if asset_id not in shown]
        assert lost
        found = w.server.find_by_checksums([checksum(f"tie{n}") for n in lost] + [checksum("none")], w.user)
        assert found.schema == SERVER
        assert set(found["asset_id"].to_pylist()) == {ids[n] for n in lost}


@BOTH
def test_the_look_up_finds_hidden_archived_and_trashed_assets_and_no_locked_one(version: str) -> None:
    with world(version) as w:
        ids = [
            w.add("h", visibility="hidden")[0],
            w.add("a", visibility="archive")[0],
            w.add("t", trashed=True)[0],
        ]
        w.add("l", visibility="locked")
        found = w.server.find_by_checksums([checksum(f"{c}0") for c in "hatl"], w.user)
        assert set(found["asset_id"].to_pylist()) == set(ids)


def test_the_look_up_asks_5000_at_once_and_never_with_an_empty_list() -> None:
    with world() as w:
        w.server.find_by_checksums([checksum(str(n)) for n in range(5001)], w.user)
        sizes = [len(r.json["assets"]) for r in w.requests("POST", "/api/assets/bulk-upload-check")]
        assert sizes == [5000, 1]
        assert len(w.server.find_by_checksums([], w.user)) == 0
        assert len(w.requests("POST", "/api/assets/bulk-upload-check")) == 2


def test_the_look_up_one_by_one_keeps_to_its_limit_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with world(scopes=NORMAL) as w:
        w.add("x", 5)
        found = w.server.find_by_checksums([checksum(f"x{n}") for n in range(5)], w.user, search_limit=2)
        assert len(found) == 2
        assert "2 of 5" in caplog.text


def test_a_checksum_that_is_none_is_not_searched_for() -> None:
    with world() as w, pytest.raises(UsageError):
        w.server.find_by_checksums(["xyz"], w.user)


def test_a_server_that_ignores_the_checksum_it_was_asked_for_is_not_believed() -> None:
    page = {"assets": {"items": [item()], "nextPage": None}}
    with world(scopes=NORMAL) as w:
        w.sim.faults.add("POST", "/api/search", status=200, body=page, times=None)
        with pytest.raises(errors.AnswerMalformed, match="not asked for"):
            w.server.find_by_checksums([checksum("other")], w.user)


@BOTH
def test_a_page_that_fails_after_the_first_is_an_incomplete_listing(version: str) -> None:
    with world(version) as w:
        w.add("p", 12)
        w.sim.faults.add("POST", "/api/search", status=500, body={"message": "boom"}, after=2, times=None)
        seen = pages(w.server._transport, {}, "timeline", 5)
        assert len([next(seen), next(seen)]) == 2
        with pytest.raises(errors.IncompleteListing, match="incomplete") as caught:
            next(seen)
        assert caught.value.server_message == "boom"


@BOTH
@pytest.mark.parametrize("after", [0, 3, 6])
def test_a_page_that_fails_leaves_no_partial_table(version: str, after: int) -> None:
    """Seven pages; which visibility meets the fault depends on the threads, and the outcome does not."""
    with world(version, size=5) as w:
        for n in range(22):
            w.add(f"p{n}", captured_at=TAKEN + timedelta(seconds=n))
        w.sim.faults.add("POST", "/api/search", status=500, after=after, times=None)
        with pytest.raises((errors.IncompleteListing, errors.ServerFault)):
            w.server.fetch_assets(w.user)


def test_a_page_that_fails_once_is_asked_again() -> None:
    with world(size=5) as w:
        for n in range(12):
            w.add(f"p{n}", captured_at=TAKEN + timedelta(seconds=n))
        w.sim.faults.add("POST", "/api/search", drop_connection=True, after=2)
        w.sim.faults.add("POST", "/api/search", status=502, after=3)
        assert len(listed(w)) == 12


@pytest.mark.parametrize(
    "assets",
    [
        {"items": [item()], "nextPage": "1"},
        {"items": [item()], "nextPage": "0"},
        {"items": [item()], "nextPage": "-3"},
        {"items": [item()], "nextPage": "two"},
        {"items": [item()], "nextPage": True},
        {"items": [], "nextPage": "2"},
        {"items": [item()]},
        {"items": None, "nextPage": None},
        {"items": ["x"], "nextPage": None},
        [],
        None,
    ],
)
def test_a_page_that_leads_nowhere_is_an_error_and_not_an_end(assets: object) -> None:
    with world() as w:
        w.sim.faults.add("POST", "/api/search", status=200, body={"assets": assets}, times=None)
        with pytest.raises(errors.AnswerMalformed):
            w.server.fetch_assets(w.user)


def test_a_listing_that_goes_in_circles_ends_in_an_error() -> None:
    with world(scopes=NORMAL) as w:
        for following in ("2", "1"):
            page = {"assets": {"items": [item()], "nextPage": following}}
            w.sim.faults.add("POST", "/api/search", status=200, body=page)
        seen = pages(w.server._transport, {}, "timeline", 1000)
        assert next(seen)
        assert next(seen)
        with pytest.raises(errors.AnswerMalformed, match="leads nowhere"):
            next(seen)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"id": "../x"},
        {"id": 7},
        {"ownerId": "bob"},
        {"checksum": None},
        {"checksum": "deadbeef"},
        {"checksum": "a" * 40},
        {"originalFileName": None},
        {"isTrashed": None},
        {"isTrashed": "no"},
        {"type": None},
        {"visibility": "secret"},
        {"livePhotoVideoId": "x"},
        {"fileCreatedAt": "yesterday"},
    ],
)
def test_an_item_without_what_it_must_have_spoils_the_listing(changes: dict[str, Any]) -> None:
    with pytest.raises(errors.AnswerMalformed):
        rows([item(), item(**changes)], what="the listing")


def test_lesson_46_unknown_fields_are_ignored_and_optional_ones_may_be_missing() -> None:
    row = rows([item(brandNew={"x": 1}, visibility=None)], what="the listing", asked="archive").to_pylist()[0]
    assert row["visibility"] == "archive"
    assert row["is_favorite"] is False
    assert row["captured_at"] is row["library_id"] is row["live_photo_video_id"] is None


def test_an_external_librarys_checksum_is_of_the_path_and_not_checked() -> None:
    library = "11111111-1111-4111-8111-111111111111"
    assert rows([item(libraryId=library, checksum="path")], what="x")["checksum"].to_pylist() == ["path"]


def test_dates_parse_with_and_without_fractions_and_zones() -> None:
    texts = {
        "2025-01-10T10:00:00.123Z": "2025-01-10T10:00:00.123000",
        "2025-01-10T10:00:00Z": "2025-01-10T10:00:00",
        "2025-01-10T10:00:00.1234567Z": "2025-01-10T10:00:00.123456",
        "2025-01-10T12:00:00+02:00": "2025-01-10T10:00:00",
        "1950-01-10T10:00:00.000Z": "1950-01-10T10:00:00",
        "2025-01-10T10:00:00": "2025-01-10T10:00:00",
    }
    expected = [datetime.fromisoformat(text) for text in texts.values()]
    for text, moment in zip(texts, expected, strict=True):
        assert rows([item(fileCreatedAt=text)], what="x")["captured_at"].to_pylist() == [moment], text
    together = rows([item(localDateTime=text) for text in texts], what="x")
    assert together["local_captured_at"].to_pylist() == expected


def test_a_year_that_no_column_holds_is_an_unknown_date() -> None:
    assert rows([item(fileCreatedAt="+020230-01-10T10:00:00.000Z")], what="x")["captured_at"].to_pylist() == [None]


def test_of_two_rows_of_one_asset_the_trashed_one_stands() -> None:
    from server.rows import one_row_per_asset

    trashed, alive = (rows([item(isTrashed=state)], what="x") for state in (True, False))
    for order in ([trashed, alive], [alive, trashed], [alive, trashed, alive]):
        assert one_row_per_asset(order)["is_trashed"].to_pylist() == [True]


def test_an_upload_during_the_listing_makes_it_not_suspicious() -> None:
    with world() as w:
        w.add("a", 3)
        w.sim.faults.add("GET", "/api/assets/statistics", status=200, body={"images": 2, "videos": 0, "total": 2})
        assert not w.server.fetch_assets_reported(w.user)[1].suspicious
        w.sim.faults.add(
            "GET", "/api/assets/statistics", status=200, body={"images": 9, "videos": 0, "total": 9}, times=None
        )
        report = w.server.fetch_assets_reported(w.user)[1]
        assert report.suspicious
        assert "shows 3" in report.text
        assert "counts 9" in report.text


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no server recordings here")
@pytest.mark.parametrize("version", VERSIONS)
def test_lesson_46_recorded_listings_of_real_servers_parse(version: str) -> None:
    path = FOLDER / version / "20-search-metadata.json"
    seen = 0
    for exchange in json.loads(path.read_text())["exchanges"]:
        body = exchange["response"]["body"] if "response" in exchange else None
        assets = body.get("assets") if isinstance(body, dict) else None
        if isinstance(assets, dict):
            table = rows(assets["items"], what="recorded")
            assert table["captured_at"].null_count == 0
            seen += len(table)
    assert seen > 20
