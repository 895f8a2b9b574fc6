"""What `watch` looks at and when it acts: the watched places, which changes count, and how long they must settle.

A change is a hint that a run is worth while, never evidence: what a run concludes comes of its own listing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from library.identity import load_folder_config, root_problem
from library.media_types import is_left_out, is_trash, media_kind
from library.paths import to_bytes
from state.db import reading
from state.libraries import registered

if TYPE_CHECKING:
    from flows.pipeline import Call, ReconcileRequest
    from state.libraries import Registered
    from state.partition import Partition
    from tasks.summary import Summary

FOLDER, APPLE = "folder", "apple_photos"

_STEP_MS = 50  # changes this close together are handed over as one
_GROUP_MS = 500
_LIMITS = ("watch limit", "Too many open files", "No space left")
_FILE_SUFFIX = re.compile(rb"\.[a-z][a-z0-9]{0,7}", re.IGNORECASE)
# Deleting a photo in a Photos library changes its database first, and the files much later.
_APPLE_DATABASE = frozenset({b"photos.sqlite", b"photos.sqlite-wal"})


class NoMoreWatches(Exception):
    """The system watches as many files as it may."""


@dataclass(frozen=True, slots=True)
class Root:
    """One watched place. ``problem`` tells why it is not what was registered just now; None: it is."""

    label: str
    kind: str
    path: bytes
    problem: Callable[[], str | None] = field(compare=False, repr=False)

    def identity(self) -> tuple[int, int] | None:
        """Device and inode, so that an unmounted disk and another folder of that name are noticed. None: not there."""
        try:
            status = os.stat(self.path)  # noqa: PTH116  (pathlib knows no bytes)
        except OSError:
            return None
        return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Places:
    """The registered libraries: ``roots`` can be watched, ``unwatched`` (names) cannot."""

    roots: tuple[Root, ...]
    unwatched: tuple[str, ...]


def places(partition: Partition) -> Places:
    """What is registered now. Raises StateError, LibraryError for a damaged registration."""
    with reading(partition) as con:
        rows = registered(con)
    roots, unwatched = [], []
    for row in rows:
        root = _root(row)
        if root is None or not _is_utf8(root.path):  # the system's watching takes no other path
            unwatched.append(row.label)
        else:
            roots.append(root)
    return Places(tuple(roots), tuple(unwatched))


def _root(row: Registered) -> Root | None:
    config = json.loads(row.config)
    if row.kind == FOLDER:
        folder = load_folder_config(config, row.label)
        return Root(row.label, row.kind, to_bytes(folder["root"]), partial(root_problem, folder))
    if row.kind == APPLE:
        path = os.fsencode(str(config["path"]))
        return Root(row.label, row.kind, path, partial(_missing, path))
    return None


def counts(path: bytes, kind: str, *, gone: bool) -> bool:
    """Whether a change of this path, relative to its root, is a hint.

    Photos, videos and trash folders are; so are folders, because a folder that is moved away says nothing of its
    photos. ``gone``: the path is not there any more, and only its name can tell what it was.
    """
    *around, name = path.split(b"/")
    if kind == APPLE and around[:1] == [b"database"]:
        return name.lower() in _APPLE_DATABASE
    if any(is_trash(part) for part in (*around, name)):
        return True
    if any(is_left_out(part) for part in (*around, name)):
        return False
    if media_kind(name) is not None:
        return True
    if gone:
        return _FILE_SUFFIX.fullmatch(os.path.splitext(name)[1]) is None  # noqa: PTH122
    return False


@dataclass(slots=True)
class Waiting:
    """When the next run is due, in the seconds of one clock that never goes back.

    ``settle``: without a further change; ``at_most``: after the first change, however busy the place is;
    ``cool_down``: since the last run ended, and never less than that run took (lesson 55).
    """

    settle: float
    at_most: float
    cool_down: float
    _first: float | None = None
    _last: float = 0.0
    _rested_at: float = float("-inf")
    _again_at: float | None = None

    def changed(self, now: float) -> None:
        """Something changed."""
        self._first = now if self._first is None else self._first
        self._last = now

    def at_once(self, now: float) -> None:
        """A run is wanted without settling: at the start."""
        self._first, self._last = now - self.at_most, now

    def again(self, now: float) -> None:
        """The last run failed: what prompted it was not looked at, so it is tried again without a further change."""
        self._again_at = now + self.at_most

    def due(self, now: float) -> bool:
        """Whether a run is to begin now."""
        wanted = [] if self._first is None else [min(self._last + self.settle, self._first + self.at_most)]
        wanted += [] if self._again_at is None else [self._again_at]
        return bool(wanted) and now >= max(min(wanted), self._rested_at)

    def began(self) -> None:
        """A run begins; it sees every change so far."""
        self._first = self._again_at = None

    def ended(self, began: float, now: float) -> None:
        """A run ended; ``began`` is when it did."""
        self._rested_at = now + max(self.cool_down, now - began)


def reconciled(call: Call, request: ReconcileRequest) -> Summary:
    """A run the direct way, of whose end a person is notified. ``call`` and errors: see flows.pipeline.reconcile."""
    from flows import direct, notices, pipeline

    return notices.reported(
        request.partition, lambda: pipeline.reconcile(call, direct.WAY, request), dry_run=request.dry_run
    )


def hints(roots: Sequence[Root], stop: Event, tick: float, poll_seconds: float | None) -> Iterator[bool]:
    """True for a change that counts, False at least every ``tick`` seconds, until ``stop`` is set.

    ``poll_seconds``: look at the files that often instead of being told by the system. Raises NoMoreWatches, OSError.
    """
    import watchfiles

    if not roots:
        while not stop.wait(tick):
            yield False
        return
    feed = partial(
        watchfiles.watch,
        *(os.fsdecode(root.path) for root in roots),
        watch_filter=None,
        debounce=_GROUP_MS,
        step=_STEP_MS,
        stop_event=stop,
        rust_timeout=max(1, round(tick * 1000)),
        yield_on_timeout=True,
        force_polling=True if poll_seconds is not None else None,
        poll_delay_ms=max(1, round((poll_seconds or 1) * 1000)),
    )
    try:
        # Another user's trash may be closed to us. Where that is ignored, so is a limit: hence not from the start.
        try:
            yield from _hints(feed(ignore_permission_denied=False), roots)
        except PermissionError:
            yield from _hints(feed(ignore_permission_denied=True), roots)
    except (OSError, RuntimeError) as error:  # watchfiles has no error of its own for it
        if any(words in str(error) for words in _LIMITS):
            raise NoMoreWatches from error
        raise


def _hints(feed: Generator[set[tuple[Any, str]], None, None], roots: Sequence[Root]) -> Iterator[bool]:
    with closing(feed):
        for changes in feed:
            yield any(_is_hint(os.fsencode(path), change, roots) for change, path in changes)


def _is_hint(path: bytes, change: Any, roots: Sequence[Root]) -> bool:
    from watchfiles import Change

    for root in roots:
        inside = path.removeprefix(root.path.rstrip(b"/") + b"/")
        if inside != path:
            if counts(inside, root.kind, gone=change is Change.deleted):
                return True
            # Photos that came with their folder need not be told of one by one.
            left_out = any(is_left_out(part) for part in inside.split(b"/"))
            return change is Change.added and not left_out and Path(os.fsdecode(path)).is_dir()
    return False  # a root itself: its identity tells


def _missing(path: bytes) -> str | None:
    return None if Path(os.fsdecode(path)).is_dir() else f"{os.fsdecode(path)} is not there"


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
