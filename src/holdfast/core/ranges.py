"""Ranges of addresses, and which of very many contain an address: one lookup for each prefix length in use."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Generic, TypeVar

T = TypeVar("T")

Range = IPv4Network | IPv6Network

# IPv4 within IPv6: ::ffff:203.0.113.7 is 203.0.113.7, whichever form the socket reports.
_MAPPED_BITS = 96


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


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address of a peer; None if it has none, as with the memory transport."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped if mapped is not None else address


class RangeTable(Generic[T]):
    """A value for each range. There are at most 33 prefix lengths in IPv4, and 129 in IPv6."""

    def __init__(self) -> None:
        # By IP version and prefix length, then by prefix.
        self._tables: dict[tuple[int, int], dict[int, T]] = {}

    def put(self, network: Range, value: T) -> None:
        """Set the value of a range."""
        self._tables.setdefault((network.version, network.prefixlen), {})[_prefix(network)] = value

    def remove(self, network: Range) -> None:
        """Remove a range that has a value."""
        place = network.version, network.prefixlen
        table = self._tables[place]
        del table[_prefix(network)]
        if not table:
            del self._tables[place]

    def around(self, text: str) -> Iterator[T]:
        """The values of all ranges that contain an address."""
        if not self._tables:
            return
        address = read_address(text)
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
