"""Which video is the moving half of which still. Nothing here touches a file system."""

from __future__ import annotations

from collections.abc import Iterable

from library.media_types import is_left_out, media_kind, rank


def motions_of(names: Iterable[bytes]) -> dict[bytes, bytes]:
    """Still to video, for the names of one folder that share a stem, ignoring case (spec, item 5.2).

    Where several could pair, the type that comes first in ``library.media_types`` wins (HEIC, MOV), then a stem
    of the same case, then the order of the names; the others stay assets of their own.
    """
    videos: dict[str, list[bytes]] = {}
    others: list[bytes] = []
    for name in names:
        kind = media_kind(name)
        if kind == "video" and not is_left_out(name):
            videos.setdefault(_stem(name).casefold(), []).append(name)
        elif kind == "still":
            others.append(name)
    stills: dict[str, list[bytes]] = {}
    for name in others if videos else ():
        stem = _stem(name).casefold()
        if stem in videos and not is_left_out(name):
            stills.setdefault(stem, []).append(name)
    pairs = {}
    for stem, candidates in videos.items():
        if stem in stills:
            video = min(candidates, key=lambda name: (rank(name), name))
            wanted = _stem(video)
            still = min(stills[stem], key=lambda name: (rank(name), _stem(name) != wanted, name))
            pairs[still] = video
    return pairs


def _stem(name: bytes) -> str:
    return name.rpartition(b".")[0].decode("utf-8", "surrogateescape")
