"""A small world for end-to-end tests: a folder of real files, a simulated server on a socket, state, and a clock."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows import direct, pipeline
from library.identity import register_folder
from server.simulator import Simulator, serving
from state.db import writing
from state.libraries import Registered, add
from tasks import clock
from tasks.opening import find_partition
from tasks.summary import Summary

EVERYTHING = ("all",)


@dataclass
class World:
    """``now`` is the clock of both sides: the client's and the server's."""

    folder: Path
    home: Path
    simulator: Simulator = field(init=False)
    user_id: str = ""
    url: str = ""
    now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)
    ids: dict[str, str] = field(default_factory=dict)

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)

    def write(self, name: str, content: bytes | None = None) -> str:
        """A local file; returns its checksum."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = content if content is not None else f"photo {name}".encode()
        path.write_bytes(content)
        os.utime(path, (1_600_000_000 + len(self.ids), 1_600_000_000 + len(self.ids)))
        return checksum(content)

    def backed_up(self, name: str, content: bytes | None = None, **fields: object) -> str:
        """A local file that the server has too; returns the asset id."""
        digest = self.write(name, content)
        asset: dict[str, Any] = {"checksum": digest, "file_name": Path(name).name, **fields}
        self.ids[name] = self.simulator.add_asset(self.user_id, **asset)
        return self.ids[name]

    def all_backed_up(self, name: str, count: int) -> None:
        """As many files as ``count`` says that the server has too; ``{}`` in the name is their number from 0 on."""
        for number in range(count):
            self.backed_up(name.format(number))

    def live_photo(self, stem: str) -> tuple[str, str]:
        """A still and its motion video on both sides; returns their asset ids."""
        video = self.backed_up(f"{stem}.MOV", f"motion {stem}".encode(), visibility="hidden", type="VIDEO")
        still = self.backed_up(f"{stem}.HEIC", f"still {stem}".encode(), live_photo_video_id=video)
        return still, video

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def change_settings(self, **settings: object) -> None:
        """Change settings of the partition's file."""
        _, partition = find_partition()
        known = json.loads(partition.settings_file.read_text()) if partition.settings_file.exists() else {}
        partition.settings_file.write_text(json.dumps({**known, **settings}))

    def reconcile(self, **fields: object) -> Summary:
        return pipeline.reconcile(direct.call, direct.WAY, pipeline.ReconcileRequest(**fields))  # type: ignore[arg-type]

    def apply(self, summary: Summary) -> Summary:
        assert summary.digest is not None
        return pipeline.apply(direct.call, direct.WAY, summary.digest)

    def restore(self, run_id: str, **fields: object) -> Summary:
        return pipeline.restore_run(direct.call, direct.WAY, pipeline.RestoreRequest(run_id, **fields))  # type: ignore[arg-type]

    def trashed(self) -> set[str]:
        """Names of local files whose server asset is in the trash now."""
        gone = self.simulator.trashed(self.user_id)
        return {name for name, asset_id in self.ids.items() if asset_id in gone}

    def register(self, folder: Path | None = None, name: str = "photos") -> None:
        _, partition = find_partition()
        config = register_folder(folder or self.folder)
        with writing(partition) as con:
            add(con, Registered(name, "folder", name, json.dumps(config), clock.naive_now()))


def checksum(content: bytes) -> str:
    return base64.b64encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


@contextmanager
def small_world(
    root: Path, monkeypatch: pytest.MonkeyPatch, version: str = "3.1.0", permissions: tuple[str, ...] = EVERYTHING
) -> Iterator[World]:
    """A world without photos, with an empty registered folder."""
    folder, home, work = root / "photos", root / "home", root / "work"
    for path in (folder, work):
        path.mkdir()
    world = World(folder, home)
    simulator = world.simulator = Simulator(version=version, clock=lambda: world.now)
    world.user_id = simulator.add_user("Alice", "alice@example.com")
    key = simulator.add_key(world.user_id, permissions)
    with ExitStack() as stack:
        world.url = stack.enter_context(serving(simulator))
        stack.enter_context(clock.clock_of(lambda: world.now))
        monkeypatch.chdir(work)
        monkeypatch.setenv("DELETION_SYNC_HOME", str(home))
        monkeypatch.setenv("SERVER_URL", world.url)
        monkeypatch.setenv("SERVER_API_KEY", key)
        world.register()
        yield world
