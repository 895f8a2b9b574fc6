"""Which types the change stream has, per major version of the server: what is asked for, and what its lines may be.

Whoever makes a new version known changes this table, and nothing else. How lines are read is in stream_parse.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from server.shapes import Version


@dataclass(frozen=True, slots=True)
class Types:
    """What a request ``asks`` for, and the entity types under which the answer ``shows`` assets."""

    asks: tuple[str, ...]
    shows: tuple[str, ...]


# A 3.x refuses V1, and hangs when it is asked for together with another type.
BY_MAJOR: Mapping[int, Types] = MappingProxyType(
    {
        2: Types(("AssetsV1",), ("AssetV1",)),
        3: Types(("AssetsV2",), ("AssetV2",)),
    }
)
MINIMUM = (2, 0)  # spec, Versioning 5: the first server version whose change stream is used
VERIFIED = (3, 1)  # the newest one that it was tried on; of a newer major version nothing is assumed

# Of whatever version, each is read.
ASSETS = tuple(kind for types in BY_MAJOR.values() for kind in types.shows)
DELETE, COMPLETE, RESET, ACK = "AssetDeleteV1", "SyncCompleteV1", "SyncResetV1", "SyncAckV1"
KNOWN = (*ASSETS, DELETE, COMPLETE, RESET, ACK)

_OF_ASSETS = re.compile(r"Asset(Delete)?V\d+")


def asset_types(version: Version) -> tuple[str, ...]:
    """What to ask this server for, which ``unfit`` has nothing against."""
    return BY_MAJOR[version.major].asks


def unfit(version: Version) -> str | None:
    """Why the change stream of a server of this version is not used; None: it is (spec, Versioning 5)."""
    if (version.major, version.minor) < MINIMUM:
        return f"The server is {version}; its change stream is used from {MINIMUM[0]}.{MINIMUM[1]} on."
    if version.major not in BY_MAJOR:
        return (
            f"The server is {version}; its change stream is known up to {VERIFIED[0]}.{VERIFIED[1]}. "
            "A newer deletion-sync may know this one."
        )
    return None


def unknown_of_assets(kinds: Iterable[str]) -> list[str]:
    """Entity types that show or delete assets in a form that is not known here.

    They decode as ignored, as every unknown type does (rule 3). But who goes on without what they say of assets would
    not deliver what a search does (spec, item 15.7).
    """
    return sorted(kind for kind in kinds if _OF_ASSETS.fullmatch(kind) and kind not in KNOWN)
