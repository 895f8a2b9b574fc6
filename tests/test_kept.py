"""Whatever a test did to a kept world, the next test finds it as it was made."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.stage import partition_of, tables
from tests.e2e.bad_days import all_is_well, delete_some, furnish
from tests.kept import kept_world
from tests.world import World


def seen(world: World) -> list[object]:
    """What a run could see of either side."""
    files = sorted(path for path in world.folder.rglob("*") if path.is_file())
    states = [(path, path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) for path in files]
    homes = sorted((path, path.stat().st_size) for path in world.home.rglob("*") if path.is_file())
    server = (sorted(world.simulator.assets), world.simulator.trashed(), world.simulator.tags())
    return [states, homes, server, world.simulator.trash_days, tables(partition_of(world)), world.now, world.ids]


def test_a_kept_world_is_put_back_whole(tmp_path: Path) -> None:
    with kept_world(tmp_path, furnish) as again:
        before = seen(again())
        world = again()
        names = delete_some(world)
        all_is_well(world, names)
        world.backed_up("2021/more.JPG")
        world.simulator.trash_days = 1
        world.simulator.faults.add("*", "/", status=500, times=None)
        (world.folder / "2020/IMG_0.JPG").write_bytes(b"other")
        os.utime(world.folder / "2020/IMG_2.JPG", (1, 1))
        (world.folder / "2020/IMG_4.JPG").rename(world.folder / "moved.JPG")
        (world.folder.with_name("beside")).mkdir()
        Path("in the working directory").touch()
        assert seen(world) != before
        assert seen(again()) == before
        assert not world.folder.with_name("beside").exists() and not list(Path.cwd().iterdir())
        assert again().reconcile().outcome == "nothing to do"


def test_a_kept_world_whose_library_was_moved_away_is_made_again(tmp_path: Path) -> None:
    made: list[str] = []
    with kept_world(tmp_path, lambda world: made.append(world.write("a.JPG"))) as again:
        again().folder.rename(tmp_path / "away")
        assert (again().folder / "a.JPG").exists() and len(made) == 2
        again()
        assert len(made) == 2
