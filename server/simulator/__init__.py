"""A photo server in memory that behaves as the recorded real ones do, on a real socket. Demo and tests use it.

It has what the client uses and no more.
"""

from server.simulator.http import serving
from server.simulator.store import Simulator, sha1_checksum
from server.simulator.sync import sync_lines

__all__ = ["Simulator", "serving", "sha1_checksum", "sync_lines"]
