"""What the tests of `explain` ask and arrange."""

from __future__ import annotations

import json
import os
from typing import Any

import typer
from typer.testing import CliRunner

from cli.explain import explain
from state import exclusions
from state.partition import Partition
from tasks import clock
from tasks.opening import find_partition
from tests.world import World, checksum


def prepare(world: World) -> None:
    world.backed_up("keep.jpg")


def shown(*arguments: str) -> str:
    """What the command prints; its error is raised."""
    app = typer.Typer()
    app.command()(explain)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def matches(what: str, *arguments: str) -> list[dict[str, Any]]:
    document = json.loads(shown(what, "--json", *arguments))
    assert document["what"] == what
    found: list[dict[str, Any]] = document["matches"]
    return found


def only(what: str, *arguments: str) -> dict[str, Any]:
    (match,) = matches(what, *arguments)
    return match


def line(match: dict[str, Any], rule: str) -> tuple[str, str]:
    """What a rule says, and its text."""
    (found,) = (one for one in match["lines"] if one["rule"] == rule)
    return found["says"], found["text"]


def partition() -> Partition:
    return find_partition()[1]


def exclude(*checksums: str) -> None:
    exclusions.add(partition(), checksums, "test", clock.naive_now())


def deleted(world: World, *names: str, days: float = 14) -> None:
    """Seen by one run, gone in the next, and so many days later."""
    world.reconcile()
    world.remove(*names)
    world.reconcile()
    world.pass_days(days)


def from_file(world: World, *names: str) -> None:
    """A run by a checksums file that holds these files' checksums."""
    path = world.home / "checksums.txt"
    path.write_text("".join(f"{checksum((world.folder / name).read_bytes())}\n" for name in names))
    world.reconcile(checksums_file=path)


def edited(world: World, *versions: bytes) -> None:
    """A photo that is edited, with a run after each version; the server has every version."""
    for number, content in enumerate(versions):
        world.simulator.add_asset(world.user_id, checksum=checksum(content), file_name=f"edit{number}.jpg")
        world.write("edit.jpg", content)
        os.utime(world.folder / "edit.jpg", (1_700_000_000 + number, 1_700_000_000 + number))
        world.reconcile()


def confirmed(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg")
    world.reconcile()
    return "gone.jpg"


def quarantine(world: World) -> str:
    world.backed_up("gone.jpg")
    deleted(world, "gone.jpg", days=4.5)
    world.reconcile()
    return "gone.jpg"
