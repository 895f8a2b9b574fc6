"""A file of checksums as a local library: one base64 SHA-1 a line, as ``dump-server-checksums`` writes them.

It has no identifiers, no names and no change log, so it never confirms a deletion.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from library.errors import ChecksumsFileError
from library.protocol import ENUMERATED, Access, Changes, Enumeration, Stamp

# 20 bytes are 26 characters, a 27th whose last two bits are zero, and one '='.
_CHECKSUM = r"\A[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=\z"
_BOM = b"\xef\xbb\xbf"
_QUOTED = 4  # the wrong file may have been named, and it may hold a secret


class ChecksumsFileConfig(TypedDict):
    """What is remembered of a checksums file, ready for JSON."""

    path: str


@dataclass(frozen=True, slots=True)
class ChecksumsFile:
    """A checksums file (spec, Command-line tool). The local id of a checksum is the checksum itself."""

    library_id: str
    label: str
    path: Path
    kind: str = "checksums_file"
    has_change_log: bool = False
    pairs_by_content: bool = False

    def access(self) -> Access:
        """'limited' when the file is missing or cannot be read."""
        try:
            with _open(self.path):
                return Access("full")
        except OSError as error:
            return Access("limited", (f"{self.path}: {error.strerror}",))

    def change_token(self) -> None:
        """None: a file of checksums has no change log."""

    def changes_since(self, token: str, known: pa.Table, now: pa.Table) -> Changes:
        """Always expired."""
        return Changes(expired=True)

    def enumerate(self) -> Enumeration:
        """Every distinct checksum, ordered; the file name is empty and size and time are null.

        Raises ChecksumsFileError for a file that cannot be read and for the first line that is no base64 SHA-1.
        Blank lines, '#' comments, spaces around a line, a carriage return and a byte order mark are passed over.
        A file that is written to meanwhile is a problem.
        """
        try:
            with _open(self.path) as file:
                before = os.fstat(file.fileno())
                data = file.read()
                after = os.stat(self.path)  # noqa: PTH116  (compared with fstat)
        except OSError as error:
            raise ChecksumsFileError(
                f"The checksums file {self.path} cannot be read: {error.strerror}.", "Name a file that exists."
            ) from None
        keys = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in (before, after)]
        changed = keys[0] != keys[1] or len(data) != before.st_size
        checksums = parse_checksums(data, str(self.path))
        problems = (f"{self.path}: it changed while it was read",) if changed else ()
        return Enumeration(_table(self.library_id, checksums), None, problems)

    def open_bytes(self, local_id: str, part: str) -> BinaryIO:
        """Raises OSError: only checksums are known."""
        self._refuse(local_id)

    def stamp(self, local_id: str, part: str) -> Stamp:
        """Raises OSError: only checksums are known."""
        self._refuse(local_id)

    def albums(self) -> dict[str, str]:
        """None at all."""
        return {}

    def _refuse(self, local_id: str) -> NoReturn:
        raise FileNotFoundError(2, "A checksums file holds no photo", local_id)


def register_checksums_file(path: str | Path) -> ChecksumsFileConfig:
    """The configuration of a checksums file. Raises ChecksumsFileError for one that cannot be read."""
    config = ChecksumsFileConfig(path=str(Path(path).absolute()))
    ChecksumsFile("", "", Path(config["path"])).enumerate()
    return config


def parse_checksums(data: bytes, shown: str) -> pa.Array:
    """The distinct checksums of a file's bytes, ordered. ``shown`` names the file in ChecksumsFileError."""
    lines = pa.array(data.removeprefix(_BOM).split(b"\n"), pa.large_binary())
    try:
        text = lines.cast(pa.large_string())
    except pa.ArrowInvalid:
        number = next(n for n, line in enumerate(lines.to_pylist(), 1) if not _is_utf8(line))
        raise ChecksumsFileError(
            f"Line {number} of {shown} is not text in UTF-8.", "Expected one base64 SHA-1 a line, in UTF-8."
        ) from None
    text = pc.ascii_trim_whitespace(text)
    passed_over = pc.or_(pc.equal(text, ""), pc.starts_with(text, "#"))
    accepted = pc.or_(passed_over, pc.match_substring_regex(text, _CHECKSUM))
    bad = pc.index(accepted, False).as_py()
    if bad >= 0:
        line = text[bad].as_py()
        raise ChecksumsFileError(
            f"Line {bad + 1} of {shown} is no base64 SHA-1: {line[:_QUOTED]!a}… ({len(line)} characters).",
            "Expected 28 characters that end in '='.",
        )
    checksums = pc.unique(text.filter(pc.invert(passed_over))).cast(pa.string())
    return checksums.take(pc.sort_indices(checksums))


def _open(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(22, "It is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _table(library_id: str, checksums: pa.Array) -> pa.Table:
    rows = len(checksums)
    columns = {
        "library_id": pa.repeat(pa.scalar(library_id, pa.string()), rows),
        "local_id": checksums,
        "part": pa.repeat(pa.scalar("primary"), rows),
        "file_name": pa.repeat(pa.scalar(""), rows),
        "albums": pa.array([[]] * rows, ENUMERATED.field("albums").type),
        "checksum": checksums,
        "in_trash": pa.repeat(pa.scalar(False), rows),
    }
    return pa.table([columns.get(field.name, pa.nulls(rows, field.type)) for field in ENUMERATED], schema=ENUMERATED)
