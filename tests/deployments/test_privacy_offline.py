"""Nothing of `up` or of its runs leaves this computer, told by the kernel: in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployments.upping import environment
from tests.flows.test_two_ways import ROOT

ALONE = ["unshare", "--net", "--mount"]


def can_be_alone() -> bool:
    """Whether a namespace can be made here, with an interface that counts."""
    if os.name != "posix" or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "mount"))):
        return False
    probe = [*ALONE, "ip", "link", "add", "out", "type", "veth", "peer", "name", "away"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_be_alone(), reason="needs root, and a kernel with network namespaces and veth interfaces")
def test_up_and_a_full_run_work_without_a_network_and_no_packet_would_have_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ALONE, sys.executable, "-m", "tests.deployments.isolated", tmp_path], cwd=ROOT,
        env=environment(tmp_path / "home"), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["state"], seen["left"]) == ("planned 3, review needed", 0)
    assert seen["left"] < seen["after_a_name"] < seen["after_a_packet"], "the control: a name and a packet do count"
