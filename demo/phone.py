"""The phone app's part of the demo: it backs photos up to the server, over HTTP, and does nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import httpx

from demo.pictures import Picture

DEVICE = "demo-phone"


def back_up(url: str, key: str, pictures: Iterable[Picture]) -> dict[Path, str]:
    """Upload each picture, a Live Photo's video first; returns the asset id of each file.

    Content that the server has already keeps its asset. Raises httpx.HTTPError.
    """
    ids: dict[Path, str] = {}
    with httpx.Client(base_url=url, headers={"x-api-key": key}, trust_env=False) as client:
        for picture in pictures:
            motion_id = None
            if picture.motion is not None:
                motion_id = ids[picture.motion] = _upload(client, picture.motion, picture, {"visibility": "hidden"})
            link = {} if motion_id is None else {"livePhotoVideoId": motion_id}
            ids[picture.path] = _upload(client, picture.path, picture, link)
    return ids


def _upload(client: httpx.Client, path: Path, picture: Picture, more: dict[str, str]) -> str:
    fields = {
        "fileCreatedAt": picture.captured_at.isoformat(),
        "fileModifiedAt": datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(),
        "deviceId": DEVICE,  # servers before 3.0 ask for these two, later ones ignore them
        "deviceAssetId": path.name,
        **more,
    }
    answer = client.post("/api/assets", data=fields, files={"assetData": (path.name, path.read_bytes())})
    answer.raise_for_status()
    return str(answer.json()["id"])
