"""A warm scan at size: the listing, the change log and the cached hashes of a folder that was scanned before, against
`find` over the same tree.

    python -m bench.scan [--files 200000] [--changes 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.partition import Partition

FOLDERS = 1000
USER = "00000000-0000-4000-8000-000000000000"
FIND = ["find", ".", "-printf", r"%p %T@ %s\n"]
# One photo in ten is a Live Photo.
NAMES = ("IMG_{:07d}.HEIC", "IMG_{:07d}.MOV", *(["IMG_{:07d}.JPG"] * 9))

# What a first run over these files would have left behind. Each file has a checksum of its own, made from its inode.
REMEMBER = """
CREATE TABLE made AS
    SELECT * REPLACE (format('{:027d}=', split_part(file_identity, ':', -1)::BIGINT) AS checksum),
        NULL::TIMESTAMP AS captured_at
    FROM listing
"""


@dataclass(frozen=True)
class Round:
    """Seconds of one scan, by part."""

    listing: float
    hashes: float
    changes: dict[str, int]
    to_hash: int


def make_tree(root: Path, count: int) -> None:
    """Empty files in folders of one size, two levels deep."""
    for number in range(FOLDERS):
        folder = root / f"{2000 + number // 50}" / f"{number:04d}"
        folder.mkdir(parents=True)
        descriptor = os.open(folder, os.O_RDONLY)
        for file in range(number, count, FOLDERS):
            place = file // FOLDERS
            name = NAMES[place % len(NAMES)].format(place // len(NAMES) * 10 + max(0, place % len(NAMES) - 1))
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.close(descriptor)


def first_scan(root: Path, home: Path) -> None:
    """Register the folder, and leave what a run over it would have left: the index, the token, the hashes."""
    import pyarrow as pa

    from engine.database import connect
    from engine.relations import LOCAL
    from library.identity import register_folder
    from library.registry import open_library
    from state import hash_cache
    from state.db import writing
    from state.home import Home
    from state.libraries import Registered, add, save_token

    config = dict(register_folder(root))
    listing = open_library("bench", "folder", "photos", config).enumerate()
    con = connect()
    con.register("listing", listing.table)
    con.execute(REMEMBER)
    rows: pa.Table = con.sql(f"SELECT {', '.join(LOCAL.names)} FROM made").to_arrow_table().cast(LOCAL)
    con.close()
    hash_cache.remember(Home(home), rows)
    with writing(_partition(home)) as state:
        now = datetime.fromisoformat("2026-01-01")
        add(state, Registered("bench", "folder", "photos", json.dumps(config), now))
        state.register("made", rows)
        state.execute(f"INSERT INTO local_index ({', '.join(LOCAL.names)}) FROM made")
        save_token(state, "bench", listing.token, now)


def scan(home: Path) -> Round:
    """What a run does before it reads its first byte."""
    from state import hash_cache
    from state.home import Home
    from tasks.context import Context
    from tasks.enumerate import list_and_compare
    from tasks.refs import RunRef

    partition = _partition(home)
    context = Context(RunRef(str(home), partition.name, "bench"), Home(home), partition, home, {"checksums_file": None})
    begun = time.perf_counter()
    table, facts, _ = list_and_compare(context, context.libraries(), log=True)
    listed = time.perf_counter()
    _, wanted = hash_cache.split(Home(home), table)
    done = time.perf_counter()
    assert not facts.access_problems and not facts.gaps and not facts.history_lost, facts
    return Round(listed - begun, done - listed, facts.changes, wanted.num_rows)


def change(root: Path, count: int) -> None:
    """Delete, rename, touch and add photos, in turns, so that a scan finds ``count`` changes."""
    (folder,) = root.glob("2000/0000")
    names = sorted(folder.glob("*.JPG"))
    for number in range(count):
        path = names[number * 3]
        if number % 4 == 0:
            path.unlink()
        elif number % 4 == 1:
            path.rename(path.with_name(f"renamed-{number}.jpg"))
        elif number % 4 == 2:
            os.utime(path, (1, 1))
        else:
            (folder / f"new-{number}.jpg").touch()


def _partition(home: Path) -> Partition:
    from state.home import Home
    from state.partition import activate

    return activate(Home(home), "https://photos.example.org", USER, lambda line: None)


def _megabytes() -> float:
    """The most memory that this program held; what its parent held before does not count, as it does for getrusage."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _warm(root: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(FIND, stdout=subprocess.DEVNULL, check=True, cwd=root)
    return time.perf_counter() - begun


def measure(root: Path, home: Path, rounds: int) -> None:
    """The rounds, in a process of their own, so that its memory is theirs: `find` and the scan in turns."""
    before = _megabytes()
    finds, scans, work = [], [], []
    for _ in range(rounds):
        begun = os.times()
        finds.append(_warm(root))
        found = os.times()
        scans.append(scan(home))
        done = os.times()
        children = sum(found[2:4]) - sum(begun[2:4])
        work.append((sum(done[:2]) - sum(found[:2])) / children)
    find = statistics.median(finds)
    ours = statistics.median(one.listing + one.hashes for one in scans)
    print(f"changes found {scans[-1].changes}, parts to hash {scans[-1].to_hash}")
    listing = statistics.median(one.listing for one in scans)
    print(f"scan {ours:.2f} s (listing and change log {listing:.2f} s) = {ours / find:.1f} times find ({find:.2f} s)")
    print(f"processor time {statistics.median(work):.1f} times find's")
    print(f"peak memory {_megabytes() - before:.0f} MB above an idle interpreter")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", type=int, default=200_000)
    options.add_argument("--changes", type=int, default=10)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--measure", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        root, home = given.measure
        measure(root, home, given.rounds)
        return
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place, "photos"), Path(place, "home")
        root.mkdir()
        make_tree(root, given.files)
        first_scan(root, home)
        again = [sys.executable, "-m", "bench.scan", "--rounds", str(given.rounds), "--measure", str(root), str(home)]
        print(f"{given.files} files in {FOLDERS} folders, nothing changed", flush=True)
        subprocess.run(again, check=True)
        change(root, given.changes)
        print(f"{given.files} files in {FOLDERS} folders, {given.changes} changes", flush=True)
        subprocess.run(again, check=True)


if __name__ == "__main__":
    main()
