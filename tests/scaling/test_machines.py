"""The configuration of docs/scaling.md, with its own example files: Prefect's server on PostgreSQL and Redis behind
nginx, a worker on this host and one in a network namespace of its own. The tests go on from each other, in order."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments import accounts
from deployments.place import DEFINITIONS
from library.identity import register_folder
from server.simulator import Simulator, serving
from state.db import writing
from state.libraries import Registered, add
from state.partition import Partition
from tasks import clock
from tasks.opening import find_partition
from tests.cli.program import ROOT
from tests.deployments.upping import until
from tests.free_ports import free_port
from tests.scaling.places import (
    Elsewhere,
    Programs,
    certificate,
    elsewhere,
    ended,
    missing,
    postgres,
    redis,
    settings,
)
from tests.world import checksum

pytest.importorskip("prefect_redis", reason="prefect-redis is not installed: pip install .[scale]")
pytestmark = pytest.mark.skipif(bool(missing()), reason=f"these are not here: {missing()}")

EXAMPLES = ROOT / "deployments/scaling"
POOL, AUTH, PASSWORD = "deletion-sync", "deletion-sync:a-long-secret", "a-password"


@dataclass
class Site:
    """Two hosts and what runs on them. ``photos``: the photo server; ``partitions``: by the name of the account."""

    root: Path
    there: Elsewhere
    programs: Programs
    simulator: Simulator
    port: int = 0
    url: str = ""
    photos: str = ""
    api: httpx.Client = field(init=False)
    partitions: dict[str, Partition] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.root / "server.pem"))

    def folder(self, account: str) -> Path:
        return self.root / "photos" / account

    def deploy(self, name: str, account: str, queue: str, command: str) -> str:
        """The deployment `full` of prefect.yaml, for an account, with the queue of a host; its id."""
        import yaml  # type: ignore[import-untyped]

        entry = next(
            e for e in yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))["deployments"] if e["name"] == "full"
        )
        flow = self.api.post("/flows/", json={"name": "reconcile"}).raise_for_status().json()
        body = {
            "name": name, "flow_id": flow["id"], "entrypoint": entry["entrypoint"], "work_pool_name": POOL,
            "work_queue_name": queue, "job_variables": {**entry["work_pool"]["job_variables"], "command": command},
            "parameters": {"partition": self.partitions[account].name, "dry_run": True},
            "enforce_parameter_schema": False, "pull_steps": [],
        }  # fmt: skip
        return str(self.api.post("/deployments/", json=body).raise_for_status().json()["id"])

    def run(self, deployment: str) -> str:
        made = self.api.post(f"/deployments/{deployment}/create_flow_run", json={"state": {"type": "SCHEDULED"}})
        return str(made.raise_for_status().json()["id"])

    def state(self, run: str) -> Any:
        return self.api.get(f"/flow_runs/{run}").raise_for_status().json()["state"]

    def ended(self, run: str) -> Any:
        def look() -> Any:
            state = self.state(run)
            return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

        return until(look, "the end of a run")

    def summaries(self, account: str) -> list[Any]:
        return [json.loads(path.read_text()) for path in self.partitions[account].runs.glob("*/summary.json")]


RUN = "python -P -m deployments.flow_run"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        there = stack.enter_context(elsewhere())
        simulator = Simulator(version="3.1.0", clock=clock.now)
        photos = stack.enter_context(serving(simulator))
        site = Site(root, there, Programs(root, stack), simulator)
        _serve(site, photos)
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        for account in ("alice", "bob"):
            _account(site, account, monkeypatch)
        _open(site, stack)
        yield site


def _serve(site: Site, photos: str) -> None:
    """PostgreSQL, Redis, Prefect's server, and nginx on the cable to the other host."""
    database, messages = postgres(site.programs, PASSWORD), redis(site.programs, PASSWORD)
    site.port, outside, photo_port = free_port(), free_port(site.there.here), free_port(site.there.here)
    site.url, inside = f"https://{site.there.here}:{outside}", f"http://127.0.0.1:{site.port}"
    address = f"redis://default:{PASSWORD}@127.0.0.1:{messages}"
    environment = settings(
        EXAMPLES / "server.env",
        PREFECT_SERVER_API_PORT=str(site.port), PREFECT_UI_API_URL=f"{site.url}/api", PREFECT_API_URL=f"{inside}/api",
        PREFECT_SERVER_CORS_ALLOWED_ORIGINS=site.url, PREFECT_SERVER_API_AUTH_STRING=AUTH, PREFECT_API_AUTH_STRING=AUTH,
        PREFECT_SERVER_DATABASE_CONNECTION_URL=f"postgresql+asyncpg://prefect:{PASSWORD}@127.0.0.1:{database}/prefect",
        PREFECT_REDIS_MESSAGING_URL=f"{address}/0", PREFECT_SERVER_DOCKET_URL=f"{address}/1",
    )  # fmt: skip
    prefect = [sys.executable, "-P", "-m", "prefect"]
    site.programs.start("server", *prefect, "server", "start", "--no-ui", **environment)
    certificate(site.root, site.there.here)
    example = (EXAMPLES / "nginx.conf").read_text()
    for former, now in {
        "listen 443 ssl": f"listen {site.there.here}:{outside} ssl",
        "prefect.example.org": site.there.here,
        "/etc/deletion-sync/": f"{site.root}/",
        "/run/deletion-sync-nginx.pid": f"{site.root}/nginx.pid",
        "allow 10.0.0.0/8": f"allow {site.there.here}; allow {site.there.there}",
        "http://127.0.0.1:4200": inside,
        "http {": f"http {{ server {{ listen {site.there.here}:{photo_port}; location / {{ proxy_pass {photos}; }} }}",
    }.items():
        assert former in example
        example = example.replace(former, now)
    (site.root / "nginx.conf").write_text(example)
    site.programs.start("nginx", "nginx", "-c", site.root / "nginx.conf", "-p", site.root, "-g", "daemon off;")
    site.photos = f"http://{site.there.here}:{photo_port}"


def _account(site: Site, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account with five photos on both sides, its folder with a .env, and its partition."""
    user = site.simulator.add_user(name, f"{name}@example.com")
    site.keys[name] = site.simulator.add_key(user, ("all",))
    site.folder(name).mkdir(parents=True)
    for number in range(5):
        content = f"{name} {number}".encode()
        (site.folder(name) / f"{number}.jpg").write_bytes(content)
        site.simulator.add_asset(user, checksum=checksum(content), file_name=f"{number}.jpg")
    monkeypatch.setenv("DELETION_SYNC_HOME", str(site.root / "state"))
    monkeypatch.setenv("SERVER_URL", site.photos)
    monkeypatch.setenv("SERVER_API_KEY", site.keys[name])
    until(lambda: _reached(site.photos), "nginx")
    _, partition = find_partition()
    with writing(partition) as con:
        add(con, Registered(name, "folder", name, json.dumps(register_folder(site.folder(name))), clock.naive_now()))
    directory = site.root / "accounts" / name
    directory.mkdir(parents=True)
    (directory / ".env").write_text(f"SERVER_URL={site.photos}\nSERVER_API_KEY={site.keys[name]}\n")
    (directory / ".env").chmod(0o600)
    site.partitions[name] = partition
    known = [accounts.Account(site.root / "accounts" / who, part.name, who) for who, part in site.partitions.items()]
    accounts.save(site.root / "accounts.json", known)


def _reached(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/server/ping", timeout=5, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _open(site: Site, stack: ExitStack) -> None:
    """The pool, a client that may ask, and a worker on each host, once they report."""
    site.api = stack.enter_context(
        httpx.Client(
            base_url=f"{site.url}/api",
            verify=site.context(),
            auth=httpx.BasicAuth(*AUTH.split(":")),
            timeout=60,
            trust_env=False,
        )
    )

    def up() -> bool:
        return site.api.get("/health").status_code == httpx.codes.OK

    until(up, "Prefect's server")
    token = site.api.get("/csrf-token", params={"client": "test"}).raise_for_status().json()["token"]
    site.api.headers.update({"Prefect-Csrf-Client": "test", "Prefect-Csrf-Token": token})
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    pool = {"name": POOL, "type": "process", "base_job_template": template}
    site.api.post("/work_pools/", json=pool).raise_for_status()
    for name, command in (("here", []), ("there", site.there.command())):
        work = ["worker", "start", "--type", "process", "--pool", POOL, "--work-queue", name, "--name", name]
        environment = settings(
            EXAMPLES / "worker.env",
            PREFECT_API_URL=f"{site.url}/api", PREFECT_API_AUTH_STRING=AUTH,
            DELETION_SYNC_HOME=str(site.root / "state"), PREFECT_API_SSL_CERT_FILE=str(site.root / "server.pem"),
            DELETION_SYNC_ACCOUNTS=str(site.root / "accounts.json"),
        )  # fmt: skip
        more = {"PREFECT_HOME": str(site.root / f"prefect-{name}"), "PREFECT_WORKER_QUERY_SECONDS": "1"}
        site.workers[name] = site.programs.start(
            f"worker-{name}", *command, sys.executable, "-P", "-m", "prefect", *work, **environment, **more
        )

    def reported() -> bool:
        rows = site.api.post(f"/work_pools/{POOL}/workers/filter", json={}).raise_for_status().json()
        return {row["name"] for row in rows} == set(site.workers)

    until(reported, "the workers")


def test_the_server_listens_on_loopback_alone_and_the_other_host_reaches_it_by_nginx_alone(site: Site) -> None:
    look = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)"

    def reaches(host: str, port: object) -> bool:
        command = site.there.command(sys.executable, "-c", look, host, port)
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert reaches(site.there.here, site.url.rpartition(":")[2])
    assert not reaches(site.there.here, site.port) and not reaches("127.0.0.1", site.port)


def test_nobody_without_the_auth_string_gets_an_answer(site: Site) -> None:
    admitted = {name: value for name, value in site.api.headers.items() if name.startswith("prefect-csrf")}
    with httpx.Client(verify=site.context(), trust_env=False, headers=admitted, timeout=60) as client:
        for token, status in (("", 401), ("deletion-sync:wrong", 401), (AUTH, 200)):
            header = {"Authorization": f"Basic {base64.b64encode(token.encode()).decode()}"} if token else {}
            assert client.post(f"{site.url}/api/deployments/filter", json={}, headers=header).status_code == status
    assert AUTH.split(":")[1] not in "".join(site.programs.said(name) for name in ("server", "worker-there"))


@pytest.mark.parametrize("path", ["events/in", "events/out", "logs/out"])
def test_nobody_without_the_auth_string_gets_events(site: Site, path: str) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed
    from websockets.typing import Subprotocol

    async def asked(token: str) -> bool:
        opening = connect(
            f"wss{site.url[5:]}/api/{path}", ssl=site.context(), subprotocols=[Subprotocol("prefect")], proxy=None,
            open_timeout=60, ping_interval=None,
        )  # fmt: skip
        async with opening as socket:
            await socket.send(json.dumps({"type": "auth", "token": token}))
            try:
                answer = json.loads(await asyncio.wait_for(socket.recv(), 60))
            except ConnectionClosed:
                return False
            return bool(answer["type"] == "auth_success")

    def admitted(token: str) -> bool:
        # The client that works by threads loses a handshake now and then: two of them use one TLS connection at once.
        return asyncio.run(asked(token))

    assert admitted(AUTH)
    assert not admitted("deletion-sync:wrong")


def test_the_database_is_postgresql_and_the_messages_are_in_redis(site: Site) -> None:
    from redis import Redis

    environment = settings(EXAMPLES / "server.env")
    assert environment["PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"] == "prefect_redis.lease_storage"
    port = int((site.root / "redis.conf").read_text().split("port ")[1].split()[0])
    with Redis(port=port, password=PASSWORD) as client:
        until(lambda: client.keys("*events*") or None, "the first events")
    assert not list(site.root.rglob("prefect.db"))


def test_partitions_are_spread_over_workers_each_with_its_own(site: Site) -> None:
    runs = [
        site.run(site.deploy("full-alice", "alice", "here", RUN)),
        site.run(site.deploy("full-bob", "bob", "there", RUN)),
    ]
    for run in runs:
        assert site.ended(run)["type"] == "COMPLETED", site.programs.said("worker-there")
    for account in ("alice", "bob"):
        [summary] = site.summaries(account)
        assert summary["outcome"] == "nothing to do"
    assert "alice" not in site.programs.said("worker-there")


def test_of_two_runs_of_one_partition_on_two_hosts_one_is_refused_and_a_killed_one_lets_go(site: Site) -> None:
    """The limit that Prefect keeps is left out for the second run: what refuses it is the lock in the shared state."""
    from redis import Redis

    lock = site.partitions["alice"].path / "run.lock"
    huge = site.folder("alice") / "huge.mov"
    huge.touch()
    os.truncate(huge, 1 << 42)  # it keeps the first run busy
    first = site.run(site.deploy("full-alice", "alice", "here", RUN))
    until(lambda: (lock.exists() and lock.read_bytes()) or None, "the lock")
    port = int((site.root / "redis.conf").read_text().split("port ")[1].split()[0])
    with Redis(port=port, password=PASSWORD) as client:
        assert client.keys("*concurrency*lease*"), "who holds the limit is not in Redis"
    alone = f"sh -c 'cd {site.root}/accounts/alice && exec python -P -m prefect.engine'"
    unlimited = site.deploy("unlimited-alice", "alice", "there", alone)
    refused = site.ended(site.run(unlimited))
    assert refused["type"] == "FAILED" and "PartitionBusy" in refused["message"], refused
    assert site.state(first)["type"] == "RUNNING"
    huge.unlink()
    _kill_with_its_runs(site.workers["here"])
    again = site.ended(site.run(unlimited))
    assert again["type"] == "COMPLETED", again


def _kill_with_its_runs(worker: subprocess.Popen[bytes]) -> None:
    """As when the host loses power."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listing.splitlines())}
    family = {worker.pid}
    while found := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= found
    for pid in family:
        with contextlib.suppress(ProcessLookupError):  # one that ended since they were listed
            os.kill(pid, signal.SIGKILL)
    ended(worker)
