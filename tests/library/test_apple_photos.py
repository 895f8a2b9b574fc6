"""What an Apple Photos library promises, on bundles that are built here (tests/library/apple_bundle.py says how)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from library.apple_photos import NOT_HERE, ApplePhotosLibrary
from library.hashing import hash_parts
from library.protocol import Changes, Enumeration
from tests.library.apple_bundle import VERSIONS, Bundle
from tests.library.worlds import trashed_ids
from tests.world import checksum


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path / "Photos Library.photoslibrary")


def rows(listing: Enumeration, key: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listing.table.to_pylist()
    return [row for row in found if key in (None, row["local_id"])]


def ids(listing: Enumeration) -> set[str]:
    return {row["local_id"] for row in rows(listing)}


def contents(bundle: Bundle, key: str) -> dict[str, str | None]:
    """Part to checksum, as the hashing of the pipeline finds it."""
    library = bundle.library()
    hashed = hash_parts({"L": library}, library.enumerate().table, workers=2)
    return {one.part: one.checksum for one in hashed if one.local_id == key}


def changes(library: ApplePhotosLibrary, before: Enumeration) -> Changes:
    after = library.enumerate()
    assert before.token is not None
    return library.changes_since(before.token, before.table, after.table)


@pytest.mark.parametrize("model", VERSIONS)
def test_every_supported_version_of_photos_is_read(tmp_path: Path, model: int) -> None:
    bundle = Bundle(tmp_path / "P.photoslibrary", model)
    heic, suffix = "public.heic", ".jpeg" if VERSIONS[model] == 5 else ".heic"
    plain = bundle.add("IMG_1.JPG", b"plain")
    edited = bundle.add("IMG_2.HEIC", b"before", uti=heic)
    live = bundle.add("IMG_3.HEIC", b"still", uti=heic, motion=b"motion")
    bundle.edit(edited, b"after", suffix=suffix)
    album = bundle.album("Été à la mer", plain)
    assert contents(bundle, plain) == {"primary": checksum(b"plain")}
    assert contents(bundle, edited) == {"primary": checksum(b"after"), "original": checksum(b"before")}
    assert contents(bundle, live) == {"primary": checksum(b"still"), "motion": checksum(b"motion")}
    library = bundle.library()
    assert rows(library.enumerate(), plain)[0]["albums"] == [album]
    assert library.albums() == {album: "Été à la mer"}


def test_names_are_those_that_the_user_knows_with_the_type_that_the_file_has(bundle: Bundle) -> None:
    edited = bundle.add("Grüße 🌊.png", b"before", uti="public.png", motion=b"motion")
    bundle.edit(edited, b"after")
    names = {row["part"]: row["file_name"] for row in rows(bundle.library().enumerate(), edited)}
    assert names == {"primary": "Grüße 🌊.jpeg", "original": "Grüße 🌊.png", "motion": "Grüße 🌊.mov"}


def test_an_edited_live_photo_has_both_halves_before_and_after_the_edit(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"still", motion=b"motion")
    bundle.edit(key, b"still after", motion=b"motion after")
    assert contents(bundle, key) == {
        "primary": checksum(b"still after"),
        "original": checksum(b"still"),
        "motion": checksum(b"motion after"),
        "original_motion": checksum(b"motion"),
    }
    bundle.revert(key)
    assert contents(bundle, key) == {"primary": checksum(b"still"), "motion": checksum(b"motion")}


def test_both_files_of_a_raw_pair_are_known(bundle: Bundle) -> None:
    key = bundle.add("DSC1.JPG", b"jpeg", raw=b"raw")
    assert contents(bundle, key) == {"primary": checksum(b"jpeg"), "raw": checksum(b"raw")}


def test_lesson_24_every_burst_frame_hidden_photo_and_video_is_listed(bundle: Bundle) -> None:
    frames = {
        bundle.add(f"B{pick}.JPG", b"%d" % pick, AVALANCHEUUID="BURST", AVALANCHEPICKTYPE=pick, VISIBILITYSTATE=2)
        for pick in (2, 4, 8, 16, 32)
    }
    hidden = bundle.add("hidden.jpg", b"hidden", HIDDEN=1)
    video = bundle.add("clip.MOV", b"video", uti="com.apple.quicktime-movie")
    assert ids(bundle.library().enumerate()) == {*frames, hidden, video}
    assert contents(bundle, video) == {"primary": checksum(b"video")}


def test_lesson_24_an_asset_that_osxphotos_leaves_out_makes_the_listing_incomplete(bundle: Bundle) -> None:
    kept = bundle.add("IMG_1.JPG", b"one")
    lost = bundle.add("IMG_2.JPG", b"two")
    bundle.execute("DELETE FROM ZADDITIONALASSETATTRIBUTES WHERE ZORIGINALFILENAME = 'IMG_2.JPG'")
    listing = bundle.library().enumerate()
    assert ids(listing) == {kept}
    assert not listing.complete and lost in listing.problems[0]


def test_lesson_22_a_photo_in_recently_deleted_is_still_held_and_reported_as_trashed(bundle: Bundle) -> None:
    key, other = bundle.add("IMG_1.JPG", b"one"), bundle.add("IMG_2.JPG", b"two")
    library = bundle.library()
    before = library.enumerate()
    assert trashed_ids(before) == frozenset()
    bundle.trash(key)
    after = library.enumerate()
    assert ids(after) == {key, other} and trashed_ids(after) == {key} and after.complete
    assert contents(bundle, key) == {"primary": checksum(b"one")}
    assert changes(library, before).table.to_pylist() == [{"local_id": key, "change": "trashed", "former_id": None}]


def test_changes_are_told_apart(bundle: Bundle) -> None:
    gone, edited, same = (bundle.add(f"IMG_{n}.JPG", b"%d" % n) for n in range(3))
    library = bundle.library()
    before = library.enumerate()
    bundle.delete(gone)
    bundle.edit(edited, b"after")
    new = bundle.add("IMG_9.JPG", b"9")
    found = changes(library, before)
    assert not found.expired
    told = dict(zip(found.table["local_id"].to_pylist(), found.table["change"].to_pylist(), strict=True))
    assert told == {new: "inserted", edited: "updated", gone: "deleted"}
    assert same in ids(library.enumerate())


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "shared album": ({"CLOUDBATCHPUBLISHDATE": 7e8}, {}),
    "shared album since macOS 26": ({"COLLECTIONSHARE": 3}, {}),
    "shared library": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1, "LIBRARYSCOPESHARESTATE": 1, "LIBRARYSCOPE": 1}, {}),
    "shared library, in use alone": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1}, {}),
    "shared library, being left": ({"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 0, "LIBRARYSCOPESHARESTATE": 1}, {}),
    "shared library, being joined": ({"LIBRARYSCOPE": 1}, {}),
    "shared library, thrown away by a participant": (
        {"ACTIVELIBRARYSCOPEPARTICIPATIONSTATE": 1, "LIBRARYSCOPE": 1, "TRASHEDSTATE": 1},
        {},
    ),
    "received by a link, not downloaded": ({"MOMENTSHARE": 1, "BUNDLESCOPE": 1}, {}),
    "sent and not saved": ({"SYNDICATIONSTATE": 1}, {"SYNDICATIONIDENTIFIER": "chat", "SYNDICATIONHISTORY": 0}),
}


@pytest.mark.parametrize("how", OTHERS)
def test_lesson_13_what_others_share_is_never_listed(bundle: Bundle, how: str) -> None:
    asset, attributes = OTHERS[how]
    own = bundle.add("IMG_1.JPG", b"own")
    content = None if "not downloaded" in how else b"theirs"
    theirs = bundle.add("IMG_2.JPG", content, attributes=attributes, **asset)
    library = bundle.library()
    listing = library.enumerate()
    assert ids(listing) == {own} and listing.withheld == {theirs} and listing.complete
    with pytest.raises(FileNotFoundError):
        library.open_bytes(theirs, "primary")


@pytest.mark.parametrize("model", [model for model in VERSIONS if model >= 16000])
def test_lesson_13_the_shared_library_is_withheld_in_every_version_that_has_one(tmp_path: Path, model: int) -> None:
    bundle = Bundle(tmp_path / "P.photoslibrary", model)
    own = bundle.add("IMG_1.JPG", b"own")
    partners = bundle.add("IMG_2.JPG", b"partner's")
    handed = bundle.add("IMG_3.JPG", b"own, given to both")
    bundle.change(own, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=0, LIBRARYSCOPESHARESTATE=0)
    for key in (partners, handed):
        bundle.change(key, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1, LIBRARYSCOPESHARESTATE=1, LIBRARYSCOPE=1)
    listing = bundle.library().enumerate()
    assert ids(listing) == {own} and listing.withheld == {partners, handed} and listing.complete


def test_an_own_photo_that_was_shared_by_a_link_is_listed(bundle: Bundle) -> None:
    own = bundle.add("IMG_1.JPG", b"own", MOMENTSHARE=1, BUNDLESCOPE=0)
    assert ids(bundle.library().enumerate()) == {own}


def test_a_photo_that_was_sent_and_saved_is_ones_own(bundle: Bundle) -> None:
    saved = bundle.add("IMG_1.JPG", b"1", attributes={"SYNDICATIONIDENTIFIER": "chat", "SYNDICATIONHISTORY": 2})
    assert ids(bundle.library().enumerate()) == {saved}


def test_a_photo_that_is_handed_to_the_shared_library_was_not_deleted(bundle: Bundle) -> None:
    key, kept = bundle.add("IMG_1.JPG", b"one"), bundle.add("IMG_2.JPG", b"two")
    library = bundle.library()
    before = library.enumerate()
    bundle.change(key, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1)
    assert changes(library, before).table.to_pylist() == [{"local_id": key, "change": "withheld", "former_id": None}]
    assert library.enumerate().withheld == {key} and ids(library.enumerate()) == {kept}


def test_lesson_29_a_photo_that_is_only_in_icloud_is_a_row_without_bytes(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", None)
    library = bundle.library()
    listing = library.enumerate()
    (row,) = rows(listing, key)
    assert (row["size"], row["modified_ns"], row["file_identity"]) == (None, None, None)
    with pytest.raises(OSError, match="iCloud"):
        library.open_bytes(key, "primary")
    (hashed,) = hash_parts({"L": library}, listing.table)
    assert hashed.checksum is None and hashed.problem is not None and NOT_HERE in hashed.problem


def test_an_edit_that_is_not_here_has_no_bytes_rather_than_those_of_the_original(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"before")
    bundle.edit(key, None)
    assert contents(bundle, key) == {"primary": None, "original": checksum(b"before")}


def test_a_motion_video_that_is_not_here_has_no_bytes(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"still", motion=b"motion")
    (bundle.path / "originals" / key[0] / f"{key}_3.mov").unlink()
    assert contents(bundle, key) == {"primary": checksum(b"still"), "motion": None}


def test_a_file_that_is_replaced_after_the_listing_gets_no_checksum(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"before")
    listing = bundle.library().enumerate()
    bundle.edit(key, b"after")
    (hashed,) = hash_parts({"L": bundle.library()}, listing.table)
    assert hashed.checksum is None and hashed.problem == "it changed after it was listed"


def test_albums_in_the_trash_shared_albums_and_folders_are_no_albums(bundle: Bundle) -> None:
    key = bundle.add("IMG_1.JPG", b"one")
    album = bundle.album("Mine", key)
    bundle.album("Thrown away", key, TRASHEDSTATE=1)
    bundle.album("Shared", key, KIND=1505, CLOUDOWNERHASHEDPERSONID="someone", CLOUDLOCALSTATE=1)
    bundle.album("Folder", KIND=4000)
    library = bundle.library()
    assert rows(library.enumerate())[0]["albums"] == [album]
    assert library.albums() == {album: "Mine"}
