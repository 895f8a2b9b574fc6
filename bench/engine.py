"""The decisions at size: candidates and buckets for millions of assets, against DuckDB's own plain anti-join.

python -m bench.engine [--assets 10000000]
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from datetime import datetime
from pathlib import Path

from engine import decide
from engine.database import connect
from engine.policy import Policy

USER = "00000000-0000-4000-8000-000000000000"

# One checksum in 500 left the library; half of those are past their quarantine. A tenth are Live Photos.
SETUP = """
COPY (
    SELECT format('{{:08x}}-0000-4000-8000-000000000000', n) AS asset_id, '{user}' AS owner_id,
        format('{{:027d}}=', n) AS checksum, format('IMG_{{:08d}}.JPG', n) AS file_name,
        CASE WHEN n % 20 = 0 THEN format('{{:08x}}-0000-4000-8000-000000000000', n + 1) END AS live_photo_video_id,
        CASE WHEN n % 20 = 1 THEN 'hidden' ELSE 'timeline' END AS visibility, false AS is_trashed, 'image' AS type,
        NULL::VARCHAR AS library_id, TIMESTAMP '2020-01-01' + to_seconds(n) AS captured_at,
        TIMESTAMP '2020-01-01' + to_seconds(n) AS local_captured_at, false AS is_favorite
    FROM range({count}) t(n)
) TO '{folder}/server.parquet';
COPY (
    SELECT 'L' AS library_id, file_name AS local_id, 'primary' AS part, checksum, file_name, 1::BIGINT AS size,
        1::BIGINT AS modified_ns, '' AS file_identity, captured_at, []::VARCHAR[] AS albums
    FROM (SELECT *, row_number() OVER () AS n FROM '{folder}/server.parquet') WHERE n % 500 <> 0
) TO '{folder}/local.parquet';
COPY (
    SELECT checksum, true AS observed, []::VARCHAR[] AS albums,
        CASE WHEN n % 1000 = 0 THEN TIMESTAMP '2026-01-01' WHEN n % 500 = 0 THEN TIMESTAMP '2026-03-01' END
            AS confirmed_at,
        CASE WHEN n % 500 = 0 THEN 'deleted' END AS cause, NULL::TIMESTAMP AS excluded_at, false AS anchored,
        false AS retired, false AS detached, 'L' AS indexed_in, [lower(file_name)] AS names
    FROM (SELECT *, row_number() OVER () AS n FROM '{folder}/server.parquet')
) TO '{folder}/memory.parquet';
"""

LIMIT = "SELECT count(*) FROM server s ANTI JOIN local l ON l.checksum = s.checksum JOIN memory m USING (checksum)"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--assets", type=int, default=10_000_000)
    count = options.parse_args().assets
    with tempfile.TemporaryDirectory() as folder:
        if os.fork() == 0:  # made in a process of its own, so that its memory does not count
            connect(spill=Path(folder) / "spill").execute(SETUP.format(user=USER, count=count, folder=folder))
            os._exit(0)
        os.wait()
        policy = Policy(user_id=USER, now=datetime(2026, 3, 10))  # noqa: DTZ001
        con = connect(spill=Path(folder) / "spill")
        con.execute("SET memory_limit = '900MB'")
        for name in ("server", "local", "memory"):
            con.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
        begun = time.perf_counter()
        con.execute(LIMIT).fetchall()
        limit = time.perf_counter() - begun
        steps = {}
        for name, step in (("candidates", decide.diff), ("scoped", decide.scope_filter), ("decision", decide.classify)):
            begun = time.perf_counter()
            step(con, policy).write_parquet(f"{folder}/{name}.parquet")
            con.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
            steps[name] = time.perf_counter() - begun
        begun = time.perf_counter()
        matched = decide.matched(con, policy)
        steps["matched"] = time.perf_counter() - begun
        buckets = con.execute("SELECT bucket, count(*) FROM decision GROUP BY ALL ORDER BY ALL").fetchall()
        total = sum(steps.values())
        print(f"{count} assets, {matched} matched, {dict(buckets)}")
        print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in steps.items()))
        print(
            f"all {total:.2f} s = {total / limit:.1f} times DuckDB's bare anti-join of the same files ({limit:.2f} s)"
        )
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        con.close()


if __name__ == "__main__":
    main()
