"""The server's address: its one normal form, and a folder name made of it. No request is made here."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from urllib.parse import urlsplit

from engine.errors import UsageError

_EXAMPLE = "Write it like https://photos.example.org or http://192.168.1.5:2283/photos."
_DEFAULT_PORT = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[a-z0-9.-]")
_LONGEST = 150  # with a user id behind it the name stays under the 255 bytes of every common file system


def normalise(url: str) -> str:
    """``scheme://host[:port][/path]``, the form in which addresses are compared and stored (spec, Endpoints).

    Scheme and host become lower case, a default port (80, 443) is dropped because it names the same server, and so are
    trailing slashes and ``/api``. The path keeps its case. Normalising twice changes nothing.
    Raises UsageError, never quoting the address: a mistyped one can hold a password.
    """
    text = url.strip()
    if not text:
        raise UsageError("The server address is empty.", _EXAMPLE)
    if re.search(r"[\s\\\x00-\x1f\x7f]", text):
        raise UsageError("The server address holds a space, a backslash or a control character.", _EXAMPLE)
    if not re.match(r"https?://", text, re.IGNORECASE):
        raise UsageError("The server address does not start with http:// or https://.", _EXAMPLE)
    if "@" in text:
        raise UsageError(
            "The server address holds a user name or a password.", f"{_EXAMPLE} The API key goes into SERVER_API_KEY."
        )
    if "?" in text or "#" in text:
        raise UsageError(
            "The server address holds a query or a fragment.", f"Leave out everything from ? or # on. {_EXAMPLE}"
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("The server address has a malformed host or port.", _EXAMPLE) from None
    if not host or port == 0 or parts.netloc.endswith(":"):
        raise UsageError("The server address has no host, or no port after its colon.", _EXAMPLE)
    place = _host(host)
    if port is not None and port != _DEFAULT_PORT[parts.scheme]:
        place = f"{place}:{port}"
    return f"{parts.scheme}://{place}{_path(parts.path)}"


def sanitized(url: str) -> str:
    """A folder name for an address, the same for every spelling of it (spec, item 9).

    Different addresses get different names, also where the file system ignores case, and no name holds ``__``,
    which sets the user id apart. Over-long ones end in a digest.
    """
    scheme, rest = normalise(url).split("://", 1)
    named = {":": "+", "/": ","}
    name = f"{scheme}_" + "".join(
        c if _PLAIN.fullmatch(c) else named.get(c) or "".join(f"%{b:02x}" for b in c.encode()) for c in rest
    )
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 33]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _host(host: str) -> str:
    if ":" in host:
        try:
            return f"[{ipaddress.IPv6Address(host)}]"
        except ValueError:
            raise UsageError("The server address has a malformed IPv6 host.", _EXAMPLE) from None
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise UsageError("The server address has a host name that cannot be encoded.", _EXAMPLE) from None


def _path(path: str) -> str:
    shorter = path.rstrip("/")
    while shorter.endswith("/api"):
        shorter = shorter.removesuffix("/api").rstrip("/")
    return shorter
