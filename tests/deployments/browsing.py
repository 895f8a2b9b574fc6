"""Debian's chromium, driven over its DevTools protocol: pages are opened, read, filled in, photographed, and every
request that they make is recorded.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tests.deployments.upping import until

CHROMIUM = shutil.which("chromium")
WIDTH = 1200
_PATIENCE = 60.0
# What chromium itself would fetch (updates, lists, sync) is switched off: what is recorded is what pages ask for.
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-default-apps", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-port=0",
)  # fmt: skip


class Refused(Exception):
    """The browser's word for what it could not do."""


@dataclass
class Browser:
    """One page. ``requests``: the address of everything it asked for; ``refused``: what its policy kept it from."""

    socket: Connection
    session: str = ""
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def ask(self, method: str, **parameters: Any) -> Any:
        """What the browser answers; events that come meanwhile are recorded."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        self.socket.send(json.dumps({**message, "sessionId": self.session} if self.session else message))
        while True:
            found = json.loads(self.socket.recv(_PATIENCE))
            if found.get("id") == number:
                if "error" in found:
                    raise Refused(str(found["error"]))
                return found["result"]
            self._heard(found)

    def _heard(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event.get("method") == "Network.webSocketCreated":
            self.requests.append(told["url"])
        elif event.get("method") == "Audits.issueAdded" and told["issue"]["code"] == "ContentSecurityPolicyIssue":
            details = told["issue"]["details"]["contentSecurityPolicyIssueDetails"]
            self.refused.append(details.get("blockedURL") or details["violatedDirective"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def heard(self) -> Browser:
        """Itself, once what happened in the page by now is recorded: events come in their own time."""
        self.run("0")
        return self

    def open(self, address: str, *texts: str) -> str:
        """Open a page and wait until it shows all the texts; returns all that it shows."""
        self.ask("Page.navigate", url=address)
        return self.shows(*texts)

    def shows(self, *texts: str) -> str:
        """All that the page shows, once it shows the texts."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                shown = str(self.run("document.body ? document.body.innerText : ''"))
            except Refused as error:  # one page goes and the next is not there yet
                shown = str(error)
            missing = [text for text in texts if text.casefold() not in shown.casefold()]
            if not missing:
                return shown
            assert time.monotonic() < end, f"{missing} not in: {shown[:2000]}"
            time.sleep(0.2)

    def picture(self, path: Path, height: int) -> None:
        """A PNG of the upper ``height`` pixels."""
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        time.sleep(1.5)  # transitions
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path, height: int = 1000) -> Iterator[Browser]:
    """A browser with a new profile in ``folder``, ended with the block."""
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [CHROMIUM, *_OPTIONS, f"--window-size={WIDTH},{height}", f"--user-data-dir={folder}", "about:blank"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    with process:
        try:
            address = next(m[0] for line in process.stderr if (m := re.search(r"ws://\S+", line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            # Without pings: a browser that is busy answers them late, and is not to be given up for it.
            with connect(address, max_size=None, proxy=None, open_timeout=_PATIENCE, ping_interval=None) as socket:
                yield _page(Browser(socket))
        finally:
            process.kill()
            process.wait()


def _page(found: Browser) -> Browser:
    def page() -> str | None:
        rows = found.ask("Target.getTargets")["targetInfos"]
        return next((str(row["targetId"]) for row in rows if row["type"] == "page"), None)

    # It listens before its first page is there.
    target = until(page, "the first page", _PATIENCE)
    found.session = found.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Network", "Runtime", "Audits"):
        found.ask(f"{domain}.enable")
    return found
