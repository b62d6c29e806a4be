"""One of the processes of `holdfast serve --workers`: it listens where it is told to, and ends with its supervisor."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from holdfast import Server
from holdfast.cli.workers.orders import Descriptors, ListenAlso, Loaded, Serving, Start, Stop, line_of, read_order
from holdfast.cluster.setting import Cluster, open_cluster
from holdfast.core.limits import Limits

_PATIENCE_S = 20.0
"""How long a worker may take to end after its supervisor has."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process serves: a worker, once it was told to."""

    cluster: str | Cluster | None
    sockets: Mapping[str, Sequence[socket.socket]] = field(default_factory=dict)
    http: Sequence[socket.socket] = ()


class WorkerLine:
    """The worker's end of its line to the supervisor."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.name = name
        self._line = socket.socket(fileno=descriptor)
        self._orders: BinaryIO = self._line.makefile("rb")
        self._sockets: dict[int, socket.socket] = {}
        self._own: list[socket.socket] = []
        os.set_inheritable(descriptor, False)

    @classmethod
    def of(cls, option: str) -> "WorkerLine":
        """The one that the hidden option --worker names, as in "7:worker-1"."""
        descriptor, _, name = option.partition(":")
        return cls(int(descriptor), name)

    def loaded(self, limits: Limits, *, has_durable_rooms: bool) -> Assignment:
        """Tell that the game is loaded, and wait until there is something to serve."""
        self._line.sendall(line_of(Loaded(has_durable_rooms)))
        line = self._orders.readline()
        if not line:
            sys.exit(1)  # the supervisor has ended
        order = read_order(line)
        if not isinstance(order, Start):
            sys.exit(0)
        sockets = self._named(order.sockets)
        self._own = [sock for of_it in sockets.values() for sock in of_it]
        http = [self._socket(each) for each in order.http]
        if order.links is not None:
            os.set_inheritable(order.links, False)
        return Assignment(replace(open_cluster(order.cluster, limits), links=order.links), sockets, http)

    def ready(self, server: Server, facts: list[tuple[str, str]]) -> None:
        """The server runs: tell it, and obey from now on."""
        self._line.sendall(line_of(Serving(facts)))
        call = server.parts.clock.loop.call_soon_threadsafe
        obeying = threading.Thread(target=self._obey, args=(server, call), name="worker", daemon=True)
        obeying.start()

    def _obey(self, server: Server, call: Callable[..., object]) -> None:
        also: dict[str, list[socket.socket]] = {}
        for line in self._orders:
            match read_order(line):
                case ListenAlso(sockets=descriptors):
                    before, also = also, self._named(descriptors)
                    call(server.listeners.leave, before)
                    call(server.listeners.listen_also, also)
                case Stop(drains=drains):
                    call(_stop, server, drains)
                case Start():
                    continue
        # The supervisor is gone, and with it the NATS server.
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_PATIENCE_S)
        os._exit(1)

    def _named(self, descriptors: Descriptors) -> dict[str, list[socket.socket]]:
        named = {name: map(self._socket, of_it) for name, of_it in descriptors.items()}
        # Where all workers have the same sockets, nobody is to stop listening on them.
        return {name: [sock for sock in of_it if sock not in self._own] for name, of_it in named.items()}

    def _socket(self, descriptor: int) -> socket.socket:
        """The listening socket that was inherited under this number."""
        if descriptor not in self._sockets:
            # What the game starts must not keep the port.
            os.set_inheritable(descriptor, False)
            self._sockets[descriptor] = socket.socket(fileno=descriptor)
            self._sockets[descriptor].setblocking(False)
        return self._sockets[descriptor]


def _stop(server: Server, drains: bool) -> None:
    if server.is_running and server.parts.cluster is not None:
        server.parts.cluster.end_whole()
    signal.raise_signal(signal.SIGTERM if drains else signal.SIGINT)
