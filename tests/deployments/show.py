"""The pictures of the documentation, made anew: `python -m tests.deployments.show docs/pictures`.

A library of pictures, deletions of three weeks ago and of today, and a real `up` whose pages are photographed.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from PIL import Image

from demo import pictures, story
from demo.stage import Stage, staged
from flows import direct, pipeline
from server.simulator import assets
from server.simulator.pictures import webp_of
from tests.deployments.browsing import browser
from tests.deployments.upping import Up, api_of, ended_run, run_of, upped
from tests.free_ports import free_port

WEEKS = timedelta(days=20)


@dataclass(frozen=True)
class Scene:
    """An `up` that had one dry run: three photos go, two wait in quarantine."""

    stage: Stage
    up: Up
    run: Any


@contextmanager
def scene(root: Path) -> Iterator[Scene]:
    """The scene in the empty folder ``root``, ended with the block."""
    root.mkdir(exist_ok=True)
    with staged("3.1.0", kept=root) as stage:
        stage.clock.passed = -WEEKS
        story.back_up_a_library(stage)
        story.run_for_the_first_time(stage)
        story.change_the_library(stage)
        pipeline.reconcile(direct.call, direct.WAY, pipeline.ReconcileRequest())
        stage.clock.passed += WEEKS
        for name in ("2025/Garden/IMG_0010.JPG", "2025/Garden/IMG_0016.JPG"):
            (stage.photos / name).unlink()
        (root / "work").mkdir()
        own = {"SERVER_URL": stage.url, "SERVER_API_KEY": _key(stage)}
        with upped(root / "state", root / "work", "--port", str(free_port()), **own) as up:
            up.told("Ready")
            with api_of(up.url) as api:
                run = ended_run(api, run_of(api, "reconcile/full", dry_run=True)["id"])
            yield Scene(stage, up, run)


def _key(stage: Stage) -> str:
    return next(secret for secret, key in stage.simulator.keys.items() if key.name == "deletion-sync")


def form(up: Up, name: str) -> str:
    """The address of a deployment's custom run form."""
    found = httpx.get(f"{up.url}/api/deployments/name/{name}", trust_env=False, timeout=60).raise_for_status().json()
    return f"{up.url}/deployments/deployment/{found['id']}/run"


def summary(up: Up) -> str:
    """The address of the newest run's summary."""
    with api_of(up.url) as api:
        (found,) = api.post("/artifacts/latest/filter", json={"artifacts": {"key": {"any_": ["summary"]}}}).json()
    return f"{up.url}/artifacts/artifact/{found['latest_id']}"


def main(folder: Path) -> None:
    """Write the pictures into ``folder``."""
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(assets, "webp_of", _small),
        scene(Path(root)) as found,
        browser(Path(root, "chromium")) as page,
    ):
        up = found.up
        page.open(f"{up.url}/deployments", "incremental", "restore")
        page.picture(folder / "deployments.png", 540)
        page.open(form(up, "reconcile/full"), "dry_run", "Submit")
        page.picture(folder / "run-form.png", 1230)
        page.open(f"{up.url}/runs/flow-run/{found.run['id']}", "rails: 3")
        page.picture(folder / "run.png", 900)
        page.open(summary(up), "your review is needed", "IMG_0003.JPG")
        page.picture(folder / "summary.png", 1480)
        page.open(form(up, "apply/apply"), "confirm", "Submit")
        page.picture(folder / "apply-form.png", 940)


def _small(checksum: str) -> bytes:
    """What a real server would give: a small picture of the photo, where the simulator has a colour."""
    for number in range(1, pictures.PHOTOS + 1):
        content = pictures.still(number, pictures.captured_at(number))
        if b64encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode() == checksum:
            image, small = Image.open(BytesIO(content)), BytesIO()
            image.thumbnail((96, 96))
            image.save(small, "WEBP")
            return small.getvalue()
    return webp_of(checksum)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
