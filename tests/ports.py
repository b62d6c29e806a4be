"""Ports that are free now, for servers that must have the same ones again after they were killed."""

import socket
from random import SystemRandom

# Below those that Linux gives to clients: none of them takes one while its server is away.
_FIRST, _LAST = 15_000, 32_000


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    random = SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = random.randint(_FIRST, _LAST)
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
