"""Network addresses: the host in "203.0.113.7:51234", `Host` headers, ranges, and the share of a pool that one address
may hold.

An IPv6 network of 64 bits counts as one address: a customer has 2**64 of them, and counting each would limit nobody.
"""

import re
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Range = IPv4Network | IPv6Network

_GROUP_BITS = 64
# IPv4 within IPv6: ::ffff:203.0.113.7 is 203.0.113.7, whichever form the socket reports.
_MAPPED_BITS = 96
# Names as in DNS and container networks; browsers send other letters as punycode. Excludes whatever could start a path,
# a login ("user@"), a second host or a line of a log.
_HOST_HEADER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)|\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?"
)
_NAME_CHARS_MAX = 254
_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_PORTS = range(1, 65_536)


def host_of(peer: str) -> str:
    """The address without its port: "203.0.113.7", "2001:db8::7"; anything else is returned unchanged."""
    host, colon, _ = peer.rpartition(":")
    return host.strip("[]") if colon else peer


# A connection's address is asked for at every step of its sign-in.
@lru_cache(maxsize=1024)
def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address of a peer; None if it has none, as with the memory transport."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def address_group(host: str) -> str:
    """The unit that is counted: an IPv4 address, or an IPv6 network of 64 bits."""
    # IPv4 has one spelling.
    address = read_address(host) if ":" in host else None
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _GROUP_BITS), strict=False))
    return host if address is None else str(address)


def is_host_header(value: str) -> bool:
    """Whether this is a valid `Host` header: a name, an IPv4 address or an IPv6 one in brackets, with an optional
    port."""
    match = _HOST_HEADER.fullmatch(value)
    if match is None or int(match["port"] or 1) not in _PORTS:
        return False
    if match["ipv6"] is None:
        return len(match["name"]) <= _NAME_CHARS_MAX
    try:
        IPv6Address(match["ipv6"])
    except ValueError:
        return False
    return True


def hostname(header: str) -> str:
    """The name or address in a `Host` header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether this name or address never leaves the machine. Other names are not resolved: the result could change."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_unspecified(host: str) -> bool:
    """Whether a server at this address listens on every address of the machine."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False


# Ranges


def read_range(text: str) -> Range:
    """Parse a range: "203.0.113.7", "203.0.113.0/24", "2001:db8::/32"; `ValueError` if it is invalid.

    "203.0.113.7/24" means the range, not the address.
    """
    network = ip_network(text.strip(), strict=False)
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


class RangeTable(Generic[T]):
    """A value for each of very many ranges: one lookup for each prefix length, of which there are at most 33 in IPv4
    and 129 in IPv6."""

    def __init__(self) -> None:
        # By IP version and prefix length, then by prefix.
        self._tables: dict[tuple[int, int], dict[int, T]] = {}

    def put(self, network: Range, value: T) -> None:
        self._tables.setdefault((network.version, network.prefixlen), {})[_prefix(network)] = value

    def remove(self, network: Range) -> None:
        place = network.version, network.prefixlen
        table = self._tables[place]
        del table[_prefix(network)]
        if not table:
            del self._tables[place]

    def around(self, text: str) -> Iterator[T]:
        """The values of all ranges that contain an address."""
        address = read_address(text) if self._tables else None
        if address is None:
            return
        number = int(address)
        for (version, length), table in self._tables.items():
            if version == address.version:
                value = table.get(number >> (address.max_prefixlen - length))
                if value is not None:
                    yield value


def _prefix(network: Range) -> int:
    return int(network.network_address) >> (network.max_prefixlen - network.prefixlen)


# Shares: one or two addresses cannot exhaust a pool of the node


@lru_cache(maxsize=64)
def share_of(pool_max: int, share: float) -> int:
    """How much of a pool one address may hold, at least 1."""
    return min(pool_max, max(1, ceil(pool_max * share)))


class AddressShares:
    """The size of a share, and which addresses may use a whole pool: those that the operator names, and peers without
    an IP address (an agent, a memory transport), which belong to this process."""

    def __init__(self, share: float, full_share: Iterable[str] = ()) -> None:
        """`ValueError` for anything but an address ("203.0.113.7") or a network ("10.0.0.0/8")."""
        if isinstance(full_share, str):
            raise ValueError(f"full_share is a tuple, as in ({full_share!r},)")  # noqa: TRY004 - like its items
        self.share = share
        self.names = tuple(full_share)
        self._full: list[Range] = []
        # The last one that was asked for: a client that connects is counted in several pools.
        self._last = ("", "")
        for name in self.names:
            try:
                self._full.append(ip_network(name))
            except ValueError as error:
                raise ValueError(
                    f"{name!r} is neither an address nor a network, as in 203.0.113.7 or 10.0.0.0/8: {error}"
                ) from None

    def holder_of(self, address: str) -> str:
        """The name under which an address is counted; empty if it may use the whole pool."""
        known, holder = self._last
        if address != known:
            holder = self._holder_of(address)
            self._last = address, holder
        return holder

    def _holder_of(self, address: str) -> str:
        if not self._full and _IPV4.fullmatch(address):
            # As below, without reading it: thousands of clients return at once.
            return address
        parsed = read_address(address) if address else None
        if parsed is None or any(parsed in network for network in self._full):
            return ""
        return address_group(address)


class AddressQuota(Generic[K]):
    """Use of one pool, by address. Its memory is bounded by the size of the pool."""

    def __init__(self, shares: AddressShares) -> None:
        self._shares = shares
        self._holder_of: dict[K, str] = {}
        self._counts: dict[str, int] = {}

    def count(self, address: str) -> int:
        """How many this address holds; 0 for one that may use the whole pool."""
        return self._counts.get(self._shares.holder_of(address), 0)

    def is_full(self, address: str, pool_max: int, *, at_least: int = 0) -> bool:
        """Whether this address holds its share of a pool of this size, or `at_least` if that is more."""
        return self.count(address) >= max(at_least, share_of(pool_max, self._shares.share))

    def take(self, thing: K, address: str) -> None:
        """Count a thing for this address, even beyond its share."""
        holder = self._shares.holder_of(address)
        if holder and thing not in self._holder_of:
            self._holder_of[thing] = holder
            self._counts[holder] = self._counts.get(holder, 0) + 1

    def give_back(self, thing: K) -> None:
        """Stop counting a thing; unknown ones are ignored."""
        holder = self._holder_of.pop(thing, None)
        if holder is not None:
            self._counts[holder] -= 1
            if not self._counts[holder]:
                del self._counts[holder]
