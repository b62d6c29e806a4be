"""The PROXY protocol, versions 1 and 2: a proxy says whose connection it passes on, in front of everything else.

The header stands before TLS, if there is TLS. So it is read from the bare socket, to its last byte and not one further,
and only then does the event loop make a transport of the socket, with TLS or without: see `listening.py`. A header from
who is no proxy is no TLS, no HTTP and no preface, and refused as such.
See https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt.
"""

import struct
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from holdfast.transports.forwarded import Address

_V1_START = b"PROXY "
# The longest line that there can be, from the specification.
_V1_BYTES_MAX = 107
_V2_START = b"\r\n\r\n\x00\r\nQUIT\n"
# The start, version and command, family and transport, and how many bytes follow.
_V2_HEAD = struct.Struct(">12sBBH")
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESSES = {_V2_TCP4: struct.Struct(">4s4sHH"), _V2_TCP6: struct.Struct(">16s16sHH")}
# "PROXY UNKNOWN\r\n", the shortest header of all.
_BYTES_MIN = 15
_PORT_MAX = 65535

Read = Callable[[int], Awaitable[bytes]]
"""Reads exactly so many bytes; `BadHeader` if the peer hangs up before."""


class BadHeader(Exception):
    """What a proxy said first is not a PROXY header."""


async def read_header(read: Read, *, bytes_max: int) -> Address | None:
    """The client that the proxy names; None if it speaks for itself, or does not know."""
    start = await read(_BYTES_MIN)
    if start.startswith(_V2_START):
        return await _read_v2(read, start, bytes_max)
    if start.startswith(_V1_START):
        return await _read_v1(read, start)
    raise BadHeader("it does not begin like one")


async def _read_v1(read: Read, line: bytes) -> Address | None:
    while not line.endswith(b"\r\n"):
        if len(line) >= _V1_BYTES_MAX:
            raise BadHeader("the line is too long")
        # Byte by byte: what stands behind the line is not ours.
        line += await read(1)
    match line[:-2].split(b" "):
        case [_, b"UNKNOWN", *_]:
            return None
        case [_, (b"TCP4" | b"TCP6") as family, source, _, port, _]:
            return _host(source, IPv4Address if family == b"TCP4" else IPv6Address), _port(port)
        case _:
            raise BadHeader("the line does not name two addresses and two ports")


def _host(text: bytes, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        address = ip_address(text.decode("ascii"))
    except ValueError:
        raise BadHeader("an address is none") from None
    if not isinstance(address, kind):
        raise BadHeader("an address is not of the family that was named")
    return str(address)


def _port(text: bytes) -> int:
    if not text.isdigit() or int(text) > _PORT_MAX:
        raise BadHeader("a port is none")
    return int(text)


async def _read_v2(read: Read, start: bytes, bytes_max: int) -> Address | None:
    _, command, family, length = _V2_HEAD.unpack(start + await read(_V2_HEAD.size - len(start)))
    if _V2_HEAD.size + length > bytes_max:
        raise BadHeader("it is too long")
    body = await read(length) if length else b""
    if command not in {_V2_LOCAL, _V2_PROXY}:
        raise BadHeader("the version or the command is not known")
    layout = _V2_ADDRESSES.get(family)
    if command == _V2_LOCAL or layout is None:
        return None
    if length < layout.size:
        raise BadHeader("the addresses are cut short")
    source, _, port, _ = layout.unpack_from(body)
    return str(ip_address(source)), port
