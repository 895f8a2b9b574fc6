"""Photos libraries for tests: real bundles with real files and a real SQLite database.

No library made by Photos comes with any package, so these are built here: the tables and columns that osxphotos reads
of a given version of Photos, and the folders where that version keeps its files.
"""

from __future__ import annotations

import os
import plistlib
import sqlite3
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from library.apple_photos import ApplePhotosLibrary, register_apple_photos
from tests.library.worlds import MODIFIED_NS

# The version of the tables to the version of Photos, as osxphotos numbers it: macOS 10.15, 11, 12, 13, 14, 14.6, a beta
# of 15, 15, 26, 26.1 and a beta of 27. Each has its own names of tables and columns (osxphotos._constants).
VERSIONS = {
    13537: 5,
    14104: 6,
    15331: 7,
    16320: 8,
    17120: 9,
    17602: 9.6,
    18164: 9.9,
    18300: 10,
    19063: 11,
    19400: 11.1,
    270_008_501: 12,
}
NEWEST = 19400  # of those that are out
UNKNOWN = 99_999  # osxphotos then assumes the tables of the newest version that it knows
STORE = "5D2A0B1C-0000-4000-8000-00000000AAAA"

_SCORES = (
    "BEHAVIORAL FAILURE HARMONIOUSCOLOR IMMERSIVENESS INTERACTION INTERESTINGSUBJECT INTRUSIVEOBJECTPRESENCE "
    "LIVELYCOLOR NOISE PLEASANTCAMERATILT PLEASANTCOMPOSITION PLEASANTLIGHTING PLEASANTPATTERN PLEASANTPERSPECTIVE "
    "PLEASANTPOSTPROCESSING PLEASANTREFLECTIONS PLEASANTSYMMETRY SHARPLYFOCUSEDSUBJECT TASTEFULLYBLURRED "
    "WELLCHOSENSUBJECT WELLFRAMEDSUBJECT WELLTIMEDSHOT"
)
_TABLES = {
    "Z_METADATA": "Z_VERSION Z_UUID Z_PLIST",
    "Z_PRIMARYKEY": "Z_ENT Z_NAME Z_SUPER Z_MAX",
    "ZADDITIONALASSETATTRIBUTES": (
        "ASSET MASTERFINGERPRINT ORIGINALSTABLEHASH TITLE ORIGINALFILENAME TIMEZONEOFFSET INFERREDTIMEZONEOFFSET "
        "TIMEZONENAME CAMERACAPTUREDEVICE REVERSELOCATIONDATA ORIGINALRESOURCECHOICE ORIGINALHEIGHT ORIGINALWIDTH "
        "ORIGINALORIENTATION ORIGINALFILESIZE IMPORTEDBYDISPLAYNAME IMPORTEDBYBUNDLEIDENTIFIER ASSETDESCRIPTION "
        "UNMANAGEDADJUSTMENT SYNDICATIONHISTORY SYNDICATIONIDENTIFIER"
    ),
    "ZGENERICALBUM": (
        "UUID TITLE KIND PARENTFOLDER TRASHEDSTATE CLOUDLOCALSTATE CLOUDOWNERFIRSTNAME CLOUDOWNERLASTNAME "
        "CLOUDOWNERHASHEDPERSONID CLOUDOWNERFULLNAME CREATIONDATE STARTDATE ENDDATE CUSTOMSORTASCENDING CUSTOMSORTKEY"
    ),
    "ZINTERNALRESOURCE": (
        "LOCALAVAILABILITY REMOTEAVAILABILITY DATASTORESUBTYPE COMPACTUTI UNIFORMTYPEIDENTIFIER ASSET FINGERPRINT "
        "DATALENGTH RESOURCETYPE FILESYSTEMBOOKMARK FILESYSTEMVOLUME"
    ),
    "ZPERSON": "PERSONUUID FULLNAME FACECOUNT KEYFACE DISPLAYNAME TYPE MANUALORDER",
    "ZDETECTEDFACE": (
        "UUID ASSETFORFACE PERSONFORFACE ASSET PERSON AGETYPE EYEMAKEUPTYPE EYESSTATE FACIALHAIRTYPE GENDERTYPE "
        "GLASSESTYPE HAIRCOLORTYPE HASSMILE HIDDEN ISINTRASH LIPMAKEUPTYPE MANUAL QUALITYMEASURE SMILETYPE "
        "SOURCEHEIGHT SOURCEWIDTH BLURSCORE CENTERX CENTERY POSEYAW QUALITY ROLL SIZE MASTERIDENTIFIER"
    ),
    "ZMOMENT": (
        "TIMEZONEOFFSET TRASHEDSTATE APPROXIMATELATITUDE APPROXIMATELONGITUDE ENDDATE MODIFICATIONDATE "
        "REPRESENTATIVEDATE STARTDATE SUBTITLE TITLE UUID"
    ),
    "ZCLOUDSHAREDCOMMENT": (
        "ISLIKE COMMENTDATE COMMENTTEXT COMMENTERHASHEDPERSONID ISMYCOMMENT COMMENTEDASSET LIKEDASSET"
    ),
    "ZCLOUDSHAREDALBUMINVITATIONRECORD": "INVITEEHASHEDPERSONID INVITEEFIRSTNAME INVITEELASTNAME INVITEEFULLNAME",
    "ZCOMPUTEDASSETATTRIBUTES": " ".join(["ASSET", "LOWLIGHT", *(f"{name}SCORE" for name in _SCORES.split())]),
    "ZEXTENDEDATTRIBUTES": "ASSET",
    "ZKEYWORD": "TITLE",
    "ZFILESYSTEMVOLUME": "UUID NAME",
    "ZFILESYSTEMBOOKMARK": "PATHRELATIVETOVOLUME RESOURCE",
    "ZUNIFORMTYPEIDENTIFIER": "IDENTIFIER",
    "ZASSETDESCRIPTION": "LONGDESCRIPTION",
    "ZUNMANAGEDADJUSTMENT": "ADJUSTMENTFORMATIDENTIFIER",
    "ZCLOUDMASTER": "CLOUDLOCALSTATE CLOUDMASTERGUID",
}
_ASSET = (
    "UUID MODIFICATIONDATE DATECREATED HIDDEN FAVORITE DIRECTORY FILENAME LATITUDE LONGITUDE HASADJUSTMENTS "
    "ADJUSTMENTSSTATE CLOUDBATCHPUBLISHDATE KIND UNIFORMTYPEIDENTIFIER AVALANCHEUUID AVALANCHEPICKTYPE KINDSUBTYPE "
    "CUSTOMRENDEREDVALUE HDRTYPE CLOUDASSETGUID MOMENT TRASHEDSTATE HEIGHT WIDTH ORIENTATION DEPTHSTATES DEPTHTYPE "
    "ADJUSTMENTTIMESTAMP VISIBILITYSTATE TRASHEDDATE SAVEDASSETTYPE ADDEDDATE CLOUDOWNERHASHEDPERSONID MOMENTSHARE "
    "IMPORTSESSION MASTER OVERALLAESTHETICSCORE CURATIONSCORE PROMOTIONSCORE HIGHLIGHTVISIBILITYSCORE SYNDICATIONSTATE "
    "ACTIVELIBRARYSCOPEPARTICIPATIONSTATE LIBRARYSCOPESHARESTATE LIBRARYSCOPE"
)


@dataclass
class Bundle:
    """A Photos library that a test takes the part of Photos in. Each method is one thing that a person can do there."""

    path: Path
    model: int = NEWEST
    store: str = STORE
    names: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = pytest.importorskip("osxphotos._constants")._DB_TABLE_NAMES[VERSIONS.get(self.model, 12)]
        for folder in ("database", "originals", "resources/renders"):
            (self.path / folder).mkdir(parents=True)
        assets, join = self.names["ASSET"], self.names["ASSET_ALBUM_TABLE"]
        tables = {name: _columns(names) for name, names in _TABLES.items()}
        tables[assets] = [*_columns(_ASSET), "Z_FOK_IMPORTSESSION"]
        if self.model >= 15000:
            tables[assets].append("ZBUNDLESCOPE")
        if self.model >= 19000:
            tables[assets].append("ZCOLLECTIONSHARE")
        tables[join] = [self.names[key].split(".")[1] for key in ("ALBUM_JOIN", "ALBUM_SORT_ORDER", "ASSET_ALBUM_JOIN")]
        tables["Z_1KEYWORDS"] = ["Z_1ASSETATTRIBUTES", self.names["KEYWORD_JOIN"].split(".")[1]]
        properties = plistlib.dumps({"PLModelVersion": self.model})
        with closing(sqlite3.connect(self.database)) as con:
            for name, columns in tables.items():
                con.execute(f"CREATE TABLE {name} (Z_PK INTEGER PRIMARY KEY, {', '.join(columns)})")
            con.execute(
                "INSERT INTO Z_METADATA (Z_VERSION, Z_UUID, Z_PLIST) VALUES (1, ?, ?)", (self.store, properties)
            )
            for entity in (assets.removeprefix("Z").replace("GENERICASSET", "GenericAsset").replace("ASSET", "Asset"),
                           "TRANSACTION"):  # fmt: skip
                con.execute("INSERT INTO Z_PRIMARYKEY (Z_NAME, Z_MAX) VALUES (?, 0)", (entity,))
            con.execute("INSERT INTO ZGENERICALBUM (ZUUID, ZKIND, ZTRASHEDSTATE) VALUES ('ROOT', 3999, 0)")
            con.commit()

    @property
    def database(self) -> Path:
        return self.path / "database" / "Photos.sqlite"

    def add(
        self,
        name: str,
        content: bytes | None,
        *,
        uti: str = "public.jpeg",
        motion: bytes | None = None,
        raw: bytes | None = None,
        key: str | None = None,
        attributes: Mapping[str, object] | None = None,
        **asset: object,
    ) -> str:
        """A photo or video with its file, or without one where the content is None (in iCloud). Returns its id.

        ``asset`` and ``attributes`` are columns of the two tables, without their Z.
        """
        key = key or str(uuid.uuid4()).upper()
        suffix = Path(name).suffix.lower()
        kind = 1 if suffix in (".mov", ".mp4") else 0
        if content is not None:
            self.write(f"originals/{key[0]}/{key}{suffix}", content)
        if motion is not None:
            self.write(f"originals/{key[0]}/{key}_3.mov", motion)
            asset["KINDSUBTYPE"] = 2
        if raw is not None:
            self.write(f"originals/{key[0]}/{key}_4.dng", raw)
        columns = {"UUID": key, "DIRECTORY": key[0], "FILENAME": f"{key}{suffix}", "KIND": kind, "TRASHEDSTATE": 0,
                   "UNIFORMTYPEIDENTIFIER": uti, "HASADJUSTMENTS": 0, "ADJUSTMENTSSTATE": 0, "VISIBILITYSTATE": 0,
                   "SAVEDASSETTYPE": 3, "DATECREATED": 7e8, **asset}  # fmt: skip
        with closing(sqlite3.connect(self.database)) as con:
            row = _insert(con, self.names["ASSET"], columns)
            extra = {"ASSET": row, "ORIGINALFILENAME": name, "SYNDICATIONHISTORY": 0, **(attributes or {})}
            _insert(con, "ZADDITIONALASSETATTRIBUTES", extra)
            here = {"ASSET": row, "DATASTORESUBTYPE": 1, "LOCALAVAILABILITY": 1 if content is not None else -1}
            _insert(con, "ZINTERNALRESOURCE", here)
            if raw is not None:
                _insert(con, "ZINTERNALRESOURCE", {"ASSET": row, "DATASTORESUBTYPE": 17, "LOCALAVAILABILITY": 1})
            con.execute("UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_NAME LIKE '%asset'", (row,))
            con.commit()
        self.commit_transaction()
        return key

    def write(self, name: str, content: bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))
        return path

    def change(self, key: str, **columns: object) -> None:
        """Set columns of an asset."""
        changed = ", ".join(f"Z{name} = :{name}" for name in columns)
        self.execute(f"UPDATE {self.names['ASSET']} SET {changed} WHERE ZUUID = :key", {**columns, "key": key})

    def edit(self, key: str, content: bytes | None, motion: bytes | None = None, suffix: str = ".jpeg") -> None:
        """Edit a photo, again where it was edited before; the edited file is not here where the content is None."""
        self.change(key, HASADJUSTMENTS=1, ADJUSTMENTSSTATE=2)
        if content is not None:
            path = self.write(f"resources/renders/{key[0]}/{key}_1_201_a{suffix}", content)
            os.utime(path, ns=(MODIFIED_NS + len(content), MODIFIED_NS + sum(content)))
        if motion is not None:
            self.write(f"resources/renders/{key[0]}/{key}_2_100_a.mov", motion)

    def revert(self, key: str) -> None:
        self.change(key, HASADJUSTMENTS=0, ADJUSTMENTSSTATE=0)
        for path in (self.path / "resources" / "renders").glob(f"*/{key}*"):
            path.unlink()

    def trash(self, key: str) -> None:
        """Move to Recently Deleted."""
        self.change(key, TRASHEDSTATE=1, TRASHEDDATE=7e8)

    def recover(self, key: str) -> None:
        """Put back from Recently Deleted."""
        self.change(key, TRASHEDSTATE=0, TRASHEDDATE=None)

    def evict(self, key: str) -> None:
        """What Photos does to make room: the files are in iCloud only, and the rows say so."""
        for path in self.path.glob(f"originals/*/{key}*"):
            path.unlink()
        self.execute(
            "UPDATE ZINTERNALRESOURCE SET ZLOCALAVAILABILITY = -1 WHERE ZASSET = "
            f"(SELECT Z_PK FROM {self.names['ASSET']} WHERE ZUUID = :key)",
            {"key": key},
        )

    def delete(self, key: str) -> None:
        """Delete for good: the rows and the files."""
        where = f"(SELECT Z_PK FROM {self.names['ASSET']} WHERE ZUUID = :key)"
        for table in ("ZADDITIONALASSETATTRIBUTES", "ZINTERNALRESOURCE"):
            self.execute(f"DELETE FROM {table} WHERE ZASSET = {where}", {"key": key})
        self.execute(f"DELETE FROM {self.names['ASSET']} WHERE ZUUID = :key", {"key": key})
        for path in self.path.glob(f"*/**/{key}*"):
            path.unlink()

    def album(self, title: str, *keys: str, **columns: object) -> str:
        """An album with photos in it. Returns its id."""
        key = str(uuid.uuid4()).upper()
        join = self.names["ASSET_ALBUM_TABLE"]
        of_asset, of_album = (self.names[name].split(".")[1] for name in ("ALBUM_JOIN", "ASSET_ALBUM_JOIN"))
        with closing(sqlite3.connect(self.database)) as con:
            details = {"UUID": key, "TITLE": title, "KIND": 2, "PARENTFOLDER": 1, "TRASHEDSTATE": 0, **columns}
            row = _insert(con, "ZGENERICALBUM", details)
            for photo in keys:
                con.execute(
                    f"INSERT INTO {join} ({of_album}, {of_asset}) SELECT ?, Z_PK FROM {self.names['ASSET']} "
                    "WHERE ZUUID = ?",
                    (row, photo),
                )
            con.commit()
        return key

    def commit_transaction(self) -> None:
        """What every save of Photos leaves behind: the next number of its own history."""
        with closing(sqlite3.connect(self.database)) as con:
            con.execute("UPDATE Z_PRIMARYKEY SET Z_MAX = Z_MAX + 1 WHERE Z_NAME = 'TRANSACTION'")
            con.commit()

    def execute(self, sql: str, values: dict[str, object] | None = None) -> None:
        with closing(sqlite3.connect(self.database)) as con:
            con.execute(sql, values or {})
            con.commit()
        self.commit_transaction()

    def library(self, library_id: str = "L") -> ApplePhotosLibrary:
        """The bundle, registered and opened."""
        return ApplePhotosLibrary(library_id, "Mac", register_apple_photos(self.path))


def _columns(names: str) -> list[str]:
    return [name if name.startswith("Z_") else f"Z{name}" for name in names.split()]


def _insert(con: sqlite3.Connection, table: str, columns: Mapping[str, object]) -> int:
    names = ", ".join(f"Z{name}" for name in columns)
    values = ", ".join(f":{name}" for name in columns)
    return int(con.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", columns).lastrowid or 0)
