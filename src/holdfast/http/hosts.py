"""Names and addresses of this machine itself, and who may listen elsewhere."""

from ipaddress import IPv6Address, ip_address

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7778


def is_loopback(host: str) -> bool:
    """Whether this name or address never leaves the machine. Other names are not looked up: they might change."""
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
    """Whether a server at this address listens at every one of the machine."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False


def hostname(header: str) -> str:
    """The name or address in a `Host` header, without the port and without brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def check_binding(host: str, *, has_keys: bool) -> None:
    """Refuse to let everybody in: without a key, only this machine may ask."""
    if not has_keys and not is_loopback(host):
        raise ValueError(
            f"the HTTP API would be open to everybody at {host or 'every address'}: give it an API key, as in "
            'ApiKey(secrets.token_urlsafe(), ["admin"]), or let it listen at 127.0.0.1'
        )
