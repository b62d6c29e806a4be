"""Each address gets a share of the node's pools, so that one or two addresses cannot exhaust a pool.

Addresses are counted as in `core.addresses`: an IPv6 network of 64 bits counts as one. A peer without an IP address (an
agent, a memory transport) belongs to this process and may use the whole pool, as may networks named by the operator.
"""

from collections.abc import Hashable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil
from typing import Generic, TypeVar

from holdfast.core.addresses import address_group

K = TypeVar("K", bound=Hashable)


def share_of(pool_max: int, share: float) -> int:
    """How much of a pool one address may hold, at least 1."""
    return min(pool_max, max(1, ceil(pool_max * share)))


class AddressShares:
    """The size of a share, and which addresses may use a whole pool."""

    def __init__(self, share: float, full_share: Iterable[str] = ()) -> None:
        """`ValueError` for anything but an address ("203.0.113.7") or a network ("10.0.0.0/8")."""
        if isinstance(full_share, str):
            raise ValueError(f"full_share is a tuple, as in ({full_share!r},)")  # noqa: TRY004 - like its items
        self.share = share
        self.names = tuple(full_share)
        self._full = [_network(name) for name in self.names]

    def holder_of(self, address: str) -> str:
        """The name under which an address is counted; empty if it may use the whole pool."""
        parsed = _parsed(address) if address else None
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


def _network(name: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(name)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is neither an address nor a network, as in 203.0.113.7 or 10.0.0.0/8: {error}"
        ) from None


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
