"""A world that is made once for a module and put back for each test: its first runs are paid for once.

Put back is everything that a test can reach: the state folder, the photos with their inodes, the server, the clock.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from server.simulator import Simulator
from server.simulator.faults import Faults
from tests.world import World, small_world

NOT_OF_THE_SERVER = frozenset({"lock", "clock", "faults", "requests"})


@dataclass(frozen=True, slots=True)
class Photo:
    """``link``: a second name of the file, so that its inode stays when a test removes it."""

    place: Path
    link: Path
    content: bytes
    mode: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A world as it was when its preparation ended. ``inode``: that of the library's folder."""

    world: World
    home: Path
    photos: tuple[Photo, ...]
    inode: int
    server: dict[str, Any]
    ids: dict[str, str]
    now: datetime


Made = Callable[[], World]


def kept_fixture(prepare: Callable[[World], object], **options: Any) -> Any:
    """A fixture of a module: what gives each test the world that ``prepare`` made, as it was then."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
        with kept_world(tmp_path_factory.mktemp("made"), prepare, **options) as again:
            yield again

    return made


@contextmanager
def kept_world(root: Path, prepare: Callable[[World], object], **options: Any) -> Iterator[Made]:
    """Yields what gives the world that ``prepare`` made: as it was then, whatever was done to it since.

    Where its library was moved away it is made again. ``options`` are those of small_world. It is the caller's to end
    what works in the world before asking for it again.
    """
    with ExitStack() as ending:
        kept: list[Kept] = []

        def again() -> World:
            if kept and kept[0].world.folder.is_dir() and kept[0].world.folder.stat().st_ino == kept[0].inode:
                _put_back(kept[0])
            else:
                ending.close()
                place = root / f"made-{len(list(root.iterdir()))}"
                kept[:] = [_made(place, prepare, ending, options)]
            assert os.environ["SERVER_URL"] == kept[0].world.url, "one kept world at a time"
            return kept[0].world

        yield again


def _made(place: Path, prepare: Callable[[World], object], ending: ExitStack, options: dict[str, Any]) -> Kept:
    (place / "world").mkdir(parents=True)
    patch = ending.enter_context(pytest.MonkeyPatch.context())
    world = ending.enter_context(small_world(place / "world", patch, **options))
    prepare(world)
    home = place / "home"
    shutil.copytree(world.home, home)
    files = sorted(path for path in world.folder.rglob("*") if path.is_file())
    (place / "photos").mkdir()
    photos = tuple(_photo(path, place / "photos" / str(number)) for number, path in enumerate(files))
    with world.simulator.lock:
        server = copy.deepcopy(_server(world.simulator))
    return Kept(world, home, photos, world.folder.stat().st_ino, server, dict(world.ids), world.now)


def _photo(path: Path, link: Path) -> Photo:
    link.hardlink_to(path)
    found = path.stat()
    return Photo(path, link, path.read_bytes(), found.st_mode, found.st_mtime_ns)


def _server(simulator: Simulator) -> dict[str, Any]:
    return {name: value for name, value in vars(simulator).items() if name not in NOT_OF_THE_SERVER}


def _put_back(kept: Kept) -> None:
    world = kept.world
    for path in [*world.folder.parent.iterdir(), *world.folder.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            if path != world.folder:
                shutil.rmtree(path)
        else:
            path.unlink()
    shutil.copytree(kept.home, world.home)
    for photo in kept.photos:
        if photo.link.read_bytes() != photo.content:
            photo.link.write_bytes(photo.content)
        photo.link.chmod(photo.mode)
        os.utime(photo.link, ns=(photo.modified_ns, photo.modified_ns))
        photo.place.parent.mkdir(parents=True, exist_ok=True)
        photo.place.hardlink_to(photo.link)
    work = world.folder.with_name("work")
    work.mkdir()
    os.chdir(work)
    simulator = world.simulator
    with simulator.lock:
        vars(simulator).update(copy.deepcopy(kept.server))
        simulator.faults = Faults()
        simulator.requests.clear()
    world.ids, world.now = dict(kept.ids), kept.now
