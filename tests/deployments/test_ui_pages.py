"""The UI's pages in a real browser: they show what a person needs, and ask nobody but their own server for anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deployments.browsing import CHROMIUM, Browser, browser
from tests.deployments.show import Scene, form, scene, summary
from tests.deployments.upping import until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
UIS = ("", "/v2")


@dataclass
class Seen:
    scene: Scene
    page: Browser

    @property
    def url(self) -> str:
        return self.scene.up.url

    def there(self, ui: str, address: str) -> str:
        """The same page of one of the two UIs."""
        return address.replace(self.url, f"{self.url}{ui}", 1)

    def strangers(self) -> list[str]:
        """What was asked for elsewhere."""
        own = httpx.URL(self.url).netloc.decode()
        parts = [urlsplit(address) for address in self.page.requests]
        kept = {part.netloc for part in parts if part.scheme not in ("data", "blob", "about")}
        return sorted(kept - {own})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    root = tmp_path_factory.mktemp("ui")
    with scene(root / "scene") as found, browser(tmp_path_factory.mktemp("chromium")) as page:
        yield Seen(found, page)


@pytest.mark.parametrize("ui", UIS)
def test_the_deployments_and_the_runs_are_listed(seen: Seen, ui: str) -> None:
    seen.page.open(seen.there(ui, f"{seen.url}/dashboard"), "Flow Runs", "Task Runs")
    seen.page.open(seen.there(ui, f"{seen.url}/deployments"), "incremental", "full", "apply", "restore", "Ready")
    seen.page.open(seen.there(ui, f"{seen.url}/runs"), "default: full, dry run", "Completed")
    assert seen.strangers() == []


@pytest.mark.parametrize("ui", UIS)
def test_the_custom_run_form_offers_dry_run_and_says_what_it_means(seen: Seen, ui: str) -> None:
    address = seen.there(ui, form(seen.scene.up, "reconcile/full"))
    seen.page.open(address, "dry_run", "On: change nothing on the server.", "time_budget_seconds", "Submit")
    assert seen.strangers() == []


@pytest.mark.parametrize("ui", UIS)
def test_the_apply_form_asks_for_the_digest_and_a_confirmation(seen: Seen, ui: str) -> None:
    address = seen.there(ui, form(seen.scene.up, "apply/apply"))
    # The first UI draws a field's name before its description.
    shown = seen.page.open(address, "plan_digest", "confirm", "It is required.", "Submit")
    assert "confirm (Optional)" not in shown
    assert seen.strangers() == []


@pytest.mark.parametrize("ui", UIS)
def test_a_run_shows_its_steps_and_its_figures(seen: Seen, ui: str) -> None:
    address = f"{seen.url}/runs/flow-run/{seen.scene.run['id']}"
    seen.page.open(
        seen.there(ui, address), "default: full, dry run", "rails: 3 photos to be moved to the server's trash."
    )
    assert seen.strangers() == []


def linked(drawn: int, links: list[str]) -> list[str] | None:
    """The links, once there are five pictures and five links."""
    return links if drawn == len(links) == 5 else None


@pytest.mark.parametrize("ui", UIS)
def test_a_runs_summary_names_its_photos_as_they_are_called_and_shows_them(seen: Seen, ui: str) -> None:
    address = seen.there(ui, summary(seen.scene.up))
    photos = ("IMG_0003.JPG", "IMG_0011.JPG", "IMG_0016.JPG")
    shown = seen.page.open(address, "Planned: your review is needed", *photos, "days left")
    assert "\\" not in shown
    # In one look: the second UI draws such a page, empties it and draws it again.
    look = """[
        [...document.images].filter(image => image.src.startsWith('data:') && image.naturalWidth > 0).length,
        [...document.links].map(link => link.href).filter(href => href.includes('/photos/')),
    ]"""
    pages = until(lambda: linked(*seen.page.run(look)), "five small pictures, five links")
    assert all(page.startswith(seen.scene.stage.url) for page in pages)
    assert seen.strangers() == []


def test_what_a_page_tries_to_fetch_elsewhere_is_refused_by_its_own_policy(seen: Seen) -> None:
    """The control: a page's request to a stranger is seen, and does not leave; one without our policy would."""
    seen.page.open(f"{seen.url}/dashboard", "Flow Runs")
    tried = "fetch('http://192.0.2.1:9/').then(() => 'left', () => 'refused')"
    assert seen.page.run(tried) == "refused"
    until(lambda: any("192.0.2.1" in address for address in seen.page.heard().refused), "the refusal")
    assert seen.strangers() == []
    seen.page.open("about:blank")
    seen.page.run("fetch('http://127.0.0.1:9/').then(() => 'left', () => 'tried')")
    until(lambda: seen.page.heard() and seen.strangers() == ["127.0.0.1:9"], "a stranger asked")
