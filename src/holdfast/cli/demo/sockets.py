"""Ports for the demo: the usual one, or another if that is taken."""

import socket
from contextlib import suppress


def listening_at(host: str, port: int) -> socket.socket:
    """A listening socket at this port, or at any other if it is taken."""
    with suppress(OSError):
        return _listening(host, port)
    return _listening(host, 0)


def free_port(host: str, port: int) -> int:
    """This port, or another if it is taken: for a process that is not started yet."""
    with listening_at(host, port) as sock:
        return int(sock.getsockname()[1])


def _listening(host: str, port: int) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock
