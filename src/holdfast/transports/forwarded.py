"""Who stands behind a proxy: the proxies that are believed, and what they say in HTTP headers.

Anybody can send these headers. They count from the addresses that were named as proxies alone, and of the addresses in
them only the last that is not such a proxy itself: what stands before it was written by strangers.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

Address = tuple[str, int]
"""A host and a port; 0 if the port is not known."""

_IPAddress = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network
# `for=192.0.2.43`, `For="[2001:db8::17]:4711"`: one element of a Forwarded header (RFC 7239), between commas.
_FORWARDED_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*(?:"([^"]*)"|([^;,\s]*))', re.IGNORECASE)
_PORT_MAX = 65535


class Headers(Protocol):
    """The headers of a request, as much of them as is needed here."""

    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]:
        """Every line of this name, in order."""


class Contradiction(Exception):
    """Two headers name two clients: one of them was not written by the proxy."""


class TrustedProxies:
    """The proxies in front of this server: addresses ("10.0.0.7") and networks ("10.0.0.0/8", "fd00::/8")."""

    def __init__(self, networks: Iterable[str], *, proxy_protocol: bool = False, is_exclusive: bool = False) -> None:
        """`ValueError` for what is neither an address nor a network.

        With `proxy_protocol` they begin each connection with a header that says whose it is. If they are exclusive,
        nobody else may connect.
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

    def client(self, peer: Address, headers: Headers) -> Address:
        """Whose connection this is: the peer's own, unless the peer is a proxy that says whose."""
        if not self.trusts(peer[0]):
            return peer
        convention, standard = headers.getall("X-Forwarded-For", ()), headers.getall("Forwarded", ())
        by_convention = self._client(_entries(convention))
        by_standard = self._client(_forwarded_for(standard))
        # A proxy that writes one of the two passes the other on as it came, whoever wrote that. So also one that names
        # nobody ("for=_hidden") must not be overruled by the other.
        if convention and standard and (by_convention or peer)[0] != (by_standard or peer)[0]:
            raise Contradiction("the headers Forwarded and X-Forwarded-For name different clients")
        return by_convention or by_standard or peer

    def _client(self, entries: list[str]) -> Address | None:
        """The last address that is not a proxy; None if there is none, or something else stands where it should."""
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
    # A socket that listens for both families names IPv4 peers in this way.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _entries(lines: Sequence[str]) -> list[str]:
    return [entry.strip() for line in lines for entry in line.split(",")]


def _forwarded_for(lines: Sequence[str]) -> list[str]:
    """What each proxy wrote behind `for=`; "" where it wrote nothing. No address holds a comma, quoted or not."""
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
