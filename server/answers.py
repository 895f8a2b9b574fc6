"""What an answer says: its JSON, or the typed error that a refusal stands for. Nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson

from server import errors

_SCOPE = re.compile(r"[Mm]issing required permission:?\s*([A-Za-z][\w.]*)")


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer, whole. ``what`` names the request for errors."""

    what: str
    status: int
    headers: httpx.Headers
    content: bytes

    def json(self) -> Any:
        """The decoded body. Raises NotAPhotoServer for a web page, AnswerMalformed for broken JSON."""
        try:
            return orjson.loads(self.content)
        except orjson.JSONDecodeError:
            if _is_json(self.headers):
                raise errors.AnswerMalformed(
                    f"{self.what}: the answer is broken JSON.", "Run again; if it stays so, look at the server's log."
                ) from None
        raise _not_a_photo_server(self.what, self.status)

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object. Raises as ``json`` does, and AnswerMalformed for anything else."""
        value = self.json()
        if not isinstance(value, dict):
            raise malformed(self.what, "is no JSON object")
        return value

    def json_list(self) -> list[Any]:
        """The body as a JSON array. Raises as ``json`` does, and AnswerMalformed for anything else."""
        value = self.json()
        if not isinstance(value, list):
            raise malformed(self.what, "is no JSON array")
        return value


def malformed(what: str, problem: str) -> errors.AnswerMalformed:
    """The error for an answer to ``what`` that must not be used."""
    return errors.AnswerMalformed(
        f"{what}: the answer {problem}.", "Nothing was concluded from it. Check that the server's version is supported."
    )


def refusal(what: str, response: httpx.Response, content: bytes, clean: Callable[[str], str]) -> errors.ServerError:
    """The error for an answer that is neither 2xx nor a redirect. ``clean`` makes what the server said fit to show."""
    status = response.status_code
    body = _json_object(response.headers, content)
    said = clean(_message(body))
    reference = _reference(response.headers, body)
    if status >= 500:
        return errors.ServerFault(
            f"{what}: the server failed with status {status}.", "Look at its log.", status, said, reference
        )
    if status == 429:
        after = _retry_after(response.headers)
        return errors.RateLimited(f"{what}: too many requests.", "Wait, then run again.", after, said, reference)
    if body is None and status != 413:
        return _not_a_photo_server(what, status)
    scope = _SCOPE.search(said)
    if status in (401, 403) and scope:
        name = scope.group(1)
        return errors.MissingScope(name, f"{what}: the API key lacks the permission {name}.", status, said, reference)
    if status == 403 or (status == 401 and "permission" in said.lower()):
        return errors.NoAccess(
            f"{what}: access refused.", "Use a key of the account that owns it.", status, said, reference
        )
    if status == 401:
        return errors.KeyRefused(
            f"{what}: the server does not accept the credentials.",
            "Make a new API key in the server's account settings and put it into .env as SERVER_API_KEY.",
            status,
            said,
            reference,
        )
    if status == 404 or (status == 400 and said.lower().startswith("not found or no ")):
        return errors.NotFound(f"{what}: there is no such thing, or no access to it.", "", status, said, reference)
    return errors.BadRequest(f"{what}: refused with status {status}.", "", status, said, reference)


def _not_a_photo_server(what: str, status: int) -> errors.NotAPhotoServer:
    return errors.NotAPhotoServer(
        f"{what}: what answered (status {status}) is not the photo server's API.",
        "Check the server address; a proxy or login page before the server must let API requests through.",
        status,
    )


def _is_json(headers: httpx.Headers) -> bool:
    return "json" in headers.get("Content-Type", "").lower()


def _json_object(headers: httpx.Headers, content: bytes) -> dict[str, Any] | None:
    if not _is_json(headers):
        return None
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _message(body: dict[str, Any] | None) -> str:
    """``message`` is a string, or a list of strings; newer servers add ``errors`` with a path and a message each."""
    if body is None:
        return ""
    message = body.get("message", "")
    parts = [str(m) for m in message] if isinstance(message, list) else [str(message)]
    details = body.get("errors")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict):
            path = ".".join(map(str, detail["path"])) if isinstance(detail.get("path"), list) else ""
            parts.append(f"{path}: {detail.get('message', '')}")
    return "; ".join(parts)


def _reference(headers: httpx.Headers, body: dict[str, Any] | None) -> str:
    value = headers.get("x-correlation-id") or headers.get("x-immich-cid") or (body or {}).get("correlationId") or ""
    return re.sub(r"[^\w-]", "", str(value))[:64]


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds, from either form of the header; a date counts from the answer's own Date."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    then, now = parsed_date(value), parsed_date(headers.get("Date", ""))
    return max(0.0, then - now) if then is not None and now is not None else None


def parsed_date(value: str) -> float | None:
    """An HTTP date as seconds since 1970, or None where it is none."""
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError):
        return None
