"""Ports that are free now, for servers that must have the same ones again after they were killed."""

import socket
import sys
from random import SystemRandom

# Below those that Linux gives to clients: none of them takes one while its server is away.
_FIRST, _LAST = 15_000, 32_000
# Open for as long as this process lives.
_reservations: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """So many different ones. Nobody else who asks here gets them while this process lives."""
    random = SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = random.randint(_FIRST, _LAST)
        if not _reserve(port):
            continue
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError:
                continue
        found.append(port)
    return found


def _reserve(port: int) -> bool:
    """Between the look and the start of a server, another test would find the same port free."""
    if sys.platform != "linux":
        return True
    # A name that is no file, and is gone with the process.
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0holdfast.tests.port.{port}")
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True
