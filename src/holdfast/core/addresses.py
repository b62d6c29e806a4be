"""Addresses of peers: the host behind "203.0.113.7:51234", and the network that stands for one household."""

from ipaddress import IPv6Address, IPv6Network

# Who has IPv6 has 2**64 addresses of it: a count for each would count nobody.
_HOUSEHOLD_BITS = 64


def host_of(peer: str) -> str:
    """The address without its port: "203.0.113.7", "2001:db8::7"; what is no address comes back as it is."""
    host, colon, _ = peer.rpartition(":")
    return host.strip("[]") if colon else peer


def household_of(host: str) -> str:
    """What is counted as one: an IPv4 address, or an IPv6 network of 64 bits."""
    if ":" not in host:
        return host  # IPv4, which has but one way to be written, or no address at all
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, _HOUSEHOLD_BITS), strict=False))
