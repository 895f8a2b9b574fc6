"""Which files are photos and videos, and which names are never part of a library.

Nothing here touches a file system. Names are bytes, because that is what a file system has.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["still", "video"]

# An entry is never taken out of these lists: files of that type would look deleted at the next run.
# The order of the stills is the order in which they claim the video of a Live Photo: HEIC first, then what
# cameras and phones write beside it, RAW last.
STILL_EXTENSIONS = (
    *("heic", "heif", "hif", "jpg", "jpeg", "jpe", "avif", "jxl", "jp2", "webp", "png", "tif", "tiff", "gif", "bmp"),
    *("psd", "insp", "dng", "3fr", "ari", "arw", "cap", "cin", "cr2", "cr3", "crw", "dcr", "erf", "fff", "iiq", "k25"),
    *("kdc", "mrw", "nef", "nrw", "orf", "ori", "pef", "raf", "raw", "rw2", "rwl", "sr2", "srf", "srw", "x3f"),
)
# The order in which videos are taken as the moving half of a Live Photo.
VIDEO_EXTENSIONS = (
    *("mov", "mp4", "m4v", "3gp", "3gpp", "avi", "flv", "insv", "m2t", "m2ts", "mkv", "mpe", "mpeg", "mpg", "mts"),
    *("mxf", "vob", "webm", "wmv"),
)

_KINDS: dict[bytes, Kind] = {
    **{e.encode(): "still" for e in STILL_EXTENSIONS},
    **{e.encode(): "video" for e in VIDEO_EXTENSIONS},
}
_RANKS = {e.encode(): n for extensions in (STILL_EXTENSIONS, VIDEO_EXTENSIONS) for n, e in enumerate(extensions)}

# Folders and files of operating systems and storage boxes: previews, snapshots. Only names that nobody gives to an
# album. Names that begin with a dot (.thumbnails) are left out too.
LEFT_OUT = frozenset(
    {
        *(b"@eadir", b"#snapshot", b"@recently-snapshot", b"@tmp", b"@__thumb"),
        *(b"system volume information", b"lost+found"),
        *(b"thumbs.db", b"ehthumbs.db", b"desktop.ini", b"__macosx"),
    }
)


# Where a platform keeps what was deleted recently: desktops, storage boxes, Syncthing's old versions.
TRASH_FOLDERS = frozenset(
    {b".trash", b".trashes", b"$recycle.bin", b"recycler", b"#recycle", b"@recycle", b".stversions"}
)

# What the virtual files of a cloud drive end in while their bytes are elsewhere; iCloud hides the name besides.
PLACEHOLDER_ENDS = frozenset({b"nextcloud", b"owncloud"})


def extension(name: bytes) -> bytes:
    """The lower-case extension without its dot; empty where there is none."""
    stem, dot, end = name.rpartition(b".")
    return end.lower() if dot and stem else b""


def media_kind(name: bytes) -> Kind | None:
    """Whether a file of this name is a still or a video; None: neither, so no part of any library."""
    return _KINDS.get(extension(name))


def rank(name: bytes) -> int:
    """The place of a media file's type in its list; lower goes first where files share a stem."""
    return _RANKS[extension(name)]


def is_left_out(name: bytes) -> bool:
    """Whether a file or folder of this name is hidden or belongs to a system. What is in a trash is not left out."""
    return (name.startswith(b".") or name.lower() in LEFT_OUT) and not is_trash(name)


def is_trash(name: bytes) -> bool:
    """Whether a folder of this name is a trash, or a file of this name is in one (Android: ``.trashed-<time>-<name>``).

    Its photos can still be had back, so they are not treated as deleted (spec, item 8.7).
    """
    lower = name.lower()
    return lower in TRASH_FOLDERS or lower.startswith((b".trash-", b".trashed-"))


def lies_in_trash(path: bytes) -> bool:
    """Whether any part of a relative path is a trash."""
    return any(is_trash(part) for part in path.split(b"/"))


def is_placeholder(name: bytes) -> bool:
    """Whether the name stands for a photo that a cloud drive keeps elsewhere (``.IMG_1.HEIC.icloud``,
    ``IMG_1.HEIC.nextcloud``)."""
    stem, _, end = name.rpartition(b".")
    if name.startswith(b"."):
        return end == b"icloud" and media_kind(stem[1:]) is not None
    return end in PLACEHOLDER_ENDS and media_kind(stem) is not None
