"""The figures of every account for Prometheus, as text on loopback: what `up --metrics-port` serves.

They are read from what runs wrote down, and only where that changed since; nothing is asked of a server.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from deployments.place import HOST
from engine.errors import DeletionSyncError
from state import deferred
from state.db import reading
from state.home import Home
from state.libraries import registered
from state.partition import Partition, list_partitions
from tasks.summary import NOTHING, PLANNED, TRASHED, read_summary

if TYPE_CHECKING:
    import duckdb
    from prometheus_client import Metric

PATH = "/metrics"
_LABEL = 8  # characters
_BUCKETS = {"delete": "candidates", "held": "held", "review": "review"}

OUTCOMES = "SELECT outcome, count(*) FROM runs GROUP BY outcome"
RAILS = "SELECT rail, count(*) FROM runs WHERE rail IS NOT NULL GROUP BY rail"
TRASHED_EVER = "SELECT coalesce(sum(trashed_count), 0)::BIGINT FROM runs"
LAST_SUCCESS = """
SELECT epoch(max(started_at + to_milliseconds(coalesce(duration_ms, 0)))) FROM runs
WHERE outcome IN (SELECT unnest(?)) AND flow <> 'restore'
"""
NEWEST_PLAN = """
SELECT run_id FROM runs WHERE plan_digest IS NOT NULL AND flow <> 'restore'
ORDER BY started_at DESC, run_id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one account. ``buckets`` are those of its newest plan; ``last_success`` is Unix time, None: never."""

    outcomes: dict[str, int]
    rails: dict[str, int]
    trashed: int
    last_success: float | None
    buckets: dict[str, int]
    libraries: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Collector:
    """Reads at a scrape. What it read of a database stands until its file changes, also while it is being written."""

    home: Home
    known: dict[str, tuple[tuple[int, int], Figures]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        runs = CounterMetricFamily("deletion_sync_runs", "Runs by their outcome.", labels=["partition", "outcome"])
        rails = CounterMetricFamily(
            "deletion_sync_rail_trips", "Runs that a rail stopped.", labels=["partition", "rail"]
        )
        trashed = CounterMetricFamily("deletion_sync_trashed", "Photos moved to the trash.", labels=["partition"])
        success = GaugeMetricFamily(
            "deletion_sync_last_success_timestamp_seconds",
            "When a reconciliation last ended well.",
            labels=["partition"],
        )
        gauges = {
            bucket: GaugeMetricFamily(
                f"deletion_sync_{word}", f"Photos that the newest plan has as {bucket}.", labels=["partition"]
            )
            for bucket, word in _BUCKETS.items()
        }
        waiting = GaugeMetricFamily(
            "deletion_sync_deferred", "Files whose bytes are still to be read.", labels=["partition"]
        )
        readable = GaugeMetricFamily("deletion_sync_readable", "1: the figures could be read.", labels=["partition"])
        for partition in list_partitions(self.home):
            label = short(partition)
            figures, fresh = self._figures(partition)
            readable.add_metric([label], float(fresh))
            if figures is None:
                continue
            for outcome, count in figures.outcomes.items():
                runs.add_metric([label, outcome], count)
            for rail, count in figures.rails.items():
                rails.add_metric([label, rail], count)
            trashed.add_metric([label], figures.trashed)
            if figures.last_success is not None:
                success.add_metric([label], figures.last_success)
            for bucket, count in figures.buckets.items():
                gauges[bucket].add_metric([label], count)
            with contextlib.suppress(DeletionSyncError):
                waiting.add_metric([label], deferred.deferred(self.home, figures.libraries).num_rows)
        return [runs, rails, trashed, success, *gauges.values(), waiting, readable]

    def _figures(self, partition: Partition) -> tuple[Figures | None, bool]:
        """The figures, and whether they could be read; those of before where they could not."""
        with self.lock:
            mark, known = self.known.get(partition.name, (None, None))
            try:
                found = partition.database.stat()
                now = (found.st_mtime_ns, found.st_size)
                if now != mark:
                    known = read(partition)
                    self.known[partition.name] = (now, known)
            except (DeletionSyncError, OSError):
                return known, False
            return known, True


def short(partition: Partition) -> str:
    """The label of an account: neither its address nor its user can be read from it."""
    return hashlib.sha256(partition.name.encode()).hexdigest()[:_LABEL]


def read(partition: Partition) -> Figures:
    """The figures of one account, whose database exists. Raises StateError, PartitionBusy, DeletionSyncError."""
    with reading(partition) as con:
        ((trashed,),) = con.execute(TRASHED_EVER).fetchall()
        ((last_success,),) = con.execute(LAST_SUCCESS, [[NOTHING, PLANNED, TRASHED]]).fetchall()
        plan = con.execute(NEWEST_PLAN).fetchall()
        outcomes, rails = _counts(con, OUTCOMES), _counts(con, RAILS)
        libraries = tuple(library.library_id for library in registered(con))
    counts = read_summary(partition, plan[0][0])["counts"] if plan else {}
    buckets = {bucket: int(counts.get(bucket, 0)) for bucket in _BUCKETS}
    return Figures(outcomes, rails, int(trashed), last_success, buckets, libraries)


def _counts(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, int]:
    return {str(word): int(count) for word, count in con.execute(query).fetchall()}


@contextlib.contextmanager
def served(home: Home, port: int) -> Iterator[None]:
    """Serve the figures at http://127.0.0.1:port/metrics. Raises OSError where the port is taken."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

    registry = CollectorRegistry()
    registry.register(_Collector(home))
    hosts = (f"{HOST}:{port}", f"localhost:{port}")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            foreign = self.headers.get("Host") not in hosts or "Origin" in self.headers
            if foreign or self.path != PATH:
                self.send_error(HTTPStatus.FORBIDDEN if foreign else HTTPStatus.NOT_FOUND)
                return
            try:
                body = generate_latest(registry)
            except DeletionSyncError as error:
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=str(error))
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A scrape is nothing to tell."""

    with http.server.ThreadingHTTPServer((HOST, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
