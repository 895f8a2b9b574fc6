"""`library deferred` and `library hash-now`, as a person meets them."""

from __future__ import annotations

import os

from tests.cli.program import ok, run
from tests.world import World


def test_what_could_not_be_read_is_listed_with_its_reason_and_worked_off(world: World) -> None:
    world.backed_up("small.JPG")
    world.write("large.MOV", os.urandom(1_000_001))
    world.change_settings(hashSizeLimitMB=1)
    aborted = run("dry-run")
    assert aborted.code == 3
    assert "deletion-sync library hash-now" in aborted.out + aborted.err
    listed = ok("library", "deferred").out
    assert "large.MOV" in listed
    assert "larger than hashSizeLimitMB" in listed
    (one,) = ok("library", "deferred", "--json").json["deferred"]
    assert (one["library"], one["size"], one["reason"], one["attempts"]) == ("photos", 1_000_001, "too_large", 0)
    assert "Read 1 file; 0 left." in ok("library", "hash-now", "photos").out
    assert ok("library", "deferred").out == "Every file has been read.\n"
    assert ok("dry-run").code == 0


def test_hash_now_of_a_library_that_is_away_says_so_and_ends_with_5(world: World) -> None:
    world.backed_up("small.JPG")
    world.write("large.MOV", os.urandom(1_000_001))
    world.change_settings(hashSizeLimitMB=1)
    run("dry-run")
    world.folder.rename(world.folder.with_name("away"))
    found = run("library", "hash-now")
    assert found.code == 5
    assert "1 left" in found.out
    assert "not available" in found.err


def test_hash_now_of_an_unknown_library_names_those_that_there_are(world: World) -> None:
    found = run("library", "hash-now", "nothing")
    assert found.code == 2
    assert "“photos”" in found.err
