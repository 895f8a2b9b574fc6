"""Listing assets: every page of every visibility, the gap look-up by checksum, and what makes a listing suspicious.

A listing is not proof of absence: older servers lose assets that share a capture time between pages.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import UsageError
from engine.relations import SERVER
from server import errors
from server.account import statistics
from server.answers import malformed
from server.http import Transport
from server.parallel import side_by_side
from server.rows import VISIBILITIES, one_row_per_asset, own, rows
from server.shapes import Progress

log = logging.getLogger("deletion_sync.server")

SEARCH = "/api/search/metadata"
CHECK = "/api/assets/bulk-upload-check"
CHECK_CHUNK = 5000  # 60,000 worked on real servers, 70,000 did not
_CHECKSUM = re.compile(r"[A-Za-z0-9+/]{27}=")


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a listing was like. ``counted`` is the server's own count of untrashed timeline and archive, if allowed."""

    pages: int
    assets: int
    duplicates: int
    counted: int | None
    suspicious: bool
    text: str


def pages(
    transport: Transport, criteria: dict[str, Any], visibility: str, size: int, stop: threading.Event | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """(name of the request, its asset objects) for each page of a search in one visibility, to the last one.

    Trashed assets are included. Raises IncompleteListing when a page fails after the first, AnswerMalformed when an
    answer is no page or leads nowhere, and the other ServerErrors.
    """
    page = 1
    while stop is None or not stop.is_set():
        what = f"The listing of {visibility} assets, page {page}"
        body = {**criteria, "visibility": visibility, "withDeleted": True, "size": size, "page": page}
        try:
            answer = transport.read("POST", SEARCH, body=body)
        except (errors.ServerUnreachable, errors.ServerFault, errors.RateLimited) as error:
            if page == 1:
                raise
            raise errors.IncompleteListing(
                f"{what} failed, so the listing is incomplete and was not used. {error.what}",
                "Run again.",
                error.status,
                error.server_message,
                error.correlation_id,
            ) from None
        found = answer.json_object().get("assets")
        if not isinstance(found, dict) or not isinstance(found.get("items"), list) or "nextPage" not in found:
            raise malformed(what, "is no page of assets")
        items: list[Any] = found["items"]
        yield what, items
        if found["nextPage"] is None:
            return
        page = _next_page(found["nextPage"], page, items, what)


def _next_page(value: Any, page: int, items: list[Any], what: str) -> int:
    """The server writes the number as a string, and takes only a number."""
    following = int(value) if isinstance(value, str | int) and str(value).isdecimal() else 0
    if following <= page or not items:
        raise malformed(what, f"names {value!r} as the next page, which leads nowhere")
    return following


def search(
    transport: Transport,
    criteria: dict[str, Any],
    visibility: str,
    size: int,
    *,
    meets: Callable[[dict[str, Any]], bool] = lambda item: True,
    on_page: Callable[[int], None] = lambda count: None,
    stop: threading.Event | None = None,
) -> list[pa.Table]:
    """One SERVER table per page. ``meets`` checks that the server heeded the criteria: it ignores unknown ones."""
    tables = []
    for what, items in pages(transport, criteria, visibility, size, stop):
        table = rows(items, what=what, asked=visibility)
        if not all(map(meets, items)):
            raise malformed(what, "shows assets that were not asked for")
        tables.append(table)
        on_page(len(items))
    return tables


def fetch(transport: Transport, user_id: str, size: int, progress: Progress) -> tuple[pa.Table, FetchReport]:
    """Every asset of this user but locked ones, trashed ones included, each once, with how the listing went.

    Raises ServerError; never returns part of a listing (spec, Reconciliation run 4; Visibility classes).
    """
    before = statistics(transport)
    lock, stop, seen = threading.Lock(), threading.Event(), [0]

    def on_page(count: int) -> None:
        with lock:
            seen[0] += count
            progress("fetch_server_assets", seen[0], None)

    def one(visibility: str) -> list[pa.Table]:
        listed = search(transport, {}, visibility, size, on_page=on_page, stop=stop)
        return [own(table, user_id) for table in listed]

    per_visibility = side_by_side(one, VISIBILITIES, stop=stop)
    tables = [table for listed in per_visibility for table in listed]
    table = one_row_per_asset(tables)
    duplicates = sum(map(len, tables)) - len(table)
    return table, _report(transport, table, len(tables), duplicates, None if before is None else before.total)


def _report(
    transport: Transport, table: pa.Table, page_count: int, duplicates: int, counted: int | None
) -> FetchReport:
    shown = _shown(table)
    text = ""
    if counted is not None and counted != shown:
        # An upload or a deletion meanwhile explains a difference that lies between the two counts.
        after = statistics(transport)
        counts = sorted((counted, counted if after is None else after.total))
        if not counts[0] <= shown <= counts[1]:
            text = f"The listing shows {shown} untrashed assets in timeline and archive, the server counts {counts[1]}."
    if duplicates and not text:
        text = f"The listing showed {duplicates} assets more than once, so it may have left out as many."
    return FetchReport(page_count, len(table), duplicates, counted, bool(text), text)


def _shown(table: pa.Table) -> int:
    visible = pc.is_in(table["visibility"], pa.array(["timeline", "archive"]))
    return int(pc.sum(pc.and_(visible, pc.invert(table["is_trashed"])), min_count=0).as_py())


def find_by_checksums(
    transport: Transport,
    checksums: Iterable[str],
    user_id: str,
    size: int,
    search_limit: int,
    progress: Progress,
) -> pa.Table:
    """SERVER rows of this user's assets that have one of these checksums, whatever a listing showed.

    With asset.upload one call tells which of 5000 exist, and those are searched for; without it each is searched for,
    and no more than ``search_limit``, with a warning. What is not looked up is simply not found: nothing happens to it.
    """
    wanted = list(dict.fromkeys(checksums))
    for checksum in wanted:
        if not _CHECKSUM.fullmatch(checksum):
            raise UsageError(f"{checksum!r} is no checksum.", "A checksum is a base64 SHA-1 of 28 characters.")
    try:
        wanted = _existing(transport, wanted)
    except errors.MissingScope:
        if len(wanted) > search_limit:
            log.warning("looked up %d of %d checksums; with asset.upload all would be", search_limit, len(wanted))
            wanted = wanted[:search_limit]
    lock, done = threading.Lock(), [0]

    def one(checksum: str) -> list[pa.Table]:
        found = [
            table
            for visibility in VISIBILITIES
            for table in search(
                transport, {"checksum": checksum}, visibility, size, meets=lambda item: item.get("checksum") == checksum
            )
        ]
        with lock:
            done[0] += 1
            progress("fetch_server_assets", done[0], len(wanted))
        return found

    return one_row_per_asset([own(table, user_id) for found in side_by_side(one, wanted) for table in found])


def _existing(transport: Transport, checksums: list[str]) -> list[str]:
    """Those that the server holds for this user, hidden, trashed and locked ones too. Raises MissingScope."""
    existing = []
    for start in range(0, len(checksums), CHECK_CHUNK):
        chunk = checksums[start : start + CHECK_CHUNK]
        body = {"assets": [{"id": str(number), "checksum": checksum} for number, checksum in enumerate(chunk)]}
        answer = transport.read("POST", CHECK, body=body)
        results = answer.json_object().get("results")
        actions = {r.get("id"): r.get("action") for r in results or [] if isinstance(r, dict)}
        for number, checksum in enumerate(chunk):
            action = actions.get(str(number))
            if action not in ("accept", "reject"):
                raise malformed(answer.what, "leaves out a checksum that was asked about")
            if action == "reject":
                existing.append(checksum)
    return existing


def trashed_since(transport: Transport, moment: datetime, size: int) -> frozenset[str]:
    """Ids of assets trashed after ``moment`` (aware), as far as the search shows them; absence proves nothing."""
    after = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def one(visibility: str) -> list[pa.Table]:
        found = search(
            transport, {"trashedAfter": after}, visibility, size, meets=lambda item: item.get("isTrashed") is True
        )
        return [table.select(["asset_id"]) for table in found]

    tables = [table for found in side_by_side(one, VISIBILITIES) for table in found]
    empty = SERVER.empty_table().select(["asset_id"])
    return frozenset(pa.concat_tables([empty, *tables])["asset_id"].to_pylist())
