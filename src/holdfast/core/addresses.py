"""Addresses: the host in "203.0.113.7:51234", the network that counts as one customer, `Host` headers."""

import re
from ipaddress import IPv6Address, IPv6Network, ip_address

# An IPv6 customer has 2**64 addresses: counting each would limit nobody.
_GROUP_BITS = 64
# Names as in DNS and container networks; browsers send other letters as punycode. Excludes whatever could start a path,
# a login ("user@"), a second host or a line of a log.
_HOST_HEADER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)|\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?"
)
_NAME_CHARS_MAX = 254
_PORTS = range(1, 65_536)


def host_of(peer: str) -> str:
    """The address without its port: "203.0.113.7", "2001:db8::7"; anything else is returned unchanged."""
    host, colon, _ = peer.rpartition(":")
    return host.strip("[]") if colon else peer


def address_group(host: str) -> str:
    """The unit that is counted: an IPv4 address, or an IPv6 network of 64 bits."""
    if ":" not in host:
        return host  # IPv4, which has one spelling, or not an address
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, _GROUP_BITS), strict=False))


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
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def is_unspecified(host: str) -> bool:
    """Whether a server at this address listens on every address of the machine."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False
