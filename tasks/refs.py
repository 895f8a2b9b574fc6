"""What travels between steps: small frozen references, never rows, file names, addresses or keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunRef:
    """A run: the home folder, the partition's folder name, and the run id, which names its folder in the partition."""

    home: str
    partition: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Ref:
    """One file of a run's folder: its name there, how many rows it holds, and the SHA-256 of its bytes."""

    name: str
    rows: int
    digest: str
