"""The figures for Prometheus: right after each run, by a label that tells nobody anything, and only where asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.main import USAGE
from deployments import metrics, ports
from state.home import Home
from state.lock import file_lock
from tasks.opening import find_partition
from tests.deployments.upping import program, upped
from tests.free_ports import free_port
from tests.world import World, small_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with small_world(tmp_path, monkeypatch) as found:
        found.all_backed_up("IMG_{}.JPG", 9)
        found.change_settings(quarantineDays=14)
        yield found


def scraped(port: int) -> dict[str, dict[str, float]]:
    """Value by what else the sample says, by name. Every sample is of the one account there is."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=60).raise_for_status().text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("partition") == metrics.short(find_partition()[1])
            found.setdefault(sample.name.removeprefix("deletion_sync_"), {})[" ".join(sample.labels.values())] = (
                sample.value
            )
    return found


def test_the_figures_are_right_after_each_run(world: World) -> None:
    port = free_port()
    with metrics.served(Home(world.home), port):
        world.reconcile()
        first = scraped(port)
        assert first["runs_total"] == {"nothing to do": 1} and first["trashed_total"] == {"": 0}
        assert first["last_success_timestamp_seconds"][""] == pytest.approx(world.now.timestamp(), abs=60)
        world.remove("IMG_1.JPG", "IMG_2.JPG")
        world.reconcile()
        assert (scraped(port)["held"], scraped(port)["candidates"]) == ({"": 2}, {"": 0})
        world.pass_days(15)
        planned = world.reconcile()
        waiting = scraped(port)
        assert (waiting["held"], waiting["candidates"]) == ({"": 0}, {"": 2})
        world.apply(planned)
        done = scraped(port)
        assert done["trashed_total"] == {"": 2}
        assert done["runs_total"] == {"nothing to do": 2, "trashed": 1}
        success = done["last_success_timestamp_seconds"]
        world.folder.rename(world.folder.with_name("elsewhere"))
        world.pass_days(1)
        rail = world.reconcile().rail
        stopped = scraped(port)
        assert stopped["rail_trips_total"] == {rail: 1} and stopped["runs_total"]["aborted"] == 1
        assert stopped["last_success_timestamp_seconds"] == success
        assert (stopped["deferred"], stopped["readable"]) == ({"": 0}, {"": 1})


def test_while_a_run_writes_the_figures_of_before_stand(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.duck.WAIT_SECONDS", 0.1)
    world.reconcile()
    partition, port = find_partition()[1], free_port()
    with metrics.served(Home(world.home), port):
        before = scraped(port)
        partition.database.touch()
        with file_lock(partition.database.with_name("state.lock"), 1):
            during = scraped(port)
        assert during.pop("readable") == {"": 0} and before.pop("readable") == {"": 1}
        assert during == before
        assert scraped(port)["readable"] == {"": 1}


def test_nothing_that_is_served_names_the_server_or_the_user(world: World) -> None:
    world.reconcile()
    port = free_port()
    with metrics.served(Home(world.home), port):
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=60).text
    address = world.url.removeprefix("http://")
    assert "partition=" in text
    assert not [word for word in (world.user_id, address, "alice", "IMG_", str(world.home)) if word in text]


def test_only_this_computers_own_programs_are_answered(world: World) -> None:
    port = free_port()
    with metrics.served(Home(world.home), port), httpx.Client(trust_env=False, timeout=60) as client:
        address = f"http://127.0.0.1:{port}/metrics"
        assert client.get(address, headers={"Host": "evil.example"}).status_code == 403
        assert client.get(address, headers={"Origin": "https://evil.example"}).status_code == 403
        assert client.get(f"http://127.0.0.1:{port}/").status_code == 404
        assert client.post(address).status_code == 501
    assert ports.is_free(port)


def test_up_serves_them_where_asked_for_and_refuses_a_port_that_is_taken(world: World) -> None:
    port, work = free_port(), world.home.parent / "work"
    keys = {"SERVER_URL": world.url, "SERVER_API_KEY": next(iter(world.simulator.keys))}
    world.reconcile()
    with upped(world.home, work, "--port", str(free_port()), "--metrics-port", str(port), **keys) as up:
        up.told(f"http://127.0.0.1:{port}/metrics")
        assert scraped(port)["runs_total"] == {"nothing to do": 1}
        taken = program(
            world.home.with_name("other"), work, "up", "--port", str(free_port()), "--metrics-port", str(port), **keys
        )
        assert taken.returncode == USAGE and "--metrics-port" in taken.stderr
    assert ports.is_free(port)


def test_up_listens_nowhere_for_them_when_it_was_not_asked(world: World) -> None:
    """Two ports are open to this computer: the UI's, and the photo server's of this test."""
    work = world.home.parent / "work"
    keys = {"SERVER_URL": world.url, "SERVER_API_KEY": next(iter(world.simulator.keys))}
    with upped(world.home, work, "--port", str(free_port()), **keys) as up:
        up.told("Starting")
        import psutil  # type: ignore[import-untyped]

        found = [one for one in psutil.Process(up.process.pid).net_connections() if one.status == "LISTEN"]
        assert [f"http://127.0.0.1:{one.laddr[1]}" for one in found] == [up.url]  # the server's, which it holds
