"""One port for several processes of this machine: listening sockets for each of them.

On Linux each process has sockets of its own, and the system gives each the same part of the clients. Elsewhere all
accept from the same sockets, and the quickest gets the client.
"""

import socket
import sys
from typing import Protocol


class Bind(Protocol):
    """Makes sockets, as in `listening.bind`."""

    async def __call__(self, host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
        """One for each address of the host."""


async def share(bind: Bind, host: str, port: int, count: int) -> list[list[socket.socket]]:
    """The sockets for each of `count` processes; `OSError` if the port is in use, also by others who share theirs."""
    if sys.platform != "linux":
        return [await bind(host, port)] * count
    if port:
        # Alone: whoever has bound it in any way is in the way, and would otherwise get a part of the clients.
        _close(await bind(host, port))
    shares: list[list[socket.socket]] = []
    try:
        shares.append(await bind(host, port, is_shared=True))
        addresses = [sock.getsockname()[:2] for sock in shares[0]]
        for _ in range(1, count):
            shares.append([])
            for address, chosen in addresses:
                shares[-1] += await bind(address, chosen, is_shared=True)
    except BaseException:
        for sockets in shares:
            _close(sockets)
        raise
    return shares


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()
