"""What a person may call a photo (checksum, asset id, file name, path in a library), as the checksums it stands for.

Reads the newest listing of the server that a run kept, and the libraries' index. The server is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.output import note, printable
from engine.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from state.partition import Partition

_LISTED = 20  # matches that a refusal shows

NAMED = """
SELECT DISTINCT checksum, file_name, asset_id AS place FROM listed WHERE lower(file_name) = lower($what)
UNION
SELECT DISTINCT checksum, file_name, local_id AS place FROM local_index
WHERE lower(file_name) = lower($what) OR local_id = $what
ORDER BY ALL
"""

# The other half of a Live Photo, by the server's link and by the local id that both files share.
PARTNERS = """
WITH pairs AS (
    SELECT s.checksum AS one, v.checksum AS other FROM listed s JOIN listed v ON v.asset_id = s.live_photo_video_id
    UNION
    SELECT a.checksum, b.checksum FROM local_index a JOIN local_index b USING (library_id, local_id)
    WHERE a.checksum <> b.checksum
)
SELECT other FROM pairs WHERE one = $checksum UNION SELECT one FROM pairs WHERE other = $checksum
"""

FILE_NAME = """
SELECT file_name FROM listed WHERE checksum = $checksum
UNION ALL SELECT file_name FROM local_index WHERE checksum = $checksum LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class _Match:
    checksum: str
    file_name: str
    place: str


def resolved(partition: Partition, names: Sequence[str], excluded: Mapping[str, str] | None = None) -> dict[str, str]:
    """Checksum to file name ('' where none is known) of all that ``names`` stand for, both halves of Live Photos.

    With ``excluded`` (checksum to file name) only those are meant, and a name is looked for among them first.
    Raises UsageError for a name that stands for nothing, or for more than one photo; then nothing is concluded.
    """
    from state.db import reading

    found: dict[str, str] = {}
    with reading(partition) as con:
        listed = _view_of_listing(con, partition)
        for name in names:
            checksums = _meant(con, name, excluded or {}, listed)
            halves = list(dict.fromkeys([*checksums, *(p for c in checksums for p in _partners(con, c))]))
            if excluded is not None:
                halves = [checksum for checksum in halves if checksum in excluded]
                if not halves:
                    raise UsageError(f"{name!r} is not protected.", "`deletion-sync exclude list` shows what is.")
            found |= {checksum: _file_name(con, checksum) for checksum in halves}
    return found


def _meant(con: duckdb.DuckDBPyConnection, what: str, excluded: Mapping[str, str], listed: bool) -> list[str]:
    """The checksums of one photo. Raises UsageError."""
    from server.shapes import UUID
    from state.exclusions import CHECKSUM

    if CHECKSUM.fullmatch(what):
        return [what]
    if UUID.fullmatch(what):
        rows = con.execute("SELECT checksum FROM listed WHERE asset_id = lower(?)", [what]).fetchall()
        matches = [_Match(checksum, "", what) for (checksum,) in rows]
    else:
        matches = [_Match(c, name, "protected") for c, name in excluded.items() if name.lower() == what.lower()]
        matches = matches or [_Match(*row) for row in con.execute(NAMED, {"what": what}).fetchall()]
    if not matches:
        raise UsageError(
            f"Nothing is known as {what!r}.",
            "Give a checksum, an asset id, a file name, or a path in a library."
            if listed
            else "No run has listed the server yet: run `deletion-sync dry-run` first, or give a checksum.",
        )
    checksums = list(dict.fromkeys(match.checksum for match in matches))
    one_photo = {checksums[0], *_partners(con, checksums[0])}
    if not one_photo.issuperset(checksums):
        for match in matches[:_LISTED]:
            note(f"{match.file_name}  {match.checksum}  {match.place}")
        if len(matches) > _LISTED:
            note(f"… and {len(matches) - _LISTED} more")
        raise UsageError(
            f"{printable(what)!r} stands for {len(checksums)} different files. Nothing was changed.",
            "Name the one that you mean by its checksum, its asset id, or its path in the library.",
        )
    return checksums


def _partners(con: duckdb.DuckDBPyConnection, checksum: str) -> list[str]:
    return [other for (other,) in con.execute(PARTNERS, {"checksum": checksum}).fetchall()]


def _file_name(con: duckdb.DuckDBPyConnection, checksum: str) -> str:
    row = con.execute(FILE_NAME, {"checksum": checksum}).fetchone()
    return "" if row is None else str(row[0])


def _view_of_listing(con: duckdb.DuckDBPyConnection, partition: Partition) -> bool:
    """Make the relation ``listed`` from the newest run that kept a listing; empty, and False, where there is none."""
    from engine.relations import SERVER
    from tasks.fetch_server_assets import SERVER as FILE
    from tasks.files import quoted

    for folder in sorted(partition.runs.iterdir(), reverse=True) if partition.runs.is_dir() else []:
        if (folder / FILE).is_file():
            con.execute(f"CREATE TEMP VIEW listed AS FROM read_parquet({quoted(folder / FILE)})")
            return True
    con.register("listed", SERVER.empty_table())
    return False
