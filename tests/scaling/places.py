"""What the tests of several machines stand on: PostgreSQL, Redis, a certificate, and a network namespace as a host."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deployments.upping import until
from tests.free_ports import free_port


def missing() -> str:
    """What these tests need and this computer lacks, or nothing."""
    lacking = [name for name in ("redis-server", "nginx", "openssl", "ip") if shutil.which(name) is None]
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        lacking.append("postgresql")
    if os.geteuid() != 0:
        lacking.append("root (for a network namespace)")
    elif not lacking:
        name = f"dsync-try{os.getpid()}"  # its own: another process of the tests may look at the same moment
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        if made.returncode != 0:
            lacking.append("network namespaces")
    return ", ".join(lacking)


@dataclass
class Programs:
    """Starts programs that end with the block, each leading a group of its own; what each says is in a file."""

    folder: Path
    stack: ExitStack

    def start(self, name: str, *command: object, **environment: str) -> subprocess.Popen[bytes]:
        """A program with exactly this environment, and PATH and HOME."""
        place = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.folder)}
        log = self.stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [str(part) for part in command], cwd=self.folder, env={**place, **environment}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, process_group=0,
        )  # fmt: skip
        self.stack.callback(ended, process)
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")


def ended(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with its group, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def postgres(programs: Programs, password: str) -> int:
    """A PostgreSQL server on loopback with a database and a user named prefect; its port."""
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"))
    data = Path(tempfile.mkdtemp(prefix="deletion-sync-postgres-"))
    programs.stack.callback(shutil.rmtree, data, ignore_errors=True)
    secret = data / "password"
    secret.write_text(password)
    (data / "data").mkdir()
    owner = pwd.getpwnam("postgres")
    for path in (data, data / "data", secret):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    subprocess.run(
        [*as_owner, binaries / "initdb", "-D", data / "data", "-U", "prefect", "--auth=scram-sha-256",
         f"--pwfile={secret}", "--no-sync", "-E", "UTF8"],
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    port = free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": data, "fsync": "off"}
    options = [f"-c{name}={value}" for name, value in settings.items()]
    programs.start("postgres", *as_owner, binaries / "postgres", "-D", data / "data", *options)
    client: list[str | Path] = [
        binaries / "psql",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "prefect",
        "-d",
        "template1",
    ]

    def made() -> bool:
        done = subprocess.run(
            [*client, "-c", "CREATE DATABASE prefect"], env={**os.environ, "PGPASSWORD": password},
            capture_output=True, check=False, cwd="/",
        )  # fmt: skip
        return done.returncode == 0

    until(made, "PostgreSQL")
    return port


def redis(programs: Programs, password: str) -> int:
    """A Redis server on loopback that keeps nothing; its port."""
    port = free_port()
    (programs.folder / "redis.conf").write_text(
        f'bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ""\nappendonly no\n'
    )
    programs.start("redis", "redis-server", programs.folder / "redis.conf")
    return port


def settings(path: Path, **changes: str) -> dict[str, str]:
    """An example's environment, with what is of this place put in; every change is of a name that is there."""
    pairs = (line.partition("=") for line in path.read_text().splitlines() if line and not line.startswith("#"))
    found = {name: value for name, _, value in pairs}
    assert changes.keys() <= found.keys()
    return {**found, **changes}


def certificate(folder: Path, address: str) -> None:
    """server.pem and server.key, self-signed, for that address."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=deletion-sync", "-addext", f"subjectAltName=IP:{address}",
         "-keyout", folder / "server.key", "-out", folder / "server.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Elsewhere:
    """A network namespace, joined to this one by one cable: ``here`` is this end's address, ``there`` the other's."""

    name: str
    here: str
    there: str

    def command(self, *command: object) -> list[str]:
        return ["ip", "netns", "exec", self.name, *map(str, command)]


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Another host, as far as the network goes. The addresses are of the range that is kept for tests of networks."""
    number = os.getpid() % 16_000
    net = f"198.18.{number // 64}.{number % 64 * 4}"
    first, last = net.rsplit(".", 1)
    place = Elsewhere(f"dsync{number}", f"{first}.{int(last) + 1}", f"{first}.{int(last) + 2}")
    near, far = f"dsa{number}", f"dsb{number}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    ip("netns", "add", place.name)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", place.name)
        ip("address", "add", f"{place.here}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", place.name, "address", "add", f"{place.there}/30", "dev", far)
        ip("-n", place.name, "link", "set", far, "up")
        ip("-n", place.name, "link", "set", "lo", "up")
        yield place
    finally:
        ip("netns", "delete", place.name)
