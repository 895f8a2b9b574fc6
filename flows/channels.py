"""The ways a notice leaves: a Prefect event, a desktop notification, and the addresses in NOTIFY_URLS.

What is told, and how often, is in flows.notices. No address is ever shown: it holds a secret.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from flows import apprise_child
from state.credentials import KEY, NOTIFY, URL, notify_urls
from state.partition import Partition

PREFIX = "deletion-sync"
EVENT, DESKTOP, APPRISE = "event", "desktop", "apprise"
SECONDS = 30.0  # for one notice on one channel
_SCHEME = re.compile(r"([a-z][a-z0-9]{1,15})://", re.IGNORECASE)
_REASONS = {
    apprise_child.NOT_TAKEN: "it was not taken there",
    apprise_child.NOT_UNDERSTOOD: "apprise does not understand this address",
}
_MAC = (
    *("osascript", "-e", "on run argv"),
    *("-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run"),
)


@dataclass(frozen=True, slots=True)
class Notice:
    """One fact to be told. ``identity`` tells it from another fact of its ``key``. No file name is in any of it."""

    key: str
    identity: str
    title: str
    body: str

    @property
    def mark(self) -> str:
        """What is remembered of it once it was told."""
        return f"{self.key} {self.identity}"


class NotTaken(Exception):
    """The channel did not take the notice. The text says why, without an address."""


@dataclass(frozen=True, slots=True)
class Channel:
    """``name`` is what the partition's facts call it; ``label`` is for a person; ``send`` raises NotTaken."""

    name: str
    label: str
    send: Callable[[Notice], None] = field(repr=False)


def own_channels(environ: Mapping[str, str], directory: Path) -> list[Channel]:
    """The desktop, where there is one, and what the user configured. Raises UsageError, StateUnreadable for .env.

    An address is known by its place in the list, so that nothing of it is kept anywhere.
    """
    channels = []
    command = _desktop(environ)
    if command is not None:
        channels.append(Channel(DESKTOP, "the desktop", partial(_show, command)))
    for number, url in enumerate(notify_urls(environ, directory), 1):
        scheme = _SCHEME.match(url.get_secret_value())
        label = f"address {number} of {NOTIFY}{f' ({scheme[1].lower()})' if scheme else ''}"
        channels.append(Channel(f"{APPRISE}:{number}", label, partial(_hand_over, url)))
    return channels


def event_channels(partition: Partition) -> list[Channel]:
    """Prefect's events, while a flow run is going on. Prefect is not imported for it."""
    if "prefect" not in sys.modules:
        return []
    from prefect.context import FlowRunContext

    if FlowRunContext.get() is None:
        return []
    return [Channel(EVENT, "a Prefect event", partial(_emit, resource_of(partition)))]


def resource_of(partition: Partition) -> str:
    """The resource that an automation in Prefect knows an account by: neither its address nor its user id."""
    return f"{PREFIX}.account.{hashlib.sha256(partition.name.encode()).hexdigest()[:16]}"


def _emit(resource: str, notice: Notice) -> None:
    """Prefect sends it in the background, and says only whether it sends events at all."""
    from prefect.events import emit_event

    event = emit_event(
        event=f"{PREFIX}.{notice.key}",
        resource={"prefect.resource.id": resource},
        payload={"title": notice.title, "body": notice.body},
    )
    if event is None:
        raise NotTaken("Prefect sends no events")


def _desktop(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The command that shows a title and a body, or None where nobody would see it."""
    path = environ.get("PATH")
    if shutil.which(_MAC[0], path=path) is not None:
        return _MAC
    runtime = environ.get("XDG_RUNTIME_DIR")
    bus = environ.get("DBUS_SESSION_BUS_ADDRESS") or (runtime and (Path(runtime) / "bus").exists())
    display = environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY")
    if bus and display and shutil.which("notify-send", path=path) is not None:
        return ("notify-send", f"--app-name={PREFIX}", "--")
    return None


def _show(command: tuple[str, ...], notice: Notice) -> None:
    code = _run([*command, notice.title, notice.body], None)
    if code != 0:
        raise NotTaken(f"{command[0]} ended with code {code}")


def _hand_over(url: SecretStr, notice: Notice) -> None:
    """By apprise in a process of its own: so its log ends nowhere, it has an end, and it never sees our key."""
    given = {"url": url.get_secret_value(), "title": notice.title, "body": notice.body}
    code = _run([sys.executable, "-P", apprise_child.__file__], json.dumps(given))
    if code != apprise_child.TAKEN:
        raise NotTaken(_REASONS.get(code, f"apprise ended with code {code}"))


def _run(command: list[str], given: str | None) -> int:
    """Run it without a shell, without its output and without the credentials; returns its exit code."""
    hidden = (URL, KEY, NOTIFY)
    environment = {k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("PREFECT_")}
    try:
        return subprocess.run(
            command, input=given or "", text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=SECONDS, env=environment, check=False,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotTaken(f"it took longer than {SECONDS:g} seconds") from None
    except OSError as error:
        raise NotTaken(f"{Path(command[0]).name} cannot be started: {error.strerror}") from None
