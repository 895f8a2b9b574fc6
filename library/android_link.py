"""One phone behind an adb server: its state, a command's output, a file's status and bytes. All failures are OSError.

Only the adb server at the given address is ever contacted, and none is ever started. What the answers mean lives in
``library.android_rows`` and ``library.android_adb``.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDLE_SECONDS = 120.0  # a large media index takes its time before the first row; a dead cable says nothing at all
_CONNECT_SECONDS = 3.0  # the adb server is on this computer, or nearby
_TPORT_SERVER = 41  # the server version that knows `host:tport`, of 2019; assuming it spares a connection per command
_FILE_STATUS = struct.Struct("<IQQIIIIQqqq")  # error, device, inode, mode, links, user, group, size, three times
_CHUNK_LIMIT = 1 << 20  # the sync protocol sends at most 64 KiB at once
_PROVIDER_FAILED = "Error while accessing provider"
_PROVIDER_ABSENT = "Could not find provider"  # it runs only once the phone's storage is decrypted
_STATES = {
    "unauthorized": "the phone has not authorised this computer: unlock it and allow USB debugging",
    "offline": "the phone is offline: unplug it and plug it in again",
    "authorizing": "the phone has not authorised this computer yet: unlock it and allow USB debugging",
    "connecting": "the phone is still connecting: try again in a moment",
}


@dataclass(frozen=True, slots=True)
class Phone:
    """The adb server's address and the serial under which it knows the phone."""

    host: str
    port: int
    serial: str


@dataclass(frozen=True, slots=True)
class Status:
    """Of a regular file on the phone: bytes, and the modification time in seconds since 1970."""

    size: int
    modified: int


def devices(host: str, port: int) -> dict[str, str]:
    """Serial to state of everything that the adb server sees. Raises OSError."""
    with _client(host, port) as client:
        return {str(device.serial): str(device.state) for device in client.list()}


def state_problem(phone: Phone) -> str | None:
    """Why the phone cannot be used now, in a few words; None: it can. Raises OSError where no adb server answers."""
    state = devices(phone.host, phone.port).get(phone.serial)
    if state == "device":
        return None
    if state is None:
        return "the phone is not connected"
    return _STATES.get(state, f"the phone is in the state “{state}”, not ready for use")


def shell(phone: Phone, command: str) -> bytes:
    """The standard output of a command on the phone. Raises OSError when its end does not arrive, and with the number
    ENOTSUP when it fails: `content` ends with 0 even then."""
    from adbutils import AdbDevice

    with _client(phone.host, phone.port) as client:
        done = AdbDevice(client, serial=phone.serial).shell2(command, timeout=IDLE_SECONDS, encoding=None, v2=True)
    output = bytes(done.output if done.stdout is None else done.stdout)
    failure = bytes(done.stderr or b"").decode("utf-8", "replace").strip()
    if _PROVIDER_ABSENT in failure:
        raise OSError(errno.EACCES, "the phone was not unlocked since it was switched on: unlock it")
    if done.returncode != 0 or _PROVIDER_FAILED in failure or (failure and not output):
        shown = " ".join(failure.splitlines()[:2]) or f"it ended with {done.returncode}"
        raise OSError(errno.ENOTSUP, f"the phone refused `{command.split(' --')[0]}`: {shown}")
    return output


def answers(phone: Phone, commands: Sequence[str]) -> list[bytes]:
    """The standard outputs of several commands, which the phone is given at once. Raises OSError as ``shell`` does.

    A line that nothing on the phone can know ends each output but the last, so no name can imitate it.
    """
    line = secrets.token_hex(16)
    outputs = shell(phone, f" && echo {line} && ".join(commands)).split(f"{line}\n".encode())
    if len(outputs) != len(commands):
        raise OSError(errno.EPROTO, "an answer of the phone is cut off")
    return outputs


def status(phone: Phone, path: bytes) -> Status:
    """Of the file at a path. Raises OSError; anything but a regular file is refused.

    The protocol's second version: the first one has 32 bits for a size, and no word on why there is none.
    """
    with _synchronising(phone, b"STA2", path) as connection:
        _expect(connection.read_exact(4), b"STA2")
        fields = _FILE_STATUS.unpack(connection.read_exact(_FILE_STATUS.size))
    failed, mode, size, modified = fields[0], fields[3], fields[7], fields[9]
    if failed:
        raise OSError(failed, os.strerror(failed))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return Status(size, modified)


def opened(phone: Phone, path: bytes, size: int) -> io.RawIOBase:
    """The bytes of a file as they arrive, which must be ``size`` in the end. Reading raises OSError."""
    return _Pulled(_pull(phone, path), size)


class _Pulled(io.RawIOBase):
    """A stream over the pieces of a pull. It holds one piece, and reports an end that came too early or too late."""

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._size = size
        self._arrived = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
            self._arrived += len(self._rest)
            if (not self._rest and self._arrived != self._size) or self._arrived > self._size:
                raise OSError(errno.EIO, f"{self._arrived} bytes of {self._size} arrived from the phone")
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._pieces.close()  # type: ignore[attr-defined]
        super().close()


def _pull(phone: Phone, path: bytes) -> Iterator[bytes]:
    with _synchronising(phone, b"RECV", path) as connection:
        while True:
            kind, length = struct.unpack("<4sI", connection.read_exact(8))
            if kind == b"DONE":
                return
            if length > _CHUNK_LIMIT:
                raise OSError(errno.EPROTO, "the adb server sent what is no piece of a file")
            content = connection.read_exact(length)
            if kind == b"FAIL":
                raise _refusal(content.decode("utf-8", "replace"))
            _expect(kind, b"DATA")
            yield content


@contextmanager
def _synchronising(phone: Phone, request: bytes, path: bytes) -> Iterator[Any]:
    """A connection to the phone's file service that was asked one thing. The path is bytes, as file systems have it."""
    from adbutils import AdbDevice

    with _client(phone.host, phone.port) as client:
        connection = AdbDevice(client, serial=phone.serial).open_transport(timeout=IDLE_SECONDS)
        connection.send_command("sync:")
        connection.check_okay()
        connection.conn.sendall(request + struct.pack("<I", len(path)) + path)
        yield connection


@contextmanager
def _client(host: str, port: int) -> Iterator[Any]:
    """A client of one adb server whose connections all end with the block, and whose failures are OSError."""
    try:
        from adbutils import AdbClient, AdbConnection, AdbError
    except ImportError:
        raise OSError(
            errno.ENOPKG if hasattr(errno, "ENOPKG") else errno.ENOSYS,
            "reading a phone needs the package adbutils: install deletion-sync[android]",
        ) from None

    connections: list[Any] = []

    class Connection(AdbConnection):  # type: ignore[misc]
        """As the library has it, but it starts no adb server where none answers, leaves no socket open then, and does
        not sleep at its end."""

        def _safe_connect(self) -> Any:
            return socket.create_connection((host, port), _CONNECT_SECONDS)

        def close(self) -> None:
            with suppress(AdbError):
                self.conn.close()

    class Client(AdbClient):  # type: ignore[misc]
        def make_connection(self, timeout: float | None = None) -> Any:
            try:
                connection = Connection(host, port)
            except OSError:
                raise ConnectionRefusedError(
                    errno.ECONNREFUSED, f"no adb server answers at {host}:{port}: start it with `adb start-server`"
                ) from None
            connections.append(connection)
            connection.conn.settimeout(timeout or IDLE_SECONDS)
            return connection

        def server_version(self) -> int:
            return _TPORT_SERVER

    try:
        yield Client(host, port)
    except AdbError as error:
        raise _refusal(str(error.args[0]) if error.args else "") from None
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, f"the phone was silent for {IDLE_SECONDS:.0f} seconds") from None
    except (EOFError, ValueError, struct.error):
        raise OSError(errno.ECONNRESET, "the connection to the phone was cut") from None
    finally:
        for connection in connections:
            connection.close()


def _refusal(text: str) -> OSError:
    """What the adb server or the phone said no with, as the OSError that it means."""
    said = text.strip().splitlines()[0] if text.strip() else "no answer"
    for number in (errno.ENOENT, errno.EACCES, errno.EISDIR):
        if os.strerror(number).lower() in said.lower():
            return OSError(number, os.strerror(number))
    if "not found" in said:
        return OSError(errno.ENODEV, "the phone is not connected")
    for state, meaning in _STATES.items():
        if state in said:
            return OSError(errno.EACCES, meaning)
    if "timeout" in said:
        return OSError(errno.ETIMEDOUT, f"the phone was silent for {IDLE_SECONDS:.0f} seconds")
    if said.startswith(("Unknown data", "connection closed")):
        return OSError(errno.ECONNRESET, "the connection to the phone was cut")
    return OSError(errno.EIO, f"the adb server said “{said}”")


def _expect(received: bytes, wanted: bytes) -> None:
    if received != wanted:
        raise OSError(errno.EPROTO, "the adb server answered something else than it was asked")
