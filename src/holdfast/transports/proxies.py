"""Clients behind a proxy: the trusted proxies, and the client addresses they send, in HTTP headers or with the PROXY
protocol.

Anybody can send these headers. They count only from the addresses of trusted proxies, and of the addresses in them
only the last that is not such a proxy itself: anything before it can be forged.

The PROXY protocol, versions 1 and 2, sends a header before everything else, including TLS. So it is read from the bare
socket, to its last byte and none beyond, and only then does the event loop make a transport of the socket: see
`listening.py`. A header from any other peer is neither TLS nor HTTP nor a preface, and refused as such.
See https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt.
"""

import re
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = tuple[str, int]
"""A host and a port; 0 if the port is unknown."""

_IPAddress = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network
# `for=192.0.2.43`, `For="[2001:db8::17]:4711"`: one element of a Forwarded header (RFC 7239), between commas.
_FORWARDED_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*(?:"([^"]*)"|([^;,\s]*))', re.IGNORECASE)
_PORT_MAX = 65535


class ConflictingHeaders(Exception):
    """Two headers name different clients: one of them was not written by the proxy."""


class TrustedProxies:
    """The proxies in front of this server: addresses ("10.0.0.7") and networks ("10.0.0.0/8", "fd00::/8")."""

    def __init__(self, networks: Iterable[str], *, proxy_protocol: bool = False, is_exclusive: bool = False) -> None:
        """`ValueError` for anything but an address or a network.

        With `proxy_protocol` they begin each connection with a header that names the client. If they are exclusive, no
        other peer may connect.
        """
        if isinstance(networks, str):
            raise ValueError(f"trusted proxies are a list, as in [{networks!r}]")  # noqa: TRY004 - see above
        self.names = tuple(networks)
        self.proxy_protocol = proxy_protocol
        self.is_exclusive = is_exclusive
        self._networks = [_network(name) for name in self.names]

    def trusts(self, host: str) -> bool:
        """Whether this is the address of one of them."""
        address = _parsed(host)
        return address is not None and self._trusts(address)

    def _trusts(self, address: _IPAddress) -> bool:
        return any(address in network for network in self._networks)

    def client(self, peer: Address, *, x_forwarded_for: Sequence[str], forwarded: Sequence[str]) -> Address:
        """The client of a connection with these headers: the peer, unless the peer is a proxy that names another."""
        if not self.trusts(peer[0]):
            return peer
        by_convention = self._client(_entries(x_forwarded_for))
        by_standard = self._client(_forwarded_for(forwarded))
        # A proxy that writes one of the two passes the other on unchanged, whoever wrote it. So a proxy that names
        # nobody ("for=_hidden") must not be overruled by the other header either.
        if x_forwarded_for and forwarded and (by_convention or peer)[0] != (by_standard or peer)[0]:
            raise ConflictingHeaders("the headers Forwarded and X-Forwarded-For name different clients")
        return by_convention or by_standard or peer

    def _client(self, entries: list[str]) -> Address | None:
        """The last address that is not a proxy; None if there is none, or it is not an address."""
        for entry in reversed(entries):
            host, port = _split(entry)
            address = _parsed(host)
            if address is None:
                return None
            if not self._trusts(address):
                return str(address), port
        return None


def _network(name: str) -> _Network:
    try:
        return ip_network(name)
    except ValueError as error:
        raise ValueError(
            f'a trusted proxy is an address or a network, as in "10.0.0.7" or "10.0.0.0/8"; {error}'
        ) from None


def _parsed(host: str) -> _IPAddress | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    # A socket that listens for both families names IPv4 peers this way.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _entries(lines: Sequence[str]) -> list[str]:
    return [entry.strip() for line in lines for entry in line.split(",")]


def _forwarded_for(lines: Sequence[str]) -> list[str]:
    """What each proxy wrote after `for=`; "" where it wrote nothing. No address contains a comma, quoted or not."""
    found = (_FORWARDED_FOR.search(entry) for entry in _entries(lines))
    return [(match[1] or match[2]) if match is not None else "" for match in found]


def _split(entry: str) -> Address:
    """The host and the port of "192.0.2.43", "192.0.2.43:4711", "2001:db8::17" and "[2001:db8::17]:4711"."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, _port(rest.removeprefix(":"))
    if entry.count(":") == 1:
        host, _, rest = entry.partition(":")
        return host, _port(rest)
    return entry, 0


def _port(text: str) -> int:
    is_port = text.isascii() and text.isdigit() and len(text) <= len(str(_PORT_MAX)) and int(text) <= _PORT_MAX
    return int(text) if is_port else 0


_V1_START = b"PROXY "
# The longest possible line, from the specification.
_V1_BYTES_MAX = 107
_V2_START = b"\r\n\r\n\x00\r\nQUIT\n"
# The signature, version and command, family and transport, and the length of the rest.
_V2_HEAD = struct.Struct(">12sBBH")
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESSES = {_V2_TCP4: struct.Struct(">4s4sHH"), _V2_TCP6: struct.Struct(">16s16sHH")}
# "PROXY UNKNOWN\r\n", the shortest header of all.
_BYTES_MIN = 15

Read = Callable[[int], Awaitable[bytes]]
"""Reads exactly so many bytes; `BadHeader` if the peer disconnects before."""


class BadHeader(Exception):
    """A proxy's connection does not begin with a PROXY header."""


async def read_header(read: Read, *, bytes_max: int) -> Address | None:
    """The client that the proxy names; None if it names none."""
    start = await read(_BYTES_MIN)
    if start.startswith(_V2_START):
        return await _read_v2(read, start, bytes_max)
    if start.startswith(_V1_START):
        return await _read_v1(read, start)
    raise BadHeader("it does not begin like a PROXY header")


async def _read_v1(read: Read, line: bytes) -> Address | None:
    while not line.endswith(b"\r\n"):
        if len(line) >= _V1_BYTES_MAX:
            raise BadHeader("the line is too long")
        # Byte by byte: what follows the line is not part of the header.
        line += await read(1)
    match line[:-2].split(b" "):
        case [_, b"UNKNOWN", *_]:
            return None
        case [_, (b"TCP4" | b"TCP6") as family, source, _, port, _]:
            return _host(source, IPv4Address if family == b"TCP4" else IPv6Address), _v1_port(port)
        case _:
            raise BadHeader("the line does not name two addresses and two ports")


def _host(text: bytes, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        address = ip_address(text.decode("ascii"))
    except ValueError:
        raise BadHeader("an address is invalid") from None
    if not isinstance(address, kind):
        raise BadHeader("an address does not match its family")
    return str(address)


def _v1_port(text: bytes) -> int:
    if not text.isdigit() or int(text) > _PORT_MAX:
        raise BadHeader("a port is invalid")
    return int(text)


async def _read_v2(read: Read, start: bytes, bytes_max: int) -> Address | None:
    _, command, family, length = _V2_HEAD.unpack(start + await read(_V2_HEAD.size - len(start)))
    if _V2_HEAD.size + length > bytes_max:
        raise BadHeader("it is too long")
    body = await read(length) if length else b""
    if command not in {_V2_LOCAL, _V2_PROXY}:
        raise BadHeader("the version or the command is unknown")
    layout = _V2_ADDRESSES.get(family)
    if command == _V2_LOCAL or layout is None:
        return None
    if length < layout.size:
        raise BadHeader("the addresses are truncated")
    source, _, port, _ = layout.unpack_from(body)
    return str(ip_address(source)), port
