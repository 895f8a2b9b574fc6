"""Set before Prefect is imported, anywhere: it reports nothing to anybody (spec, Privacy), and starts patiently.

DO_NOT_TRACK is read when Prefect is imported and is no Prefect setting; the server's own analytics is one. What the
user has set stands, except for what would phone home.
"""

from __future__ import annotations

import os

ALWAYS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
UNLESS_SET = {
    # On a fresh home the ephemeral server takes longer than Prefect's own 20 seconds.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # The server records task runs in batches; its defaults keep the next run waiting.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}


def apply_settings() -> None:
    """Write the settings into the environment of this process and of those that it starts."""
    os.environ.update(ALWAYS)
    for name, value in UNLESS_SET.items():
        os.environ.setdefault(name, value)
