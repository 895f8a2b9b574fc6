"""The summary page: names are shown as they are, none of them becomes markup, and a restore says what came back."""

from __future__ import annotations

import pytest

from flows import report
from flows.report import _plain, markdown
from tests.kept import kept_fixture
from tests.world import World


@pytest.mark.parametrize("name", ["IMG_0001.JPG", "_MG_1234.CR2", "IMG-20240101-WA0001 (1).jpg", "a~2.jpg", "x+y & z!"])
def test_a_usual_file_name_is_shown_as_it_is(name: str) -> None:
    assert _plain(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[x](y)", r"\[x\](y)"),
        ("<img src=x>", "&lt;img src=x>"),
        ("www.x.y)<b>", "www.x.y)&lt;b>"),
        ("a|b", r"a\|b"),
        ("_a_", r"\_a\_"),
        ("**a**", r"\*\*a\*\*"),
        ("~~a~~ `b`", r"\~\~a\~\~ \`b\`"),
        ("&lt;", r"\&lt;"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("\\[x\\](y)", r"\\\[x\\\](y)"),
        ("\\", r"\\"),
        ("a\nb\u202ec", "a?b?c"),
    ],
)
def test_a_file_name_cannot_become_markup(name: str, shown: str) -> None:
    assert _plain(name) == shown


def prepare(world: World) -> None:
    world.all_backed_up("IMG_{}.JPG", 8)
    world.change_settings(thresholdFloor=100, quarantineDays=0)
    world.reconcile()
    world.remove("IMG_1.JPG", "IMG_2.JPG")
    world.reconcile()


made = kept_fixture(prepare)


def test_the_page_of_a_restore_names_the_run_and_what_came_back(world: World) -> None:
    done = world.apply(world.reconcile())
    page = markdown(world.restore(done.run_id, file_name_matches="IMG_2"), "default")
    assert f"Of the run `{done.run_id}`:" in page
    asset_id = world.ids["IMG_2.JPG"]
    assert f"[IMG_2.JPG]({world.url}/photos/{asset_id}) | restored |" in page
    assert "IMG_1.JPG" not in page


def test_the_page_of_a_restore_tells_what_did_not_come_back(world: World) -> None:
    done = world.apply(world.reconcile())
    world.simulator.faults.add("POST", "/api/trash/restore/assets", status=400, times=None)
    page = markdown(world.restore(done.run_id), "default")
    assert page.count("| not restored |") == 2


def test_the_page_of_a_large_restore_says_where_the_rest_is_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "ROWS", 1)
    done = world.apply(world.reconcile())
    page = markdown(world.restore(done.run_id), "default")
    assert page.count("| restored |") == 1
    assert f"1 more. `deletion-sync journal show --run-id {done.run_id}` shows all of them." in page
