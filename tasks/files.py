"""Reading and writing the files of a run's folder: Parquet snapshots and small JSON documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.database import database
from engine.errors import DeletionSyncError
from state.files import write_atomic
from tasks.refs import Ref

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def quoted(path: Path) -> str:
    """A path as a SQL string."""
    return "'" + str(path).replace("'", "''") + "'"


def write_relation(con: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation, path: Path) -> Ref:
    """Write a relation as Parquet, in its order."""
    relation.write_parquet(str(path), compression="zstd")
    path.chmod(0o600)
    return reference(path)


def write_table(table: pa.Table, path: Path) -> Ref:
    """Write an Arrow table as Parquet."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")
    path.chmod(0o600)
    return reference(path)


def reference(path: Path) -> Ref:
    """The reference to a Parquet file that is complete."""
    import pyarrow.parquet as pq

    return reference_of_bytes(path, pq.read_metadata(path).num_rows)


def reference_of_bytes(path: Path, rows: int) -> Ref:
    """The reference to a file of any kind that is complete; ``rows`` is what the caller counts in it."""
    with path.open("rb") as stream:
        return Ref(path.name, rows, hashlib.file_digest(stream, "sha256").hexdigest())


def verified(folder: Path, ref: Ref) -> Path:
    """The path of a referenced file whose bytes are what the reference says. Raises DeletionSyncError otherwise."""
    path = folder / ref.name
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        digest = ""
    if digest != ref.digest:
        raise DeletionSyncError(
            f"The file {ref.name} of run {folder.name} is not what its step wrote.", "Start a new run."
        )
    return path


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a small document so that it is whole or not there at all."""
    write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False, default=str).encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """A document that write_json wrote. Raises DeletionSyncError when it is missing or damaged."""
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError) as error:
        raise DeletionSyncError(
            f"The file {path.name} of run {path.parent.name} cannot be read.", "Start a new run."
        ) from error
    if not isinstance(document, dict):
        raise DeletionSyncError(f"The file {path.name} of run {path.parent.name} is damaged.", "Start a new run.")
    return document


@contextmanager
def relations(folder: Path, **refs: Ref) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory DuckDB with a view for each referenced file, by the argument's name."""
    with database(spill=folder / "spill") as con:
        for name, ref in refs.items():
            con.execute(f"CREATE VIEW {name} AS FROM read_parquet({quoted(verified(folder, ref))})")
        yield con
