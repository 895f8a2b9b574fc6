"""Whether a folder is the folder that was registered, and whether all of it can be read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from library.errors import LibraryRefused, LibraryUnavailable
from library.folder import FolderLibrary
from library.identity import MARKER_NAME, FolderConfig, overlaps, register_folder, renew_folder
from tests.library.worlds import ids, in_own_mounts, library_of, put, run_python

MARKER = MARKER_NAME.decode()


def marker_less(root: Path) -> FolderConfig:
    """Register ``root`` while nothing can be written in the marker's place."""
    (root / MARKER).mkdir(parents=True)
    (root / MARKER / "x").touch()
    config = register_folder(root)
    assert config["marker"] is None
    return config


def test_registration_leaves_one_hidden_file_and_finds_it_again(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    config = register_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "1.jpg"]
    assert register_folder(tmp_path) == config
    assert json.loads(json.dumps(config)) == config


def test_a_folder_that_cannot_be_written_to_is_known_by_its_place(tmp_path: Path) -> None:
    root = tmp_path / "root"
    config = marker_less(root)
    assert [path.name for path in root.iterdir()] == [MARKER]  # nothing half-written stays
    put(root, "1.jpg")
    assert FolderLibrary("L", "Photos", config).access().status == "full"
    root.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", root)
    access = FolderLibrary("L", "Photos", config).access()
    assert access.status == "limited"
    assert str(root) in access.problems[0]
    with pytest.raises(LibraryUnavailable, match="another folder"):
        FolderLibrary("L", "Photos", config).enumerate()


def test_a_folder_without_a_marker_on_another_file_system_is_limited(tmp_path: Path) -> None:
    config = marker_less(tmp_path / "root")
    moved = FolderConfig(**{**config, "filesystem": "0/other"})
    assert FolderLibrary("L", "Photos", moved).access().status == "limited"


def test_a_folder_with_its_marker_may_move_to_another_disk(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    library = library_of(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "root")
    assert library.access().status == "full"


def test_lesson_85_a_missing_root_is_no_empty_library(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    library = library_of(tmp_path / "root")
    shutil.rmtree(tmp_path / "root")
    for rebuilt in (False, True):  # the empty mount point that is left looks like a folder
        if rebuilt:
            (tmp_path / "root").mkdir()
        assert library.access().status == "limited"
        assert str(tmp_path / "root") in library.access().problems[0]
        with pytest.raises(LibraryUnavailable, match=r"root"):
            library.enumerate()
        with pytest.raises(LibraryUnavailable):
            library.albums()


@pytest.mark.parametrize("content", ["", "nonsense", "deletion-sync library 0123", "deletion-sync library "])
def test_another_marker_is_another_library(tmp_path: Path, content: str) -> None:
    put(tmp_path, "1.jpg")
    library = library_of(tmp_path)
    (tmp_path / MARKER).write_text(content)
    assert library.access().status == "limited"
    assert "another library" in library.access().problems[0]


def test_a_marker_that_is_a_link_does_not_count(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    library = library_of(tmp_path / "root")
    (tmp_path / "root" / MARKER).rename(tmp_path / "marker")
    (tmp_path / "root" / MARKER).symlink_to(tmp_path / "marker")
    assert library.access().status == "limited"


def test_a_root_that_became_a_link_is_limited(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    library = library_of(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "other")
    (tmp_path / "root").symlink_to("other")
    assert "is not a folder any more" in library.access().problems[0]


def test_a_root_given_through_a_link_is_its_target(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    (tmp_path / "link").symlink_to("root")
    assert register_folder(tmp_path / "link")["root"] == str(tmp_path / "root")


def test_renewing_accepts_the_folder_as_it_is_now_and_expires_tokens_of_before(tmp_path: Path) -> None:
    put(tmp_path / "root", "1.jpg")
    library = library_of(tmp_path / "root")
    before = library.enumerate()
    (tmp_path / "root" / MARKER).unlink()
    (tmp_path / "root" / "away").symlink_to(tmp_path)
    assert library.access().status == "limited"
    renewed = FolderLibrary("L", "Photos", renew_folder(library.config))
    assert renewed.access().status == "full"
    assert renewed.enumerate().complete
    assert renewed.changes_since(before.token or "", before.table, before.table).expired


def test_renewing_expires_tokens_although_the_marker_is_the_same(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    library = library_of(tmp_path)
    before = library.enumerate()
    renewed = FolderLibrary("L", "Photos", renew_folder(library.config))
    assert renewed.config["marker"] == library.config["marker"]
    assert renewed.changes_since(before.token or "", before.table, before.table).expired


@pytest.mark.parametrize("name", ["nothing", "file.jpg"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, "file.jpg")
    with pytest.raises(LibraryRefused, match=name) as caught:
        register_folder(tmp_path / name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("other", ["a", "a/b", "a/b/c", ".", "link/b", "a/../a"])
def test_the_same_or_a_nested_root_is_refused_before_anything_is_written(tmp_path: Path, other: str) -> None:
    put(tmp_path, "a/b/c/1.jpg")
    (tmp_path / "link").symlink_to("a")
    registered = register_folder(tmp_path / "a/b" if other != "a" else tmp_path / "a")
    with pytest.raises(LibraryRefused, match="overlaps the registered library"):
        register_folder(tmp_path / other, [registered])
    assert len(list(tmp_path.rglob(MARKER))) == 1


def test_folders_side_by_side_do_not_overlap(tmp_path: Path) -> None:
    put(tmp_path, "photos/1.jpg", "photos 2/1.jpg", "photos2/1.jpg")
    first = register_folder(tmp_path / "photos")
    for name in ("photos 2", "photos2"):
        assert overlaps(register_folder(tmp_path / name, [first]), [first]) is None


def test_lesson_85_a_recorded_mount_where_nothing_is_mounted_is_limited(tmp_path: Path) -> None:
    put(tmp_path, "2023/1.jpg", "2024/2.jpg")
    config = FolderConfig(**{**register_folder(tmp_path), "mounts": ["2023", "2025"]})
    library = FolderLibrary("L", "Photos", config)
    assert len(library.access().problems) == 2
    listing = library.enumerate()
    assert not listing.complete
    assert str(tmp_path / "2023") in listing.problems[0]


def test_lesson_85_a_library_that_is_half_unmounted_is_incomplete(tmp_path: Path) -> None:
    put(tmp_path, "2023/1.jpg")
    (tmp_path / "disk").mkdir()
    out = in_own_mounts(
        """
        import json, pathlib, subprocess, sys
        from tests.library.worlds import ids, library_of, put
        root = pathlib.Path(sys.argv[1])
        mount = lambda *words: subprocess.run(words, check=True)
        mount("mount", "-t", "tmpfs", "none", str(root / "disk"))
        put(root, "disk/2.jpg")
        library = library_of(root)
        whole = library.enumerate()
        mount("umount", str(root / "disk"))
        half = library.enumerate()
        mount("mount", "-t", "tmpfs", "none", str(root / "2023"))
        other = library.enumerate()
        print(json.dumps([library.config["mounts"], ids(whole), whole.problems, ids(half), half.problems,
                          library.access().status, other.problems]))
        """,
        tmp_path,
    )
    mounts, whole, whole_problems, half, half_problems, access, other_problems = json.loads(out)
    assert mounts == ["disk"]
    assert (whole, whole_problems) == (["2023/1.jpg", "disk/2.jpg"], [])
    assert half == ["2023/1.jpg"]
    assert half_problems == [f"{tmp_path}/disk: nothing is mounted here, and something was"]
    assert access == "limited"
    assert [p for p in other_problems if p.startswith(f"{tmp_path}/2023: something is mounted here")]


def test_lesson_85_a_root_on_a_disk_that_is_unmounted_is_limited(tmp_path: Path) -> None:
    out = in_own_mounts(
        """
        import pathlib, subprocess, sys
        from tests.library.worlds import library_of, put
        root = pathlib.Path(sys.argv[1])
        subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
        put(root, "1.jpg")
        library = library_of(root)
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        print(library.access().status)
        (pathlib.Path(sys.argv[2])).mkdir()
        subprocess.run(["umount", root], check=True)
        print(library.access().status)
        subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        from library.folder import FolderLibrary
        from library.identity import register_folder
        read_only = FolderLibrary("R", "Photos", register_folder(root))
        print(read_only.config["marker"], read_only.access().status)
        subprocess.run(["umount", root], check=True)
        print(read_only.access().status)
        """,
        tmp_path,
        tmp_path.with_name(tmp_path.name + "-aside"),
    )
    assert out.splitlines() == ["full", "limited", "None full", "limited"]


def test_a_second_mount_of_a_registered_folder_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a/b/1.jpg")
    (tmp_path / "second").mkdir()
    out = in_own_mounts(
        """
        import pathlib, subprocess, sys
        from library.errors import LibraryRefused
        from library.identity import register_folder
        root = pathlib.Path(sys.argv[1])
        first = register_folder(root / "a")
        subprocess.run(["mount", "--bind", root / "a", root / "second"], check=True)
        for path in ("second", "second/b"):
            try:
                register_folder(root / path, [first])
            except LibraryRefused as error:
                print("overlaps" in str(error))
        """,
        tmp_path,
    )
    assert out.split() == ["True", "True"]


def test_lesson_85_an_unreadable_folder_is_limited_and_an_incomplete_listing(tmp_path: Path) -> None:
    put(tmp_path, "open/1.jpg", "closed/2.jpg", "listed only/3.jpg")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent.stat().st_mode & 0o1 == 0:
            parent.chmod(parent.stat().st_mode | 0o111)  # pytest makes its folders private
    library = library_of(tmp_path)
    (tmp_path / MARKER).chmod(0o644)
    (tmp_path / "closed").chmod(0)
    (tmp_path / "listed only").chmod(0o444)
    try:
        out = run_python(
            """
            import json, os, sys
            from library.folder import FolderLibrary
            from tests.library.worlds import ids
            library = FolderLibrary("L", "Photos", json.loads(sys.argv[1]))
            library.enumerate()  # what is imported on the way may be unreadable below
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            listing = library.enumerate()
            print(json.dumps([ids(listing), listing.problems, library.access().problems]))
            """,
            json.dumps(library.config),
        )
    finally:
        (tmp_path / "closed").chmod(0o755)
        (tmp_path / "listed only").chmod(0o755)
    listed, problems, access_problems = json.loads(out)
    assert listed == ["open/1.jpg"]
    for found in (problems, access_problems):
        assert sorted(problem.partition(": it cannot be read")[0] for problem in found) == [
            str(tmp_path / "closed"),
            str(tmp_path / "listed only"),
        ]


def test_a_library_in_order_has_full_access(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    assert library_of(tmp_path).access().status == "full"
    assert ids(library_of(tmp_path).enumerate()) == ["a/1.jpg"]
