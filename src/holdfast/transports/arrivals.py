"""Connections that were accepted and are no links yet: how many there are, by address and in all, and for how long.

Each costs a descriptor and some memory before anybody knows who it is, or whether it will ever say a word. When there
are too many, the newest is refused, not the oldest: it has cost nothing yet, and those before it have. In a storm,
cutting them off in favour of the next would have everybody begin again and nobody finish. Who is silent is gone soon.
"""

import asyncio
import socket
from collections.abc import Callable

from holdfast.core.address_quota import AddressShares
from holdfast.transports.forwarded import Address
from holdfast.transports.port import TransportLimits
from holdfast.transports.sockets import abort

Refused = Callable[[str, str], None]
"""Hears that somebody was refused: by which limit, or "" if by none, and who, as far as that is known."""

UNKNOWN = ""
"""Whose connection it is, as long as only the proxy that passes it on is known."""


class Arrivals:
    """Counts them, for all doors of a server together."""

    def __init__(
        self,
        limits: TransportLimits,
        refused: Refused = lambda _limit, _host: None,
        shares: AddressShares | None = None,
    ) -> None:
        self._limits = limits
        self._shares = shares or AddressShares(1.0)
        self._refused = refused
        self.count = 0
        # An IPv6 network of 64 bits is one. It holds no more entries than there are arrivals.
        self._by_household: dict[str, int] = {}

    def came(self, sock: socket.socket, host: str) -> "Arrival | None":
        """Somebody was accepted; None if that is one too many, and then it is closed."""
        household = None
        if self.count >= self._limits.unopened_max:
            self._refused("unopened_max", host)
        else:
            household = self.enter(host)
        if household is None:
            sock.close()
            return None
        self.count += 1
        return Arrival(self, sock, household, self._limits.handshake_s)

    def refuse(self, sock: socket.socket, limit: str, host: str) -> None:
        """Somebody was accepted who has no business here."""
        self._refused(limit, host)
        sock.close()

    def enter(self, host: str) -> str | None:
        """Count one more of this host's household; None if that is one too many."""
        household = self._shares.holder_of(host)
        if household == UNKNOWN:
            # A proxy's client who is not known yet, or somebody from a network that has the whole pool.
            return UNKNOWN
        count = self._by_household.get(household, 0)
        if count >= self._limits.unopened_per_address_max:
            self._refused("address_share", host)
            return None
        self._by_household[household] = count + 1
        return household

    def not_understood(self, household: str) -> None:
        """One of them said nothing that a door understands."""
        self._refused("", household)

    def went(self, household: str) -> None:
        """One of them is a link now, or gone."""
        self.count -= 1
        if household != UNKNOWN:
            self._by_household[household] -= 1
            if not self._by_household[household]:
                del self._by_household[household]


class Arrival:
    """One of them. From being accepted to an open link there is one deadline, however many steps lie between."""

    __slots__ = ("_arrivals", "_deadline", "_household", "_socket", "_transport", "client", "task")

    def __init__(self, arrivals: Arrivals, sock: socket.socket, household: str, handshake_s: float) -> None:
        self._arrivals = arrivals
        self._socket: socket.socket | None = sock
        self._household = household
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(handshake_s, self._cut)
        self._transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        """Who makes a transport of it."""
        self.client: Address | None = None
        """Whom a proxy named in front of it (PROXY protocol); without a name it is the socket's other end."""

    @property
    def accepted(self) -> socket.socket:
        """What was accepted, until a transport has it."""
        assert self._socket is not None
        return self._socket

    @property
    def is_over(self) -> bool:
        """It is a link now, or gone."""
        return self._deadline is None

    def is_for(self, client: Address) -> bool:
        """A proxy says whose it is: whether there may be one more of those."""
        household = self._arrivals.enter(client[0])
        if household is None:
            return False
        self.client, self._household = client, household
        return True

    def not_understood(self) -> None:
        """It said nothing that this door understands, and is refused for that."""
        self._arrivals.not_understood(self._household)

    def hand_over(self) -> socket.socket:
        """The socket, for a transport, which closes it."""
        sock, self._socket = self.accepted, None
        return sock

    def made(self, transport: asyncio.Transport) -> None:
        """It has a transport, and lacks nothing but the handshake."""
        self._transport = transport

    def over(self) -> None:
        """No longer count it: it is a link now, or gone."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._arrivals.went(self._household)
        if self._socket is not None:
            self._socket.close()

    def _cut(self) -> None:
        if self._transport is not None:
            self.over()
            abort(self._transport)
        elif self.task is not None:
            # When that has ended, it is over: not before, for it may be waiting for the socket.
            self.task.cancel()
        else:
            self.over()
