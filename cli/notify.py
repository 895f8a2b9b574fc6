"""`notify-test`: sends a test notice everywhere where a run would tell of what went wrong, and says who took it."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from cli.output import note, say
from engine.errors import DeletionSyncError, PartlyDone, UsageError


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("notify-test")(notify_test)


def notify_test() -> int:
    """Send a test notice. It goes to the desktop and to NOTIFY_URLS; the photo server is not asked."""
    from flows.channels import Notice, NotTaken, own_channels

    channels = own_channels(os.environ, Path.cwd())
    if not channels:
        raise UsageError(
            "There is no desktop to notify here, and NOTIFY_URLS is not set.",
            f"Put NOTIFY_URLS=... into {Path.cwd() / '.env'}, or set it in the environment.",
        )
    notice = Notice("test", "", "Test of deletion-sync", "This is where you will be told when a run needs you.")
    failed = 0
    for channel in channels:
        try:
            channel.send(notice)
        except NotTaken as reason:
            failed += 1
            say(f"not taken  {channel.label}: {reason}")
        else:
            say(f"taken      {channel.label}")
    note("Runs under Prefect send an event `deletion-sync.*` as well; that is not part of this test.")
    if failed == len(channels):
        return DeletionSyncError.exit_code
    return PartlyDone.exit_code if failed else 0
