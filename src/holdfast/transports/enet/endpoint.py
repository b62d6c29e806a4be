"""The UDP sockets of ENet: a server's, with all of its peers, and a client's with one."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from random import SystemRandom
from typing import Any, cast
from urllib.parse import urlsplit

from holdfast.transports.datagram_sockets import Address, DatagramSocket, bind
from holdfast.transports.enet import wire
from holdfast.transports.enet.link import AcceptedLink, DialedLink
from holdfast.transports.enet.peer import Peer, PeerState
from holdfast.transports.enet.proof import SECRET_BYTES, STRANGERS_COMMANDS_MAX, AddressProof, Proven
from holdfast.transports.links import peer_name, unreachable
from holdfast.transports.listening import PendingConnections
from holdfast.transports.port import Accept, DialError, Listener, Receiver, Subprotocol, Transport, TransportLimits

_Found = tuple[int, int, int, str, Address]
"""A row of `getaddrinfo`."""


class _Refused(DialError):
    """Nobody listens at this address."""


class ServerSocket(DatagramSocket):
    """One listening address: its peers, by address and id."""

    def __init__(
        self,
        accept: Accept,
        subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
        pending_connections: PendingConnections,
        secret: bytes,
    ) -> None:
        self._accept = accept
        self._subprotocols = subprotocols
        self._limits = limits
        self._pending_connections = pending_connections
        self._proof = AddressProof(secret, limits)
        self._loop = asyncio.get_running_loop()
        # No more than accepted connections, pending ones included: both are limited.
        self._links: dict[tuple[Address, int], AcceptedLink] = {}
        self.closed = asyncio.Event()
        """The socket is closed."""

    @property
    def is_closing(self) -> bool:
        """Whether it will be in a moment."""
        return self._udp is None or self._udp.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        try:
            link = self._links.get((addr, wire.receiver_of(data)))
            # Anybody can send what costs much to read: of strangers only the beginning counts.
            datagram = wire.decode(data, first=STRANGERS_COMMANDS_MAX if link is None else wire.COMMANDS_MAX)
        except wire.Malformed:
            return
        if link is not None and link.protocol.session == datagram.session:
            link.datagram_received(datagram)
        else:
            self._stranger(datagram, addr, len(data))

    def _stranger(self, datagram: wire.Datagram, address: Address, size: int) -> None:
        peer_id = datagram.peer_id
        if datagram.commands and isinstance(first := datagram.commands[0], wire.Connect):
            peer_id = first.outgoing_peer_id
        known = self._links.get((address, peer_id))
        session = None if known is None else known.protocol.session
        answer = self._proof.answer(datagram, peer_name(address), self._loop.time(), size=size, taken_session=session)
        if isinstance(answer, Proven):
            if known is not None:
                known.abort()
            link = self._let_in(answer, address)
            if link is not None:
                link.datagram_received(datagram)
        elif answer is not None:
            self.write(address, [answer])

    def _let_in(self, proven: Proven, address: Address) -> AcceptedLink | None:
        pending = self._pending_connections.came(None, address[0])
        if pending is None:
            return None
        peer = Peer(
            self._limits,
            state=PeerState.CONNECTED,
            peer_id=proven.peer_id,
            session=proven.session,
            mtu=proven.mtu,
        )
        peer.heard_at = self._loop.time()
        write = partial(self.write, address)
        link = AcceptedLink(peer, peer_name(address), write, self._accept, self._subprotocols, self._limits)
        link.pending, pending.transport = pending, link
        key = link.address = (address, proven.peer_id)
        link.forgotten = self._forget
        self._links[key] = link
        return link

    def _forget(self, link: AcceptedLink) -> None:
        if self._links.get(cast("Any", link.address)) is link:
            del self._links[cast("Any", link.address)]
        self._close_if_done()

    def stop(self) -> None:
        """Let nobody in; the socket closes with its last link."""
        self._proof.is_closed = True
        for link in list(self._links.values()):
            link.refuse_newcomer()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._proof.is_closed and not self._links:
            self.close()


class _EnetListener:
    """The sockets of a name, which may have several addresses."""

    def __init__(self) -> None:
        self.addresses: list[tuple[str, int]] = []
        self.sockets: list[ServerSocket] = []

    async def close(self) -> None:
        for each in self.sockets:
            each.stop()
        # Without links the port is free when this returns.
        await asyncio.gather(*(each.closed.wait() for each in self.sockets if each.is_closing))


async def listen(
    accept: Accept,
    *,
    host: str,
    port: int,
    sockets: Sequence[socket.socket] = (),
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
    pending_connections: PendingConnections | None = None,
) -> Listener:
    """Accept ENet clients; `sockets` are bound already, instead of `host` and `port`."""
    pending_connections = pending_connections or PendingConnections(limits)
    loop = asyncio.get_running_loop()
    listener = _EnetListener()
    try:
        for sock in list(sockets) or await bind(host, port):
            make = partial(ServerSocket, accept, subprotocols, limits, pending_connections, os.urandom(SECRET_BYTES))
            udp, served = await loop.create_datagram_endpoint(make, sock=sock)
            listener.sockets.append(served)
            listener.addresses.append(udp.get_extra_info("sockname")[:2])
    except BaseException:
        await listener.close()
        raise
    return listener


class _ClientSocket(DatagramSocket):
    """A connected socket: the system drops what comes from elsewhere."""

    link: DialedLink
    is_refused = False
    """The system says that nobody listens there."""

    def datagram_received(self, data: bytes, addr: Address) -> None:
        try:
            datagram = wire.decode(data)
        except wire.Malformed:
            return
        self.link.datagram_received(datagram)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError):
            self.is_refused = True
            self.link.unreachable()


async def dial(
    receiver: Receiver,
    url: str,
    *,
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
) -> Transport:
    """Connect to enet://host:port; `opened` has been called when it returns."""
    host, port = _endpoint(url)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limits.handshake_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            for address in found[:-1]:
                # A name may have addresses at which nobody listens.
                with suppress(_Refused):
                    return await _dial(receiver, address, subprotocols, limits)
            return await _dial(receiver, found[-1], subprotocols, limits)
    except DialError:
        raise
    except OSError as error:
        raise unreachable(url, error) from error


async def _dial(
    receiver: Receiver, found: _Found, subprotocols: Sequence[Subprotocol], limits: TransportLimits
) -> Transport:
    loop = asyncio.get_running_loop()
    *kind, _, address = found
    sock = socket.socket(*kind)
    client = _ClientSocket()
    try:
        sock.setblocking(False)
        sock.connect(address)
        await loop.create_datagram_endpoint(lambda: client, sock=sock)
    except OSError:
        sock.close()
        raise
    except BaseException:
        client.give_up()
        raise
    peer = Peer.dialing(limits, SystemRandom().getrandbits(32), loop.time())
    write = partial(client.write, None)
    link = client.link = DialedLink(peer, peer_name(address), write, lambda: receiver, subprotocols, limits)
    link.forgotten = client.close
    link.begin()
    try:
        await link.wait_open()
    except DialError as error:
        raise _Refused(str(error)) if client.is_refused else error from None
    return link


def _endpoint(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise DialError(f"{url} is not a URL: {error}", retry=False) from error
    if parts.scheme != "enet" or not host or not port:
        raise DialError(f"{url} should look like enet://host:port", retry=False)
    return host, port
