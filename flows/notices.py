"""Notifies of what a run ended with: each fact once per channel, and again only after it ceased to hold.

What is worth it is in flows.noteworthy, how it is sent in flows.channels. A process that is killed between the sending
and the writing down may tell a fact twice; two processes can't, for they wait for each other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import ConfirmationNeeded, DeletionSyncError, PartitionBusy
from flows.channels import Channel, NotTaken, event_channels, own_channels
from flows.noteworthy import Standing, of_end
from state.db import reading, writing
from state.lock import file_lock
from state.notices import noticed, set_noticed
from state.partition import Partition
from tasks.opening import find_partition
from tasks.summary import Summary

LOCK = "notices.lock"
WAIT_SECONDS = 60.0  # for another run that is telling

_log = logging.getLogger("deletion_sync")


def reported(partition_name: str, work: Callable[[], Summary], *, dry_run: bool) -> Summary:
    """Do ``work``, a run, and tell what a person should know of its end. Raises what it raises."""
    try:
        summary = work()
    except Exception as error:
        tell(partition_name, error, dry_run=dry_run)
        raise
    tell(partition_name, summary, dry_run=dry_run)
    return summary


def tell(partition_name: str, end: Summary | Exception, *, dry_run: bool) -> None:
    """Notify of what a run ended with, what was not told yet (spec, Safety rails, Events). No run fails for it.

    Where the server never told whose key it is there is no account to remember anything of, and nothing is told.
    """
    try:
        home, partition = find_partition(partition_name, online=False)
        if partition.user_id is None or isinstance(end, PartitionBusy | ConfirmationNeeded):
            return
        with file_lock(partition.path / LOCK, WAIT_SECONDS, why="another run is notifying"):
            standing = of_end(home, partition, end, dry_run=dry_run)
            channels = [*event_channels(partition), *own_channels(os.environ, Path.cwd())]
            deliver(partition, standing, channels)
    except DeletionSyncError as error:
        _log.warning("What this run ended with could not be notified: %s", error)
    except Exception as error:  # whatever it is, the run is over and its outcome stands
        _log.warning("What this run ended with could not be notified (%s).", type(error).__name__)


def deliver(partition: Partition, standing: Standing, channels: Sequence[Channel]) -> None:
    """Send each notice to each channel that did not take it before. One that fails is tried again at the next run."""
    holding = {notice.mark for notice in standing.notices}
    with reading(partition) as con:
        known = {channel.name: noticed(con, channel.name) for channel in channels}
    for channel in channels:
        told = {mark for mark in known[channel.name] if mark in holding or not mark.startswith(standing.judged)}
        if told != known[channel.name]:
            _remember(partition, channel, told)
        for notice in standing.notices:
            if notice.mark in told:
                continue
            try:
                channel.send(notice)
            except NotTaken as reason:
                _log.warning("No notification by %s: %s. The next run tries again.", channel.label, reason)
                break
            told.add(notice.mark)
            _remember(partition, channel, told)


def _remember(partition: Partition, channel: Channel, told: set[str]) -> None:
    with writing(partition) as con:
        set_noticed(con, channel.name, told)
