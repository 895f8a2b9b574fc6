"""The deployments as prefect.yaml defines them: that file alone says what there is, for `up` and `prefect deploy`.

A further account gets the same deployments once more, named by its label and with its partition as parameter.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deployments.accounts import Account
from deployments.place import DEFINITIONS

TIMEZONE_VARIABLE = "deletion_sync_timezone"
DEPLOYED_VARIABLE = "deletion_sync_deployed"
SOURCES = (
    *("flows/reconcile.py", "flows/apply.py", "flows/restore.py"),
    *("deployments/setup.py", "deployments/prefect.yaml"),
)


def written(folder: Path, accounts: Sequence[Account]) -> Path:
    """A prefect.yaml in ``folder`` with the deployments of every account."""
    import yaml  # type: ignore[import-untyped]

    document = yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))
    document["deployments"] = [_of(entry, account) for account in accounts for entry in document["deployments"]]
    path = folder / "prefect.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def names(accounts: Sequence[Account]) -> list[str]:
    """The names of the deployments of these accounts."""
    import yaml

    entries = yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))["deployments"]
    return [_of(entry, account)["name"] for account in accounts for entry in entries]


def mark(path: Path, timezone: str, root: Path = DEFINITIONS.parents[1]) -> str:
    """What tells whether these definitions are deployed already. What a person changed in the UI stands until then.

    The flows' own sources below ``root`` count, for the server keeps a form of each flow's parameters.
    """
    parts = [timezone.encode(), path.read_bytes(), *((root / name).read_bytes() for name in SOURCES)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def local_timezone() -> str:
    """The IANA name of this computer's time zone: TZ, else /etc/localtime, else UTC."""
    zone = os.environ.get("TZ", "").lstrip(":")
    if not zone:
        _, _, zone = str(Path("/etc/localtime").resolve()).rpartition("zoneinfo/")
    try:
        return ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def _of(entry: dict[str, Any], account: Account) -> dict[str, Any]:
    if not account.label:
        return entry
    name = f"{entry['name']}-{account.label}"
    return {**entry, "name": name, "parameters": {**entry["parameters"], "partition": account.partition}}
