"""Hashing against its peer: `openssl sha1` over the same files with as many processes as cores, in the same run.

python -m bench.hashing [--small 10000] [--large 20] [--photos 2000] [--rounds 3]

Small files of 200 kB and large ones of 500 MB of random bytes, and real JPEGs with metadata. The files are read once
beforehand, so that both sides find them in the page cache; then they take turns, and the best of each counts.
Memory is what hashing adds to its process, and all that its worker processes have.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_MEGABYTE = 1 << 20

# Hashes a folder; tells the seconds, and the peak memory of itself (above what it was before) and of its workers in kB.
_OURS = """
import pathlib, sys, time
from library.folder import FolderLibrary
from library.hashing import hash_groups
from library.identity import register_folder

def peak(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2]
    return int(text.split()[0]) if text else 0

def workers():
    return " ".join(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children")).split()

library = FolderLibrary("bench", "photos", register_folder(pathlib.Path(sys.argv[1])))
table = library.enumerate().table
idle, most = peak("self"), {}
begun = time.perf_counter()
for number, group in enumerate(hash_groups({"bench": library}, table)):
    for _, (checksum, _, _, problem) in group:
        assert checksum is not None, problem
    if number % 20 == 0:
        most.update({pid: peak(pid) for pid in workers()})
print(time.perf_counter() - begun, peak("self") - idle + sum(most.values()))
"""


def make_random(folder: Path, count: int, size: int) -> None:
    """Files of random bytes in folders of a hundred. Large ones repeat a random megabyte."""
    block = os.urandom(min(size, _MEGABYTE))
    for number in range(count):
        path = folder / f"{number // 100:04d}" / f"IMG_{number:06d}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(os.urandom(8))
            for start in range(8, size, len(block)):
                file.write(block[: size - start])


def make_photos(folder: Path, count: int) -> None:
    """JPEGs of noise with a camera's metadata, a megabyte or so each, all different."""
    from PIL import Image

    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "A camera", "Model 1"
    exif.get_ifd(0x8769).update({0x9003: "2023:07:01 12:34:56", 0x9011: "+02:00", 0x927C: b"\0" * 3000})
    file = io.BytesIO()
    Image.effect_noise((1600, 1200), 60).save(file, "JPEG", exif=exif, quality=85)
    content = file.getvalue()
    for number in range(count):
        path = folder / f"{number // 100:04d}" / f"IMG_{number:06d}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[:-2] + number.to_bytes(4, "big") + content[-2:])


def peer(folder: Path, together: int) -> float:
    """Seconds that openssl takes on all cores, given so many files at a time."""
    begun = time.perf_counter()
    subprocess.run(
        f"find . -name '*.JPG' -print0 | xargs -0 -P{os.cpu_count()} -n {together} openssl sha1 > /dev/null",
        shell=True, check=True, cwd=folder,
    )  # fmt: skip
    return time.perf_counter() - begun


def ours(folder: Path) -> tuple[float, float]:
    """Seconds and megabytes of hashing a folder, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _OURS, str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) / 1024


def compare(title: str, folder: Path, rounds: int, together: int) -> None:
    """Print the best of each side, taken in turns."""
    peer(folder, together)  # warms the page cache
    theirs, mine, memory = [], [], []
    for _ in range(rounds):
        theirs.append(peer(folder, together))
        seconds, megabytes = ours(folder)
        mine.append(seconds)
        memory.append(megabytes)
    print(
        f"{title:<28}ours {min(mine):6.2f} s, openssl {min(theirs):6.2f} s: {min(mine) / min(theirs):.2f} times; "
        f"{max(memory):.0f} MB above the interpreter",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", type=int, default=10_000)
    options.add_argument("--large", type=int, default=20)
    options.add_argument("--photos", type=int, default=2000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        for title, count, size, together in (
            ("200 kB", given.small, 200_000, 64),
            ("500 MB", given.large, 500_000_000, 1),  # one at a time, so that no core is left idle
        ):
            if count:
                folder = Path(temporary) / title.replace(" ", "")
                make_random(folder, count, size)
                compare(f"{count} files of {title}", folder, given.rounds, together)
                shutil.rmtree(folder)
        if given.photos:
            folder = Path(temporary) / "photos"
            make_photos(folder, given.photos)
            compare(f"{given.photos} JPEGs", folder, given.rounds, 64)


if __name__ == "__main__":
    main()
