"""The head of an HTTP request as a stranger sends it: read strictly, before anything else looks at it.

picows reads heads too, but raises at bytes that it does not expect. So it gets a head that is written anew, from the
few headers that matter here. RFC 9112 allows bytes beyond ASCII in headers (a proxy may add the name of a city): they
are ignored in headers that nobody reads, and refused in those that somebody does.
"""

import re
from dataclasses import dataclass

from holdfast.core.addresses import is_host_header

HEAD_BYTES_MAX = 16 * 1024
"""The request line and all headers: what picows takes at most."""
END = b"\r\n\r\n"

_HEADERS_MAX = 100
_TARGET_BYTES_MAX = 8 * 1024
_METHOD = re.compile(rb"[A-Z]{1,20}")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VERSION = re.compile(rb"HTTP/1\.[01]")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A field value (RFC 9110, 5.5): no control character but the tab.
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_READ = frozenset(
    {
        *("host", "upgrade", "connection", "origin", "content-length", "transfer-encoding"),
        *("sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-extensions"),
        *("forwarded", "x-forwarded-for"),
    }
)


class BadHead(Exception):
    """This is no HTTP request, or not one that can be answered; the message is for the client's author."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One request: the headers that matter, names in small letters, in the order they came."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """Every line of this name."""
        return [value for each, value in self.headers if each == name]

    @property
    def is_upgrade(self) -> bool:
        """Whether it asks for a WebSocket."""
        return self.method == "GET" and [value.lower() for value in self.all("upgrade")] == ["websocket"]

    def to_bytes(self) -> bytes:
        """The request with nothing in it that could surprise anybody."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode("ascii") + END


def parse_head(head: bytes) -> RequestHead:
    """Read a head, without the empty line at its end; `BadHead` if it is not in order."""
    request_line, *lines = head.split(b"\r\n")
    method, target = _request_line(request_line)
    if len(lines) > _HEADERS_MAX:
        raise BadHead(f"The request has more than {_HEADERS_MAX} headers.")
    headers = tuple(each for line in lines if (each := _header(line)) is not None)
    request = RequestHead(method, target, headers)
    hosts = request.all("host")
    if not hosts and request_line.endswith(b"HTTP/1.0") and not request.is_upgrade:
        # A probe of long ago: it needs none.
        return request
    if len(hosts) != 1 or not is_host_header(hosts[0]):
        raise BadHead("Send one Host header with a name or an address and a port, as in game.example:7777.")
    if request.is_upgrade and (request.all("transfer-encoding") or request.all("content-length") not in ([], ["0"])):
        raise BadHead("A request that opens a WebSocket has no body.")
    return request


def _request_line(line: bytes) -> tuple[str, str]:
    parts = line.split(b" ")
    match parts:
        case [method, target, version] if (
            _METHOD.fullmatch(method) and _TARGET.fullmatch(target) and _VERSION.fullmatch(version)
        ):
            if len(target) > _TARGET_BYTES_MAX:
                raise BadHead(f"The path has more than {_TARGET_BYTES_MAX} bytes.")
            return method.decode("ascii"), target.decode("ascii")
        case _:
            raise BadHead("This is not a request of HTTP/1.1.")


def _header(line: bytes) -> tuple[str, str] | None:
    """A header that somebody here reads; None for any other."""
    name, colon, value = line.partition(b":")
    if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadHead("A header is malformed.")
    read = name.decode("ascii").lower()
    if read not in _READ:
        return None
    if not value.isascii():
        raise BadHead(f"The header {read} may hold ASCII only.")
    return read, value.strip(b" \t").decode("ascii")
