"""Small pictures of candidates for the summary of a Prefect run: the server's own thumbnails, inside the page."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable

from engine.errors import DeletionSyncError
from server.errors import NotFound
from state.partition import Partition
from tasks.context import server_of

AT_MOST = 50
EACH_BYTES = 24 * 2**10  # a larger one would make the page slow
ALL_BYTES = 400 * 2**10
SECONDS = 10.0
TYPES = ((b"RIFF", "image/webp"), (b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG", "image/png"))


def picture_cells(partition: Partition, asset_ids: Iterable[str]) -> dict[str, str]:
    """Asset id to a markdown image, of those that the server gives. A key that may not see them gives none."""
    cells: dict[str, str] = {}
    left, until = ALL_BYTES, time.monotonic() + SECONDS
    try:
        with server_of(partition) as server:
            for asset_id in list(asset_ids)[:AT_MOST]:
                if time.monotonic() > until or left <= 0:
                    break
                try:
                    content = server.thumbnail(asset_id)
                except NotFound:
                    continue
                kind = next((kind for magic, kind in TYPES if content.startswith(magic)), None)
                if kind is not None and len(content) <= min(EACH_BYTES, left):
                    left -= len(content)
                    cells[asset_id] = f"![](data:{kind};base64,{base64.b64encode(content).decode()})"
    except DeletionSyncError:
        pass  # the page is whole without them
    return cells
