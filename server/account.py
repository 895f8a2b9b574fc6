"""What the server is, and what the key may do and whose it is. Assets are elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from server import errors
from server.answers import Answer, malformed, parsed_date
from server.http import Transport
from server.rows import VISIBILITIES, rows
from server.shapes import Identity, Statistics, TrashPolicy, Version, uuid_in

# spec, Authentication 2
NORMAL_SCOPES = frozenset({"asset.read", "asset.view", "asset.download", "asset.delete", "tag.create", "tag.asset"})
HISTORY_SCOPES = frozenset({"tag.read"})
# What real servers ask beyond the specification's list, and what each gives. Without them the client makes do.
OPTIONAL_SCOPES: Mapping[str, str] = MappingProxyType(
    {
        "user.read": "reads whose key it is directly, instead of from the owner of listed assets",
        "asset.statistics": "compares every listing with the server's own count",
        "asset.upload": "finds assets that a listing left out, 5000 a request (nothing is uploaded)",
        "tag.delete": "removes a run's tag when nothing was trashed under it",
    }
)


def ping(transport: Transport) -> Answer:
    """Ask for a sign of life, without an Accept header (spec, Errors: 406). Raises NotAPhotoServer for others."""
    try:
        answer = transport.read("GET", "/api/server/ping", accept=None)
    except (errors.BadRequest, errors.NotAPhotoServer):
        answer = transport.read("GET", "/api/server-info/ping", accept=None)
    if b"pong" not in answer.content[:200]:
        raise errors.NotAPhotoServer(
            f"{answer.what}: what answered is not the photo server.",
            "Check the server address; a proxy or login page before the server must let API requests through.",
            answer.status,
        )
    return answer


def version(transport: Transport) -> Version:
    """The server's version. Raises ServerError."""
    answer = transport.read("GET", "/api/server/version")
    body = answer.json_object()
    major, minor, patch = (_whole_number(body, key, answer.what) for key in ("major", "minor", "patch"))
    return Version(major, minor, patch)


def trash_policy(transport: Transport) -> TrashPolicy:
    """Whether deleting means trash, and for how long. With the trash off the days mean nothing; ``enabled`` decides."""
    features = transport.read("GET", "/api/server/features")
    enabled = features.json_object().get("trash")
    if not isinstance(enabled, bool):
        raise malformed(features.what, "does not say whether the trash is on")
    days = transport.read("GET", "/api/server/config").json_object().get("trashDays")
    return TrashPolicy(enabled, days if isinstance(days, int) and not isinstance(days, bool) else None)


def server_time(transport: Transport) -> float | None:
    """Seconds since 1970 by the server's clock, or None where its answers carry no date."""
    return parsed_date(ping(transport).headers.get("Date", ""))


def clock_skew(transport: Transport, now: datetime) -> float | None:
    """Seconds that ``now`` (aware, UTC) is ahead of the server's clock; None where the server tells no time."""
    theirs = server_time(transport)
    return None if theirs is None else now.astimezone(UTC).timestamp() - theirs


def key_scopes(transport: Transport) -> frozenset[str]:
    """The key's permissions; 'all' stands for every one. Needs none itself."""
    answer = transport.read("GET", "/api/api-keys/me")
    permissions = answer.json_object().get("permissions")
    if not isinstance(permissions, list) or not all(isinstance(scope, str) for scope in permissions):
        raise malformed(answer.what, "does not list the key's permissions")
    return frozenset(permissions)


def missing_scopes(transport: Transport, required: Iterable[str]) -> list[str]:
    """Those of ``required`` that the key lacks, sorted."""
    held = key_scopes(transport)
    return [] if "all" in held else sorted(set(required) - held)


def statistics(transport: Transport) -> Statistics | None:
    """The server's count of untrashed assets in timeline and archive, or None without asset.statistics."""
    try:
        answer = transport.read("GET", "/api/assets/statistics")
    except errors.MissingScope:
        return None
    body = answer.json_object()
    return Statistics(*(_whole_number(body, key, answer.what) for key in ("images", "videos", "total")))


def identity(transport: Transport, size: int) -> Identity:
    """Whose key it is (spec, per-user partitioning). The user id is a UUID.

    Without user.read it is read from the owners of listed assets, label-less. A listing shows a partner's assets too,
    so an owner is believed only as the sole owner in sight, and in the timeline alone only with a proof.
    Raises MissingScope naming user.read where that does not settle it.
    """
    try:
        answer = transport.read("GET", "/api/users/me")
    except errors.MissingScope as missing:
        owner = _sole_owner(transport, size)
        if owner is None:
            raise errors.MissingScope(
                missing.scope, "The listed assets do not settle whose key it is.", missing.status
            ) from None
        return Identity(owner, None, None)
    body = answer.json_object()
    email, name = body.get("email"), body.get("name")
    return Identity(
        uuid_in(body.get("id"), answer.what, "id"),
        email if isinstance(email, str) else None,
        name if isinstance(name, str) else None,
    )


def _sole_owner(transport: Transport, size: int) -> str | None:
    owners: dict[str, set[str]] = {}
    whole = True
    sample: dict[str, Any] | None = None
    for visibility in VISIBILITIES:
        body = {"visibility": visibility, "withDeleted": True, "size": size, "page": 1}
        answer = transport.read("POST", "/api/search/metadata", body=body)
        found = answer.json_object().get("assets")
        if not isinstance(found, dict) or not isinstance(found.get("items"), list):
            raise malformed(answer.what, "is no page of assets")
        table = rows(found["items"], what=answer.what, asked=visibility)
        owners[visibility] = set(table["owner_id"].to_pylist())
        whole = whole and found.get("nextPage") is None
        sample = sample or next((i for i in found["items"] if i.get("libraryId") is None), None)
    everyone = set().union(*owners.values())
    if len(everyone) != 1:
        return None
    believed = owners["hidden"] or owners["archive"] or _proved_own(transport, whole, sample)
    return everyone.pop() if believed else None


def _proved_own(transport: Transport, whole: bool, sample: dict[str, Any] | None) -> bool:
    """Whether the sole owner in a timeline is this user: the server counts, or knows the upload as, their own."""
    counted = statistics(transport)
    if counted is not None and counted.total > 0 and whole:
        return True
    if sample is None:
        return False
    body = {"assets": [{"id": "0", "checksum": sample["checksum"]}]}
    try:
        results = transport.read("POST", "/api/assets/bulk-upload-check", body=body).json_object().get("results")
    except errors.MissingScope:
        return False
    first = results[0] if isinstance(results, list) and results else None
    return isinstance(first, dict) and first.get("assetId") == sample["id"]


def _whole_number(body: dict[str, Any], key: str, what: str) -> int:
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise malformed(what, f"has no number as {key}")
    return value
