"""An Apple Photos library through the whole pipeline: what a person does in Photos, and what lands in the trash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from library.apple_photos import register_apple_photos
from state.db import writing
from state.libraries import Registered, add
from tasks import clock
from tasks.opening import find_partition
from tests.library.apple_bundle import Bundle
from tests.library.remembered import confirmed, decided
from tests.world import World, checksum, small_world


@dataclass
class Mac:
    """A Photos library, and a server that has a copy of everything it ever showed."""

    world: World
    bundle: Bundle
    keys: dict[str, str] = field(default_factory=dict)

    def photo(self, name: str, content: bytes, motion: bytes | None = None) -> str:
        self.keys[name] = self.bundle.add(name, content, motion=motion)
        video = None if motion is None else self.upload(f"{name} motion", motion, visibility="hidden", type="VIDEO")
        self.upload(name, content, live_photo_video_id=video)
        return self.keys[name]

    def upload(self, name: str, content: bytes, **fields: object) -> str:
        """Put bytes on the server, as the uploader does; ``name`` is what the test calls them."""
        asset = {"checksum": checksum(content), "file_name": name.split()[0], **fields}
        self.world.ids[name] = self.world.simulator.add_asset(self.world.user_id, **asset)  # type: ignore[arg-type]
        return self.world.ids[name]

    def edit(self, key: str, name: str, content: bytes) -> None:
        self.bundle.edit(key, content)
        self.upload(name, content)

    def days_later(self, days: int = 1) -> set[str]:
        """Run, and apply what it plans; returns everything that is in the server's trash."""
        self.world.pass_days(days)
        summary = self.world.reconcile()
        if summary.outcome == "planned":
            assert self.world.apply(summary).outcome == "trashed"
        else:
            assert summary.outcome == "nothing to do", summary
        return self.world.trashed()


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    bundle = Bundle(tmp_path / "Photos Library.photoslibrary")
    with small_world(tmp_path, monkeypatch) as world:
        mac = Mac(world, bundle)
        for number in range(8):
            mac.photo(f"IMG_{number}.JPG", b"photo %d" % number)
        mac.photo("IMG_90.JPG", b"still", motion=b"motion")
        _, partition = find_partition()
        config = json.dumps(register_apple_photos(bundle.path))
        with writing(partition) as con:
            add(con, Registered("mac", "apple_photos", "Mac", config, clock.naive_now()))
        assert world.reconcile(dry_run=False).outcome == "nothing to do"
        yield mac


def test_photos_deleted_for_good_are_trashed_after_their_quarantine(mac: Mac) -> None:
    mac.bundle.delete(mac.keys["IMG_1.JPG"])
    mac.bundle.delete(mac.keys["IMG_90.JPG"])
    assert mac.world.reconcile().counts["held"] == 2
    assert mac.days_later(13) == set()
    assert mac.days_later(1) == {"IMG_1.JPG", "IMG_90.JPG", "IMG_90.JPG motion"}


def test_a_photo_put_into_recently_deleted_starts_its_clock_there_and_goes_once_it_leaves_that(mac: Mac) -> None:
    mac.bundle.trash(mac.keys["IMG_1.JPG"])
    began = clock.naive_now()
    kept = mac.world.reconcile()
    assert (kept.counts["local"], kept.counts["held"], kept.counts["delete"]) == (10, 0, 0), kept
    assert confirmed() == {checksum(b"photo 1"): began}
    for _ in range(3):
        assert mac.days_later(10) == set()
    assert set(confirmed().values()) == {began}
    mac.bundle.delete(mac.keys["IMG_1.JPG"])
    assert mac.days_later(0) == {"IMG_1.JPG"}


def test_of_a_photo_that_leaves_recently_deleted_early_only_the_rest_of_the_quarantine_is_left(mac: Mac) -> None:
    mac.bundle.trash(mac.keys["IMG_1.JPG"])
    mac.days_later(0)
    mac.world.pass_days(5)
    mac.bundle.delete(mac.keys["IMG_1.JPG"])
    assert decided(mac.world, mac.world.reconcile()) == {"IMG_1.JPG": ("held", "quarantine", 9)}
    assert mac.days_later(8) == set()
    assert mac.days_later(1) == {"IMG_1.JPG"}


def test_lesson_15_both_halves_of_a_live_photo_go_into_recently_deleted_and_to_the_trash_together(mac: Mac) -> None:
    mac.bundle.trash(mac.keys["IMG_90.JPG"])
    assert mac.days_later(0) == set()
    assert set(confirmed()) == {checksum(b"still"), checksum(b"motion")}
    mac.bundle.delete(mac.keys["IMG_90.JPG"])
    assert mac.days_later(14) == {"IMG_90.JPG", "IMG_90.JPG motion"}


def test_lesson_4_a_photo_recovered_from_recently_deleted_is_not_confirmed_any_more_and_never_trashed(
    mac: Mac,
) -> None:
    key = mac.keys["IMG_1.JPG"]
    mac.bundle.trash(key)
    assert mac.days_later(20) == set() and confirmed()
    mac.bundle.recover(key)
    assert mac.days_later(20) == set() and not confirmed()
    mac.bundle.delete(key)  # a new deletion serves its whole quarantine
    assert mac.days_later(0) == set()
    assert mac.days_later(13) == set()
    assert mac.days_later(1) == {"IMG_1.JPG"}


def test_lesson_1_an_edited_photo_put_into_recently_deleted_and_recovered_keeps_both_versions(mac: Mac) -> None:
    key = mac.keys["IMG_1.JPG"]
    mac.edit(key, "IMG_1.JPG edited", b"edit")
    mac.days_later(0)
    mac.bundle.trash(key)
    mac.days_later(0)
    assert set(confirmed()) == {checksum(b"photo 1"), checksum(b"edit")}
    mac.bundle.recover(key)
    for _ in range(2):
        assert mac.days_later(20) == set() and not confirmed()
    mac.bundle.revert(key)  # the edit is retired; its original never is
    mac.days_later(1)
    mac.days_later(1)
    assert mac.days_later(14) == {"IMG_1.JPG edited"}


def test_an_album_of_the_library_is_a_scope(mac: Mac) -> None:
    album = mac.bundle.album("Holiday", mac.keys["IMG_1.JPG"], mac.keys["IMG_2.JPG"])
    mac.world.change_settings(indexingScope={"selectedAlbums": [f"mac/{album}"]}, thresholdPercent=100)
    mac.days_later(0)
    for name in ("IMG_1.JPG", "IMG_3.JPG"):
        mac.bundle.trash(mac.keys[name])
    mac.days_later(0)
    for name in ("IMG_1.JPG", "IMG_3.JPG"):
        mac.bundle.delete(mac.keys[name])
    assert mac.days_later(14) == {"IMG_1.JPG"}


def test_lesson_1_the_original_and_the_edit_of_a_kept_photo_stay_and_only_an_intermediate_edit_goes(mac: Mac) -> None:
    key = mac.keys["IMG_1.JPG"]
    mac.edit(key, "IMG_1.JPG E1", b"first edit")
    for _ in range(3):
        assert mac.days_later(20) == set()
    mac.edit(key, "IMG_1.JPG E2", b"second edit")
    assert mac.days_later(1) == set()
    assert mac.days_later(1) == set()
    assert mac.days_later(14) == {"IMG_1.JPG E1"}
    mac.bundle.revert(key)
    mac.days_later(1)
    mac.days_later(1)
    assert mac.days_later(14) == {"IMG_1.JPG E1", "IMG_1.JPG E2"}


def test_lesson_2_a_photo_that_was_edited_before_it_was_first_seen_keeps_both_versions(mac: Mac) -> None:
    key = mac.photo("IMG_50.JPG", b"before")
    mac.edit(key, "IMG_50.JPG edited", b"after")
    for _ in range(3):
        assert mac.days_later(20) == set()
    mac.bundle.delete(key)
    mac.days_later(0)
    assert mac.days_later(14) == {"IMG_50.JPG", "IMG_50.JPG edited"}


def test_lesson_86_while_a_new_photo_is_only_in_icloud_nothing_is_deleted(mac: Mac) -> None:
    mac.bundle.delete(mac.keys["IMG_1.JPG"])
    mac.bundle.add("IMG_60.JPG", None)
    for _ in range(3):
        mac.world.pass_days(20)
        summary = mac.world.reconcile()
        assert (summary.outcome, summary.rail) == ("aborted", "incomplete"), summary
    assert mac.world.trashed() == set()


def test_lesson_86_a_photo_whose_original_was_moved_to_icloud_is_never_trashed(mac: Mac) -> None:
    mac.bundle.evict(mac.keys["IMG_1.JPG"])
    mac.bundle.evict(mac.keys["IMG_90.JPG"])
    for _ in range(3):
        mac.world.pass_days(20)
        summary = mac.world.reconcile()
        assert summary.outcome in ("nothing to do", "aborted"), summary
    assert mac.world.trashed() == set() and not confirmed()


def test_lesson_13_what_a_partner_deletes_from_the_shared_library_stays(mac: Mac) -> None:
    shared = mac.photo("IMG_70.JPG", b"shared by both")
    mac.bundle.change(shared, ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1, LIBRARYSCOPESHARESTATE=1, LIBRARYSCOPE=1)
    assert mac.days_later(1) == set()
    mac.bundle.trash(shared)
    assert mac.days_later(1) == set()
    mac.bundle.delete(shared)
    for _ in range(3):
        assert mac.days_later(20) == set()


def test_a_photo_that_is_handed_to_the_shared_library_stays(mac: Mac) -> None:
    mac.bundle.change(mac.keys["IMG_1.JPG"], ACTIVELIBRARYSCOPEPARTICIPATIONSTATE=1)
    for _ in range(3):
        assert mac.days_later(20) == set()


def test_lesson_85_a_library_that_is_not_there_aborts_the_run(mac: Mac, tmp_path: Path) -> None:
    mac.bundle.path.rename(tmp_path / "away")
    mac.world.pass_days(20)
    summary = mac.world.reconcile()
    assert (summary.outcome, summary.rail) == ("aborted", "permission")
    (tmp_path / "away").rename(mac.bundle.path)
    assert mac.days_later(20) == set()


def test_a_photo_recovered_between_the_plan_and_its_approval_stays(mac: Mac) -> None:
    from library.apple_database import DATABASE

    before = (mac.bundle.path / DATABASE).read_bytes()
    key = mac.keys["IMG_1.JPG"]
    file = mac.bundle.path / "originals" / key[0] / f"{key}.jpg"
    content = file.read_bytes()
    mac.bundle.delete(key)
    mac.days_later(0)
    mac.world.pass_days(14)
    planned = mac.world.reconcile()
    assert planned.outcome == "planned"
    (mac.bundle.path / DATABASE).write_bytes(before)
    mac.bundle.write(f"originals/{key[0]}/{key}.jpg", content)
    mac.world.apply(planned)
    assert mac.world.trashed() == set()
