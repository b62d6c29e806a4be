"""The HTTP request that opens a WebSocket: parsed strictly, answered, or passed on to picows.

picows parses heads too, but raises on unexpected bytes. So it gets a rewritten head with only the headers that matter
here. RFC 9112 allows bytes beyond ASCII in headers (a proxy may add the name of a city): they are ignored in headers
that are not read here, and refused in the others.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import urlsplit

from picows import WSError, WSHandshakeError, WSUpgradeRequest, WSUpgradeResponse

from holdfast.core.addresses import is_host_header
from holdfast.logs import get_logger
from holdfast.transports.links import abort, unreachable
from holdfast.transports.listening import PendingConnection
from holdfast.transports.port import DialError, Subprotocol, agree

Directions = Callable[[str], str]
"""Returns the URL of the pages, for the requested `Host`; "" if there are none."""


def bad_request(text: str) -> bytes:
    """The answer to a malformed request."""
    return _answer(HTTPStatus.BAD_REQUEST, text)


def names_of(subprotocols: Sequence[Subprotocol]) -> str:
    """The sub-protocols, for people."""
    return ", ".join(subprotocol.name for subprotocol in subprotocols)


def _answer(status: HTTPStatus, text: str, more: str = "") -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{more}Connection: close\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


HEAD_BYTES_MAX = 16 * 1024
"""The request line and all headers: picows' limit."""
END = b"\r\n\r\n"

_HEADERS_MAX = 100
_TARGET_BYTES_MAX = 8 * 1024
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.[01]")
# A header (RFC 9110, 5.1 and 5.5): a token, a colon, and a value without control characters except the tab.
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)")
_READ = {
    name.encode("ascii"): name
    for name in (
        *("host", "upgrade", "connection", "origin", "content-length", "transfer-encoding"),
        *("sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-extensions"),
        *("forwarded", "x-forwarded-for"),
    )
}


class BadHead(Exception):
    """Not an HTTP request, or not one that can be answered; the message is for the client's author."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One request: the headers that matter, names in lower case, in their order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each == name]

    @property
    def is_upgrade(self) -> bool:
        return self.method == "GET" and [value.lower() for value in self.all("upgrade")] == ["websocket"]

    def to_bytes(self) -> bytes:
        """The request, rewritten with known headers only."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode("ascii") + END


def parse_head(head: bytes) -> RequestHead:
    """Parse a head, without the empty line at its end; `BadHead` if it is malformed."""
    request_line, *lines = head.split(b"\r\n")
    method, target = _request_line(request_line)
    if len(lines) > _HEADERS_MAX:
        raise BadHead(f"The request has more than {_HEADERS_MAX} headers.")
    request = RequestHead(method, target, tuple(_headers(lines)))
    is_upgrade, hosts = request.is_upgrade, request.all("host")
    if not hosts and request_line.endswith(b"HTTP/1.0") and not is_upgrade:
        # An old probe: it needs no Host.
        return request
    if len(hosts) != 1 or not is_host_header(hosts[0]):
        raise BadHead("Send one Host header with a name or an address and a port, as in game.example:7777.")
    if is_upgrade and (request.all("transfer-encoding") or request.all("content-length") not in ([], ["0"])):
        raise BadHead("A request that opens a WebSocket has no body.")
    return request


def _request_line(line: bytes) -> tuple[str, str]:
    request = _REQUEST_LINE.fullmatch(line)
    if request is None:
        raise BadHead("This is not a request of HTTP/1.1.")
    method, target = request.groups()
    if len(target) > _TARGET_BYTES_MAX:
        raise BadHead(f"The path has more than {_TARGET_BYTES_MAX} bytes.")
    return method.decode("ascii"), target.decode("ascii")


def _headers(lines: list[bytes]) -> Iterator[tuple[str, str]]:
    """The headers that are read here."""
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadHead("A header is malformed.")
        name, value = header.groups()
        read = _READ.get(name.lower())
        if read is None:
            continue
        if not value.isascii():
            raise BadHead(f"The header {read} may hold ASCII only.")
        yield read, value.strip(b" \t").decode("ascii")


class RequestReader(asyncio.Protocol):
    """Waits for one request of at most `HEAD_BYTES_MAX`; its deadline is that of the pending connection."""

    __slots__ = ("_directions", "_has_begun", "_heard", "_make_websocket", "_pending", "_subprotocols", "_transport")

    def __init__(
        self,
        pending: PendingConnection,
        make_websocket: Callable[[RequestHead], asyncio.BufferedProtocol],
        subprotocols: Sequence[Subprotocol],
        directions: Directions,
    ) -> None:
        self._pending = pending
        self._make_websocket = make_websocket
        self._subprotocols = subprotocols
        self._directions = directions
        self._heard = bytearray()
        self._has_begun = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        start = max(0, len(self._heard) - len(END) + 1)
        self._heard += data
        if not self._has_begun and not self._skip_empty_line():
            return
        end = self._heard.find(END, start, HEAD_BYTES_MAX + len(END))
        if end >= 0:
            self._answer(bytes(self._heard[:end]), bytes(self._heard[end + len(END) :]))
        elif len(self._heard) > HEAD_BYTES_MAX:
            self._pending.not_understood()
            abort(self._transport)
        elif not self._heard[:1].isalpha():
            # TLS on a port without it, or another protocol: the end of the request might never come.
            self._refuse(bad_request("This is not a request of HTTP/1.1."))
        elif b"\n" in self._heard and not self._heard.partition(b"\n")[0].endswith(b"\r"):
            # Its end would never be found.
            self._refuse(bad_request("Every line of a request ends with CR and LF."))

    def _skip_empty_line(self) -> bool:
        """Skip an empty line before the request (RFC 9112, 2.2). False while it is unknown whether there is one."""
        if self._heard == b"\r":
            return False
        self._has_begun = True
        if self._heard.startswith(b"\r\n"):
            del self._heard[:2]
        return bool(self._heard)

    def _answer(self, head: bytes, rest: bytes) -> None:
        try:
            request = parse_head(head)
        except BadHead as error:
            self._refuse(bad_request(str(error)))
            return
        if request.is_upgrade:
            self._upgrade(request, rest)
        else:
            # Such as a browser's, whose user may look for the dashboard.
            text = (
                "This is the game port of a Holdfast server: games connect to it with a WebSocket and one of the"
                f" sub-protocols {names_of(self._subprotocols)}. {''.join(map(self._directions, request.all('host')))}"
            )
            self._refuse(_answer(HTTPStatus.UPGRADE_REQUIRED, text.rstrip(), "Upgrade: websocket\r\n"))

    def _refuse(self, answer: bytes) -> None:
        assert self._transport is not None
        self._pending.not_understood()
        if self._heard.startswith(b"HEAD "):
            answer = answer[: answer.index(END) + len(END)]
        self._transport.write(answer)
        self._transport.close()

    def _upgrade(self, request: RequestHead, rest: bytes) -> None:
        assert self._transport is not None
        websocket = self._make_websocket(request)
        websocket.connection_made(self._transport)
        self._transport.set_protocol(websocket)
        # uvloop keeps a transport's first protocol for as long as the link is open.
        self._heard = bytearray()
        del self._make_websocket
        # A client may send data before the answer.
        unread = memoryview(request.to_bytes() + rest)
        while unread and not self._transport.is_closing():
            buffer = cast("memoryview", websocket.get_buffer(len(unread)))
            size = min(len(buffer), len(unread))
            buffer[:size] = unread[:size]
            websocket.buffer_updated(size)
            unread = unread[size:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._pending.over()


_DEFAULT_PORTS = {"http": 80, "https": 443}
# What browsers send for pages without a site: files and sandboxes. Electron sends the second.
_WITHOUT_SITE = {"null", "file://"}
_ANY = "*"
# A host by its name or address. Browsers send names with other letters as punycode.
_SITE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")


class Origins:
    """The web pages that may connect: "https://game.example", "https://*.game.example" for every site below it, "*".

    A browser sends the site of the page in `Origin`, and no page can change it. So the list stops other sites' pages
    from using a player's browser; it stops nothing else: a program may send any `Origin`, or none.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """`ValueError` for an invalid origin."""
        if isinstance(names, str):
            raise ValueError(f"origins are a list, as in [{names!r}]")  # noqa: TRY004 - see above
        self.names = tuple(names)
        self._exact: set[str] = set()
        self._below: list[tuple[str, str]] = []
        self._any = False
        for name in self.names:
            self._add(name)

    def _add(self, name: str) -> None:
        if name == _ANY:
            self._any = True
            return
        below = "://*." in name
        origin = _normal(name.replace("*.", "", 1) if below else name)
        if origin is None:
            raise ValueError(
                f'an origin is a scheme, a host, and a port if it is not the default, as in "https://game.example"; '
                f"got {name!r}"
            )
        scheme, _, site = origin.partition("://")
        if below:
            self._below.append((f"{scheme}://", f".{site}"))
        else:
            self._exact.add(origin)

    def allow(self, headers: Sequence[str]) -> bool:
        """Whether a request with these `Origin` headers is allowed; one without is not from a web page."""
        if self._any or not headers:
            return True
        origin = _normal(headers[0]) if len(headers) == 1 else None
        if origin is None:
            return False
        return origin in self._exact or any(
            origin.startswith(start) and origin.endswith(end) and len(origin) > len(start) + len(end)
            for start, end in self._below
        )


def _normal(text: str) -> str | None:
    """An origin as browsers write it: in lower case, without the default port."""
    text = text.strip().lower()
    if text in _WITHOUT_SITE:
        return text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    site = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not parts.scheme or f"{parts.scheme}://{parts.netloc}" != text or not _SITE.fullmatch(site):
        return None
    return f"{parts.scheme}://{site}" + ("" if port in {None, _DEFAULT_PORTS.get(parts.scheme)} else f":{port}")


PROTOCOL_HEADER = "Sec-WebSocket-Protocol"
EXTENSIONS_HEADER = "Sec-WebSocket-Extensions"

_log = get_logger("holdfast.transports")


def agreed(
    request: WSUpgradeRequest, subprotocols: Sequence[Subprotocol], origins: Origins | None = None
) -> Subprotocol | WSUpgradeResponse:
    """The subprotocol to use, or the answer to a request that cannot be upgraded. Without origins every page may
    connect."""
    try:
        if origins is not None and not origins.allow(request.headers.getall("Origin", [])):
            return refusal(HTTPStatus.FORBIDDEN, "Pages of this origin may not connect to this server.")
        # A list such as "keep-alive, Upgrade" is legal, but picows compares the whole header afterwards.
        if "upgrade" in (token.lower() for token in _tokens(request, "Connection")):
            request.headers["Connection"] = "Upgrade"
        return agree(_tokens(request, PROTOCOL_HEADER) or [""], subprotocols) or refusal(
            HTTPStatus.BAD_REQUEST, f"Offer one of the sub-protocols {names_of(subprotocols)} in {PROTOCOL_HEADER}."
        )
    except Exception:  # noqa: BLE001 - picows would send the exception's text as the answer
        _log.exception("an upgrade request could not be answered")
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed; its log has the error.")


def _tokens(request: WSUpgradeRequest, header: str) -> list[str]:
    return [token.strip() for line in request.headers.getall(header, []) for token in line.split(",")]


def refusal(status: HTTPStatus, text: str) -> WSUpgradeResponse:
    """A short answer for people; the socket is closed after it."""
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    response: WSUpgradeResponse = WSUpgradeResponse.create_error_response(status, f"{text}\n".encode(), headers)
    return response


def dial_error(url: str, error: OSError | ValueError | WSError) -> DialError:
    """The port's error for an error of picows. A refusal is final; after a server error a retry may succeed."""
    match error:
        case OSError():
            return unreachable(url, error)
        case WSHandshakeError(response=WSUpgradeResponse(status=status)):
            is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS
            return DialError(f"{url} answered {status:d} {status.phrase}", retry=not is_refused)
        case _:
            return DialError(f"{url} does not speak WebSocket: {error}", retry=False)
