"""The simulator on its socket: faults, the request log, the clock, TLS, and a clean end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from server.simulator import Simulator, serving
from tests.server.simulator_support import START, House, house, patient

PING = "/api/server/ping"


def test_the_date_header_follows_the_simulators_clock() -> None:
    with house() as one:
        assert parsedate_to_datetime(one.client.get(PING).headers["date"]) == START
        one.clock.forward(days=40)
        assert (parsedate_to_datetime(one.client.get(PING).headers["date"]) - START).days == 40


def test_a_fault_answers_so_many_requests_after_so_many_others() -> None:
    with house() as one:
        one.sim.faults.add("GET", PING, status=429, headers={"Retry-After": "7"}, after=1, times=2)
        answers = [one.client.get(PING) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 429, 429, 200]
        assert answers[1].headers["retry-after"] == "7"


def test_a_fault_for_ever_ends_when_it_is_cleared() -> None:
    with house() as one:
        one.sim.faults.add("*", "/api/", status=503, body={"message": "Service unavailable"}, times=None)
        assert {one.client.get(PING).status_code for _ in range(5)} == {503}
        one.sim.faults.clear()
        assert one.client.get(PING).status_code == 200


def test_a_fault_can_be_a_proxys_page_or_a_redirect() -> None:
    with house() as one:
        one.sim.faults.add("GET", PING, html=True)
        page = one.client.get(PING)
        assert (page.status_code, page.headers["content-type"]) == (502, "text/html; charset=utf-8")
        one.sim.faults.add("GET", PING, status=302, headers={"location": "https://elsewhere.example/"})
        assert one.client.get(PING).headers["location"] == "https://elsewhere.example/"


@pytest.mark.parametrize("before_effect", [True, False])
def test_a_connection_is_cut_before_or_after_the_effect(before_effect: bool) -> None:
    with house() as one:
        asset_id = one.add("a.jpg")
        one.sim.faults.add("DELETE", "/api/assets", drop_connection=True, before_effect=before_effect)
        with pytest.raises(httpx.RemoteProtocolError):
            one.delete(asset_id)
        assert one.sim.trashed() == (set() if before_effect else {asset_id})
        assert one.sim.mutations()[-1].status is None
        assert one.client.get(PING).status_code == 200


@pytest.mark.parametrize("before_effect", [True, False])
def test_an_error_is_answered_before_or_after_the_effect(before_effect: bool) -> None:
    with house() as one:
        asset_id = one.add("a.jpg")
        one.sim.faults.add("DELETE", "/api/assets", status=500, before_effect=before_effect)
        assert one.delete(asset_id).status_code == 500
        assert one.sim.trashed() == (set() if before_effect else {asset_id})


def test_a_request_can_hang_and_the_server_still_stops_at_once() -> None:
    with house() as one:
        asset_id = one.add("a.jpg")
        one.sim.faults.add("DELETE", "/api/assets", delay=3600)
        with pytest.raises(httpx.ReadTimeout):
            one.client.request("DELETE", "/api/assets", json={"ids": [asset_id]}, timeout=httpx.Timeout(60, read=0.2))
    assert one.sim.trashed() == set()


def test_a_short_delay_leaves_the_answer_as_it_is() -> None:
    with house() as one:
        one.sim.faults.add("GET", PING, delay=0.05)
        answer = one.client.get(PING)
        assert answer.json() == {"res": "pong"}
        assert answer.elapsed.total_seconds() >= 0.05


def test_the_log_tells_mutations_from_reads() -> None:
    with house() as one:
        asset_id = one.add("a.jpg")
        checks = {"assets": [{"id": "a", "checksum": "x"}]}
        reads = [
            one.client.post("/api/search/metadata", json={}),
            one.client.post("/api/assets/bulk-upload-check", json=checks),
            one.client.post("/api/auth/login", json={"email": "ann@example.com", "password": "secret"}),
            one.client.get(f"/api/assets/{asset_id}/thumbnail"),
        ]
        one.client.cookies.clear()  # the login's session would outrank the key
        assert one.sim.mutations() == []
        assert len(one.sim.requests) == len(reads)
        one.delete(asset_id)
        one.delete("no uuid")
        (done, refused) = one.sim.mutations()
        assert (done.method, done.path, done.status, done.key) == ("DELETE", "/api/assets", 204, "all")
        assert done.json == {"ids": [asset_id], "force": False}
        assert refused.status == 400
        one.sim.requests.clear()
        assert one.sim.mutations() == []


def test_the_log_holds_no_password_and_no_key() -> None:
    with house() as one:
        key = one.client.headers["x-api-key"]
        one.client.post("/api/auth/login", json={"email": "ann@example.com", "password": "secret"})
        assert "secret" not in repr(list(one.sim.requests))
        assert key not in repr(list(one.sim.requests))


def test_a_large_answer_is_compressed_where_the_client_takes_it() -> None:
    with house() as one:
        for number in range(20):
            one.add(f"{number}.jpg")
        packed = one.client.post("/api/search/metadata", json={})
        plain = one.client.post("/api/search/metadata", json={}, headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.json() == plain.json()


def test_a_self_signed_certificate_is_served_and_refused_by_a_client_that_checks() -> None:
    sim = Simulator()
    with serving(sim, tls=True) as base_url:
        assert base_url.startswith("https://127.0.0.1:")
        with httpx.Client(trust_env=False) as careful, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY"):
            careful.get(base_url + PING)
        with httpx.Client(verify=False, trust_env=False) as careless:
            assert careless.get(base_url + PING, timeout=60).json() == {"res": "pong"}
    assert len(sim.requests) == 1


def test_a_served_simulator_leaves_no_thread_and_no_socket_behind() -> None:
    gc.collect()
    threads, files = threading.enumerate(), open_files()
    for _ in range(5):
        with serving(Simulator()) as base_url:
            answer = httpx.get(base_url + PING, trust_env=False, timeout=60)
            assert answer.status_code == 200
    gc.collect()
    # A thread of an earlier test may end meanwhile, and close its socket.
    assert not set(threading.enumerate()) - set(threads)
    assert open_files() <= files


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_after_the_end_nobody_listens() -> None:
    with serving(Simulator()) as base_url:
        pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(base_url + PING, trust_env=False)


def test_two_simulators_share_nothing() -> None:
    with house() as first, house() as second:
        first.add("a.jpg")
        assert (first.search()["total"], second.search()["total"]) == (1, 0)
        key = first.client.headers["x-api-key"]
        assert second.client.get("/api/users/me", headers={"x-api-key": key}).status_code == 401


def test_requests_from_many_threads_lose_nothing() -> None:
    with house() as one:
        ids = [one.add(f"{number}.jpg") for number in range(40)]

        def trash(part: list[str], base: House) -> None:
            with httpx.Client(**patient(base.base_url, base.client.headers)) as client:
                for asset_id in part:
                    client.request("DELETE", "/api/assets", json={"ids": [asset_id]})

        threads = [threading.Thread(target=trash, args=(ids[start::4], one)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.sim.trashed() == set(ids)


def test_the_module_runs_in_the_foreground_and_prints_an_address_and_a_key() -> None:
    command = [sys.executable, "-m", "server.simulator", "--version", "2.7.5", "--port", "0"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip().removeprefix("SERVER_URL=")
            key = process.stdout.readline().strip().removeprefix("SERVER_API_KEY=")
            answer = httpx.get(f"{url}/api/users/me", headers={"x-api-key": key}, trust_env=False, timeout=60)
            assert answer.json()["name"] == "Sample"
        finally:
            process.terminate()
