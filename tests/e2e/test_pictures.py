"""The demo's pictures are what they claim to be: real JPEGs with EXIF, real QuickTime videos, real Live Photos."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import av
import pytest
from PIL import Image, ImageChops

from demo import pictures
from demo.pictures import Picture
from library.folder import FolderLibrary
from library.hashing import hash_parts
from library.identity import register_folder
from library.protocol import Hashed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("photos")


@pytest.fixture(scope="module")
def written(folder: Path) -> tuple[Picture, ...]:
    return pictures.write_library(folder)


@pytest.fixture(scope="module")
def hashed(folder: Path, written: tuple[Picture, ...]) -> dict[tuple[str, str], Hashed]:
    """What the client makes of each part, by local id and part."""
    library = FolderLibrary("photos", "photos", register_folder(folder))
    listing = library.enumerate()
    assert listing.complete
    return {(one.local_id, one.part): one for one in hash_parts({"photos": library}, listing.table)}


def test_every_jpeg_opens_and_carries_camera_time_and_offset(written: tuple[Picture, ...]) -> None:
    for picture in written:
        with Image.open(picture.path) as image:
            image.load()
            assert image.format == "JPEG" and image.size == pictures.STILL_SIZE
            exif = image.getexif()
        taken = exif.get_ifd(0x8769)
        assert (exif[0x010F], exif[0x0110]) == (pictures.MAKE, pictures.MODEL)
        assert datetime.strptime(f"{taken[0x9003]} {taken[0x9011]}", "%Y:%m:%d %H:%M:%S %z") == picture.captured_at


def test_pictures_look_different(written: tuple[Picture, ...]) -> None:
    shown = set()
    for picture in written:
        with Image.open(picture.path) as image:
            shown.add(image.resize((32, 24)).tobytes())
    assert len(shown) == pictures.PHOTOS


def test_every_motion_video_decodes_for_one_second(written: tuple[Picture, ...]) -> None:
    motions = [picture.motion for picture in written if picture.motion is not None]
    assert len(motions) == len(pictures.LIVE_PHOTOS)
    for path in motions:
        assert path.read_bytes()[4:12] == b"ftypqt  "
        with av.open(str(path)) as container:
            assert container.duration == 1_000_000
            frames = [frame.to_image() for frame in container.decode(video=0)]  # type: ignore[no-untyped-call]
        assert [frame.size for frame in frames] == [pictures.MOTION_SIZE] * pictures.FRAMES_A_SECOND
        change = ImageChops.difference(frames[0], frames[-1]).convert("L")
        assert any(change.histogram()[50:])  # it moves


def test_the_library_sees_live_photos_as_one_asset_of_two_parts(
    written: tuple[Picture, ...], hashed: dict[tuple[str, str], Hashed], folder: Path
) -> None:
    primary = {local_id for local_id, part in hashed if part == "primary"}
    motion = {local_id for local_id, part in hashed if part == "motion"}
    assert primary == {picture.path.relative_to(folder).as_posix() for picture in written}
    assert motion == {picture.path.relative_to(folder).as_posix() for picture in written if picture.motion}


def test_contents_are_distinct_except_for_the_one_copy(hashed: dict[tuple[str, str], Hashed]) -> None:
    checksums = [one.checksum for one in hashed.values()]
    assert None not in checksums
    assert len(checksums) == len(set(checksums)) + 1 == pictures.PHOTOS + len(pictures.LIVE_PHOTOS) + 1
    name = f"IMG_{pictures.COPIED:04d}.JPG"
    copies = [one for (local_id, _), one in hashed.items() if local_id.endswith(name)]
    assert len(copies) == 2 and copies[0].checksum == copies[1].checksum


def test_the_clients_capture_time_is_the_exif_time(
    written: tuple[Picture, ...], hashed: dict[tuple[str, str], Hashed], folder: Path
) -> None:
    for picture in written:
        local_id = picture.path.relative_to(folder).as_posix()
        for part in ("primary", "motion") if picture.motion else ("primary",):
            found = hashed[local_id, part].captured_at
            assert found is not None and datetime.fromtimestamp(found / 1e6, UTC) == picture.captured_at


def test_an_edit_has_other_bytes_and_the_same_capture_time(tmp_path: Path) -> None:
    taken = pictures.captured_at(3)
    before, after = pictures.still(3, taken), pictures.still(3, taken, edited=True)
    assert before != after
    for content in (before, after):
        path = tmp_path / f"{hashlib.sha256(content).hexdigest()}.JPG"
        path.write_bytes(content)
        with Image.open(path) as image:
            assert image.getexif().get_ifd(0x8769)[0x9003] == taken.strftime("%Y:%m:%d %H:%M:%S")


def test_the_same_call_writes_the_same_bytes(tmp_path: Path, written: tuple[Picture, ...], folder: Path) -> None:
    for picture in pictures.write_library(tmp_path):
        for path in (picture.path, picture.motion):
            if path is not None:
                assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes()
