"""Hands one notice to one address by apprise, as a process of its own; imports nothing of ours (see flows.channels).

Reads a JSON object (url, title, body) on standard input; the exit code is the whole answer.
"""

from __future__ import annotations

import json
import sys

TAKEN, NOT_TAKEN, NOT_UNDERSTOOD = 0, 3, 4


def main() -> int:
    """Send it; returns the exit code. Redirects are not followed, and no picture on another host is pointed to."""
    from apprise import Apprise, AppriseAsset

    given = json.load(sys.stdin)
    asset = AppriseAsset(
        app_id="deletion-sync", app_desc="deletion-sync", app_url="", image_url_mask="", image_url_logo="",
        http_redirects=False, async_mode=False, storage_mode="memory",
    )  # fmt: skip
    target = Apprise(asset=asset)
    if not target.add(given["url"]):
        return NOT_UNDERSTOOD
    return TAKEN if target.notify(title=given["title"], body=given["body"]) else NOT_TAKEN


if __name__ == "__main__":
    sys.exit(main())
