"""What a run costs Prefect's server, its scheduler and a host: the numbers that docs/scaling.md computes from.

    python -m bench.scaling [--runs 200] [--tasks 500] [--deployments 300] [--worker-runs 4] [--partitions 20]

The server is measured on SQLite, as `up` runs it, and on PostgreSQL with Redis, where both are installed (as root). The
load comes from this computer, so it takes its share of the same cores. Some four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from flows import direct, pipeline
from flows.privacy import ALWAYS, UNLESS_SET
from library.identity import register_folder
from server.simulator import Simulator, serving, sha1_checksum
from state.db import writing
from state.libraries import Registered, add
from tasks import clock
from tasks.opening import find_partition
from tests.free_ports import free_port
from tests.scaling.places import Programs, missing, postgres, redis

_ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_CLIENTS = 4  # at a time, where the database takes several; on SQLite they stall each other
_PATIENCE = 120.0

# A flow of empty tasks; prints the seconds that they took in the flow.
_TASKS = """
import sys, time
from prefect import flow, task
@task
def nothing(): pass
@flow
def many(count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count): nothing()
    return time.perf_counter() - begun
print("seconds", many(int(sys.argv[1])))
"""

# One turn of the scheduler's main loop over everything, and a second one that finds nothing to do.
_SCHEDULE = """
import asyncio, resource, time
from prefect.server.services.scheduler import schedule_deployments
async def main():
    for turn in ("first", "idle"):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        await schedule_deployments()
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(turn, time.perf_counter() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
asyncio.run(main())
"""


def say(text: str) -> None:
    print(text, flush=True)


def until(look: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not look():
        assert time.monotonic() < end, f"{what}: not within {_PATIENCE:.0f} s"
        time.sleep(0.1)


def processor(pid: int, *, children: bool = False) -> float:
    """Seconds of processor time of a process, or of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[n]) for n in ((13, 14) if children else (11, 12))) / _TICKS


@contextmanager
def served(
    name: str, programs: Programs, database: Mapping[str, str]
) -> Iterator[tuple[httpx.Client, dict[str, str], int]]:
    """A server without its scheduler: a client, the environment for whoever asks it, its process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        **ALWAYS, **UNLESS_SET, **database, "PREFECT_HOME": str(programs.folder / f"home-{name}"),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false", "PYTHONPATH": str(_ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--port", str(port)]
    process = programs.start(f"server-{name}", *command, **environment)

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    until(answers, "Prefect's server")
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as api:
        yield api, environment, process.pid


def flow_runs(api: httpx.Client, count: int, server: int, clients: int) -> None:
    """A burst of flow runs: each is made and goes through Pending, Running and Completed."""
    flow = api.post("/flows/", json={"name": "burst"}).raise_for_status().json()["id"]

    def one(_: int) -> None:
        run = _patient(api, "/flow_runs/", {"flow_id": flow, "state": {"type": "SCHEDULED"}})["id"]
        for state in ("PENDING", "RUNNING", "COMPLETED"):
            _patient(api, f"/flow_runs/{run}/set_state", {"state": {"type": state}})

    begun, before = time.perf_counter(), processor(server)
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(count)))
    seconds = time.perf_counter() - begun
    cost = (processor(server) - before) / count
    say(
        f"  {count} flow runs in {seconds:.1f} s by {clients} at a time: {count / seconds:.1f} a second, "
        f"{1000 * cost:.0f} ms of the server's processor each"
    )


def _patient(api: httpx.Client, path: str, body: object) -> Any:
    """The answer; a busy SQLite answers 503, and Prefect's own client asks again then too."""
    while True:
        answer = api.post(path, json=body)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            return answer.raise_for_status().json()
        time.sleep(0.1)


def task_runs(api: httpx.Client, environment: Mapping[str, str], count: int, server: int) -> None:
    """A flow of empty tasks, until the server has recorded all of them."""
    begun, before = time.perf_counter(), processor(server)
    done = subprocess.run(
        [sys.executable, "-c", _TASKS, str(count)], env={**os.environ, **environment}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    seconds = float(done.stdout.split("seconds")[1])
    completed = {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    until(lambda: api.post("/task_runs/count", json=completed).json() >= count, "the task runs")
    recorded = time.perf_counter() - begun
    cost = (processor(server) - before) / count
    say(
        f"  {count} task runs: {1000 * seconds / count:.1f} ms each in the flow, all recorded after {recorded:.1f} s: "
        f"{count / recorded:.0f} a second, {1000 * cost:.0f} ms of the server's processor each"
    )


def deployments(api: httpx.Client, count: int) -> None:
    """Deployments as prefect.yaml has them: seven runs a day in two schedules, over two deployments a partition."""
    flow = api.post("/flows/", json={"name": "reconcile"}).raise_for_status().json()["id"]

    def one(number: int) -> None:
        cron = "10 */4 * * *" if number % 2 else "30 3 * * *"
        schedule = {"schedule": {"cron": cron, "timezone": "UTC"}, "active": True}
        _patient(api, "/deployments/", {"name": f"d{number}", "flow_id": flow, "schedules": [schedule]})

    with ThreadPoolExecutor(1) as pool:
        list(pool.map(one, range(count)))


def scheduler(environment: Mapping[str, str], count: int, batch: int, insert: int) -> None:
    """One turn over so many deployments that have no run yet, and an idle one."""
    settings = {
        "PREFECT_SERVER_SERVICES_SCHEDULER_DEPLOYMENT_BATCH_SIZE": str(batch),
        "PREFECT_SERVER_SERVICES_SCHEDULER_INSERT_BATCH_SIZE": str(insert),
        "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "true",
    }
    done = subprocess.run(
        [sys.executable, "-c", _SCHEDULE], env={**os.environ, **environment, **settings}, capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    turns = {line.split()[0]: [float(word) for word in line.split()[1:]] for line in done.stdout.splitlines()}
    (first, first_cost), (idle, idle_cost) = turns["first"], turns["idle"]
    say(
        f"  scheduler, {batch} deployments a batch, {insert} runs an insert: "
        f"{60 * count / first:.0f} deployments a minute ({1000 * first_cost / count:.1f} ms of its processor each); "
        f"an idle turn {1000 * idle / count:.2f} ms a deployment "
        f"({1000 * idle_cost / count:.2f} ms of its processor)"
    )


def forget_runs(api: httpx.Client) -> None:
    """Delete every scheduled run."""
    wanted = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "limit": 200}
    while rows := api.post("/flow_runs/filter", json=wanted).raise_for_status().json():
        with ThreadPoolExecutor(1) as pool:
            list(pool.map(lambda row: api.delete(f"/flow_runs/{row['id']}"), rows))


@contextmanager
def accounts(root: Path, count: int) -> Iterator[list[str]]:
    """So many accounts of ten photos each on one simulated server; the partition and the key of each."""
    simulator, names = Simulator(version="3.1.0", clock=clock.now), []
    with serving(simulator) as url:
        os.environ.update(DELETION_SYNC_HOME=str(root / "state"), SERVER_URL=url)
        for number in range(count):
            user = simulator.add_user(f"user {number}", f"{number}@example.com")
            folder = root / "photos" / str(number)
            folder.mkdir(parents=True)
            for photo in range(10):
                content = f"{number} {photo}".encode()
                (folder / f"{photo}.jpg").write_bytes(content)
                simulator.add_asset(user, checksum=sha1_checksum(content), file_name=f"{photo}.jpg")
            os.environ["SERVER_API_KEY"] = simulator.add_key(user, ("all",))
            _, partition = find_partition()
            with writing(partition) as con:
                add(con, Registered("p", "folder", "p", json.dumps(register_folder(folder)), clock.naive_now()))
            names.append(f"{partition.name} {os.environ['SERVER_API_KEY']}")
        yield names


def by_worker(api: httpx.Client, environment: Mapping[str, str], programs: Programs, count: int, server: int) -> None:
    """Runs of one account, started by a worker, one after the other: a process for each."""
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    pool = {"name": "deletion-sync", "type": "process", "base_job_template": template}
    api.post("/work_pools/", json=pool).raise_for_status()
    with accounts(programs.folder / "one", 1) as [known]:
        flow = api.post("/flows/", json={"name": "reconcile"}).json()["id"]
        body = {
            "name": "by-worker", "flow_id": flow, "entrypoint": "flows.reconcile.reconcile", "pull_steps": [],
            "work_pool_name": "deletion-sync", "job_variables": {"command": "python -P -m deployments.flow_run"},
            "parameters": {"partition": known.split()[0], "dry_run": True}, "enforce_parameter_schema": False,
        }  # fmt: skip
        deployment = api.post("/deployments/", json=body).raise_for_status().json()["id"]
        names = ("DELETION_SYNC_HOME", "SERVER_URL", "SERVER_API_KEY")
        work = ["worker", "start", "--type", "process", "--pool", "deletion-sync", "--name", "bench"]
        worker = programs.start(
            "worker", sys.executable, "-P", "-m", "prefect", *work, PREFECT_WORKER_QUERY_SECONDS="1",
            **{**environment, **{name: os.environ[name] for name in names}},
        )  # fmt: skip
        spent, seconds, asked = [], [], []
        for _ in range(count):
            before, begun, former = processor(worker.pid, children=True), time.perf_counter(), processor(server)
            run = api.post(f"/deployments/{deployment}/create_flow_run", json={"state": {"type": "SCHEDULED"}}).json()[
                "id"
            ]
            until(lambda run=run: api.get(f"/flow_runs/{run}").json()["state_type"] == "COMPLETED", "a run")  # type: ignore[misc]
            seconds.append(time.perf_counter() - begun)
            until(lambda before=before: processor(worker.pid, children=True) > before, "its process")  # type: ignore[misc]
            spent.append(processor(worker.pid, children=True) - before)
            asked.append(processor(server) - former)
        tasks = api.post("/task_runs/count", json={}).json()
        say(
            f"a run that a worker starts, ten photos: {min(spent):.1f} s of processor, {min(seconds):.1f} s from made "
            f"to completed (the best of {count}), {min(asked):.2f} s of the server's processor meanwhile; {tasks} task "
            "runs are in the server"
        )


def in_one_process(root: Path, count: int) -> None:
    """The same run for many partitions by one process, without Prefect."""
    with accounts(root / "many", count) as known:
        spent: list[float] = []
        for one in known:
            name, os.environ["SERVER_API_KEY"] = one.split()
            before = time.process_time()
            pipeline.reconcile(direct.call, direct.WAY, pipeline.ReconcileRequest(name, True, None))
            spent.append(time.process_time() - before)
        say(
            f"a run of one process that does {count} partitions, without Prefect: {sum(spent) / count:.2f} s of "
            "processor each"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("runs", 200), ("tasks", 500), ("deployments", 300), ("worker-runs", 4), ("partitions", 20)):
        options.add_argument(f"--{name}", type=int, default=usual)
    given = options.parse_args()
    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        programs = Programs(Path(temporary), stack)
        databases: dict[str, dict[str, str]] = {"SQLite": {}}
        if lacking := missing():
            say(f"PostgreSQL and Redis are left out: {lacking}")
        else:
            database, messages = postgres(programs, "bench"), redis(programs, "bench")
            databases["PostgreSQL"] = {
                "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://prefect:bench@127.0.0.1:{database}/prefect",
                "PREFECT_SERVER_EVENTS_MESSAGING_BROKER": "prefect_redis.messaging",
                "PREFECT_SERVER_EVENTS_MESSAGING_CACHE": "prefect_redis.messaging",
                "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "prefect_redis.ordering",
                "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
                "PREFECT_REDIS_MESSAGING_URL": f"redis://default:bench@127.0.0.1:{messages}/0",
            }
        for name, settings in databases.items():
            with served(name, programs, settings) as (api, environment, server):
                say(name)
                flow_runs(api, given.runs, server, 1)
                if settings:
                    flow_runs(api, given.runs, server, _CLIENTS)
                task_runs(api, environment, given.tasks, server)
                deployments(api, given.deployments)
                for batch, insert in ((100, 500), (1000, 5000)):
                    forget_runs(api)
                    scheduler(environment, given.deployments, batch, insert)
                if name == list(databases)[-1]:
                    by_worker(api, environment, programs, given.worker_runs, server)
        in_one_process(Path(temporary), given.partitions)


if __name__ == "__main__":
    main()
