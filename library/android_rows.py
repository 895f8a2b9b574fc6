"""What `content` on a phone prints, read without guessing. Nothing here talks to a phone.

`content query` prints a row as ``Row: 3 _id=17, _data=/a/b.jpg`` and escapes nothing, so a name may hold commas, equals
signs, line breaks, even the beginning of another row. Hence at most one column of a query is free text, it comes last,
and ``_id`` comes first. The rows' numbers and ids are known from a query that has only numbers, so every line that
begins as a row must be the next expected one; a name that imitates a row makes one too many, which is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_NOTHING = (b"No result found.\n", b"No reuslt found.\n")  # the second was printed for years
_SINGLE = re.compile(rb"Row: 0 [^=\n]+=(NULL|\d+)\n")


class Unreadable(ValueError):
    """An answer that is cut off, contradicts another one, or is no answer at all."""


def query(uri: str, projection: Sequence[str], where: str, sort: str = "") -> str:
    """The shell command of a query that shows pending and trashed rows too, which are left out unless asked for.

    The colons in the names of extras are escaped, because `content` splits at the first one.
    """
    words = ["content", "query", "--uri", uri, "--projection", ":".join(projection), "--where", where]
    if sort:
        words += ["--sort", sort]
    for state in ("pending", "trashed"):
        words += ["--extra", rf"android\:query-arg-match-{state}:i:1"]
    return shlex.join(words)


def call(method: str, volume: str) -> str:
    """The shell command that asks the media provider something about a volume."""
    extra = f"android.intent.extra.TEXT:s:{volume}"
    return shlex.join(["content", "call", "--uri", "content://media", "--method", method, "--extra", extra])


def numbers(output: bytes, columns: Sequence[str]) -> list[tuple[int | None, ...]]:
    """The rows of a query whose columns are all numbers. Raises Unreadable unless every byte is accounted for."""
    if output in _NOTHING:
        return []
    fields = b", ".join(re.escape(column.encode()) + rb"=(NULL|-?\d+)" for column in columns)
    line = re.compile(rb"Row: (\d+) " + fields + rb"\n")
    rows: list[tuple[int | None, ...]] = []
    position = 0
    while position < len(output):
        found = line.match(output, position)
        if found is None or int(found[1]) != len(rows):
            raise Unreadable(f"row {len(rows)} of the phone's media index cannot be read")
        rows.append(tuple(None if value == b"NULL" else int(value) for value in found.groups()[1:]))
        position = found.end()
    if not rows:
        raise Unreadable("the phone's media index gave no answer")
    return rows


def texts(output: bytes, ids: Sequence[int], column: str) -> list[bytes]:
    """The values of the one text column of a query over ``_id`` and it, for the ids that are known to come, in order.

    Raises Unreadable for other ids, a cut-off end, and a value that imitates a row.
    """
    if output in _NOTHING and not ids:
        return []
    marker = re.compile(rb"(?:\A|\n)Row: (\d+) _id=(\d+), " + re.escape(column.encode()) + b"=")
    found = list(marker.finditer(output))
    if [(int(each[1]), int(each[2])) for each in found] != list(enumerate(ids)):
        raise Unreadable("two answers of the phone's media index differ, or a file's name imitates a row of it")
    if not ids or found[0].start() != 0 or not output.endswith(b"\n"):
        raise Unreadable("an answer of the phone's media index is cut off")
    ends = [each.start() for each in found[1:]] + [len(output) - 1]
    return [output[each.end() : end] for each, end in zip(found, ends, strict=True)]


def single(output: bytes) -> int:
    """The one number of a query for one (a count, a maximum); NULL, the maximum of nothing, is 0. Raises Unreadable."""
    found = _SINGLE.fullmatch(output)
    if found is None:
        raise Unreadable("the phone's media index does not count its rows")
    return 0 if found[1] == b"NULL" else int(found[1])


def result(output: bytes, key: str) -> str | None:
    """The value of a key in the bundle that a call printed; None: it has none."""
    found = re.search(rb"[\[{ ]" + re.escape(key.encode()) + rb"=([^,}\]\s]+)", output)
    return None if found is None else found[1].decode("ascii", "replace")


def volumes(output: bytes) -> dict[str, str]:
    """Name to state of the volumes that can hold photos, of what `sm list-volumes all` prints; the built-in one is
    `external_primary`, any other has its lower-case id, as the media provider names them. Raises Unreadable."""
    found: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        kind, state, uuid = [*line.split(), "", "", ""][:3]
        if kind.startswith("emulated"):
            # One per user; `emulated` alone or `;0` is the owner's. Adopted storage is a second one, mounted or not.
            if kind.partition(";")[2] in ("", "0") and found.get("external_primary") != "mounted":
                found["external_primary"] = state
        elif kind.startswith("public:") and uuid not in ("", "null"):
            found[uuid.lower()] = state
    if not found:
        raise Unreadable("the phone does not say which storage it has")
    return found
