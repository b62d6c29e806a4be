"""Links between two nodes, for clients whose connection is on one and whose session is on the other.

    relay = ClientRelay(bus, own_life, limits)
    await relay.start()
    listener = relay.listen(accept, subprotocols=…, limits=…)
    link = await relay.dial(receiver, other_life, caller=Caller(address="203.0.113.7:51234"), …)

Both ends are transports like any other, with their contract: whole payloads in order, a peer that does not read makes
`buffered_bytes` grow, `lost` comes once and says the truth. A relay knows nothing of codecs, sessions or rooms, keeps
nothing and acknowledges nothing for a session: if it is lost, the client drops and resumes.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from holdfast.cluster.descriptors import Descriptors
from holdfast.cluster.membership import MemberChange, dead
from holdfast.cluster.port import Bus, NobodyThere, NoReply
from holdfast.cluster.relay.link import Caller, Dialing, RelayedLink
from holdfast.cluster.relay.peer import RELAY, RelayPeer
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.relay import (
    LinkClosing,
    LinkCredit,
    LinkKept,
    LinkNotOpened,
    LinkOpened,
    LinkOpening,
    LinkPart,
    LinkPassed,
    LinkPassing,
    LinkReset,
    LinkTaking,
    RelayFrame,
    RelayMessage,
)
from holdfast.transports.port import Accept, DialError, Receiver, Subprotocol, TransportLimits, agree

log = get_logger("holdfast.cluster")

_THERE = "relays"
"""The topic on which a node answers that it takes relayed clients; its life follows."""
_decoder = msgspec.msgpack.Decoder(RelayMessage)


Follow = Callable[[bytes], Accept | None]
"""Accepts the link that follows the handover with this key; None if nothing waits for it."""


@dataclass(slots=True, kw_only=True)
class RelayListener:
    """Where the clients of other nodes come in."""

    addresses: Sequence[tuple[str, int]]
    """The life of this node; there is no port."""
    accept: Accept
    subprotocols: Sequence[Subprotocol]
    limits: TransportLimits
    follow: Follow | None = None
    is_open: bool = True

    async def close(self) -> None:
        self.is_open = False


class ClientRelay:
    """One node's relay, from `start` to `stop`. The bus is open for as long."""

    def __init__(
        self, bus: Bus, own_life: str, limits: ClusterLimits, *, descriptors: Descriptors | None = None
    ) -> None:
        """With `descriptors`, nodes of one machine pass the connections of relayed clients to each other."""
        self._bus = bus
        self._own_life = own_life
        self.limits = limits
        self.descriptors = descriptors
        self._loop = asyncio.get_running_loop()
        self._peers: dict[str, RelayPeer] = {}
        self._lines = itertools.count(1)
        self._listener: RelayListener | None = None
        self._dialed_count = 0
        self._tick: asyncio.TimerHandle | None = None
        self._ticked_at = self._loop.time()
        self._is_stopped = False

    async def start(self) -> None:
        """Hear other nodes."""
        self._bus.on_reconnect(self._reconnected)
        await self._bus.listen(f"{RELAY}.{self._own_life}", self._heard)
        await self._bus.answer(f"{_THERE}.{self._own_life}", lambda _: b"")
        if self.descriptors is not None:
            self.descriptors.open()
        self._ticked_at = self._loop.time()
        self._tick = self._loop.call_later(self.limits.relay_beat_s, self._ticked)

    async def stop(self) -> None:
        """End every link without a word; close them before, to be kind. The bus stays open."""
        self._is_stopped = True
        if self._tick is not None:
            self._tick.cancel()
        tasks: set[asyncio.Task[None]] = set()
        for peer in self._peers.values():
            peer.stop()
            tasks |= peer.tasks
        self._peers.clear()
        if self.descriptors is not None:
            self.descriptors.close()
        if tasks:
            await asyncio.wait(tasks)

    def node_changed(self, change: MemberChange) -> None:
        """Membership has found that a node is dead, or has left: its links end now."""
        for life in dead([change]):
            peer = self._peers.pop(life, None)
            if peer is not None:
                peer.give_up(change.why, is_gone=True)
                peer.stop()
            if self.descriptors is not None:
                self.descriptors.forget(life)

    def listen(
        self,
        accept: Accept,
        *,
        subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
        follow: Follow | None = None,
    ) -> RelayListener:
        """Take the clients that other nodes relay; `follow` those in the middle of a session."""
        if self._listener is not None and self._listener.is_open:
            raise ValueError("this node listens already")
        self._listener = RelayListener(
            addresses=[(self._own_life, 0)],
            accept=accept,
            subprotocols=subprotocols,
            limits=limits,
            follow=follow,
        )
        return self._listener

    async def dial(
        self,
        receiver: Receiver,
        life: str,
        *,
        caller: Caller,
        subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
        follows: bytes = b"",
    ) -> RelayedLink:
        """Relay a client to a node; `opened` has been called when it returns. `follows` is the key of a handover."""
        try:
            await self._bus.ask(f"{_THERE}.{life}", b"", limits.handshake_s)
        except NobodyThere:
            raise DialError(f"the node {life} is gone") from None
        except NoReply:
            raise DialError(f"the node {life} does not answer") from None
        peer = self._peer(life)
        if peer is None:
            raise DialError("there are too many nodes")
        self._dialed_count += 1
        link = self._link(peer, self._dialed_count, peer_name=life, caller=caller, limits=limits)
        opened = self._loop.create_future()
        link.dialing = Dialing(receiver, subprotocols, opened)
        names = tuple(each.name for each in subprotocols)
        opening = LinkOpening(
            link.number, caller.address, caller.is_encrypted, caller.is_compressed, names, follows, caller.age_s
        )
        peer.post(opening)
        try:
            async with asyncio.timeout(limits.handshake_s):
                await opened
        except TimeoutError:
            link.abort()
            raise DialError(f"the node {life} did not answer in time") from None
        except BaseException:
            link.abort()  # nothing else would end it
            raise
        return link

    # From the bus

    def _heard(self, _: str, payload: bytes) -> None:
        try:
            message = _decoder.decode(payload)
        except msgspec.MsgspecError as error:
            log.warning("a message of another node cannot be read", error=str(error))
            return
        peer = self._peer(message.life)
        if peer is None or not peer.heard(message, len(payload)):
            return
        for frame in message.frames:
            self._carry_out(peer, frame)

    def _carry_out(self, peer: RelayPeer, frame: RelayFrame) -> None:
        # In the words of the other node.
        number = -frame.link
        link = peer.links.get(number)
        if isinstance(frame, LinkOpening):
            if link is None and number < 0:
                self._take_in(peer, number, frame)
        elif link is None:
            if isinstance(frame, LinkPart | LinkOpened):
                peer.post(LinkReset(number))
        else:
            match frame:
                case LinkOpened(subprotocol=name):
                    link.taken(name)
                case LinkNotOpened(why=why, may_retry=may_retry):
                    link.refused(DialError(why, retry=may_retry))
                case LinkPart() | LinkClosing() | LinkPassing() | LinkTaking() | LinkPassed() | LinkKept():
                    link.arrived(frame)
                case LinkCredit(size=size):
                    link.credited(size)
                case LinkReset():
                    link.severed()
                case _:
                    assert_never(frame)

    def _take_in(self, peer: RelayPeer, number: int, frame: LinkOpening) -> None:
        """Another node relays a client to this one."""
        listener = self._listener
        if listener is None or not listener.is_open:
            peer.post(LinkNotOpened(number, f"the node {self._own_life} takes no clients", may_retry=True))
            return
        subprotocol = agree(frame.subprotocols, listener.subprotocols)
        if subprotocol is None:
            why = f"the node {self._own_life} supports none of the offered subprotocols"
            peer.post(LinkNotOpened(number, why, may_retry=False))
            return
        follower = None
        if frame.follows and listener.follow is not None:
            follower = listener.follow(frame.follows)
        if frame.follows and follower is None:
            peer.post(LinkNotOpened(number, "nothing waits for this connection any more", may_retry=False))
            return
        caller = Caller(
            address=frame.caller,
            is_encrypted=frame.is_encrypted,
            is_compressed=frame.is_compressed,
            age_s=frame.age_s,
        )
        link = self._link(peer, number, peer_name=frame.caller, caller=caller, limits=listener.limits)
        peer.post(LinkOpened(number, subprotocol.name))
        link.open(follower or listener.accept, subprotocol)

    def _link(
        self, peer: RelayPeer, number: int, *, peer_name: str, caller: Caller, limits: TransportLimits
    ) -> RelayedLink:
        if not peer.links:
            # Only from now on it has to be heard regularly.
            peer.heard_at = self._loop.time()
        link = RelayedLink(
            peer,
            number,
            peer=peer_name,
            caller=caller,
            limits=limits,
            cluster_limits=self.limits,
            descriptors=self.descriptors,
        )
        peer.links[number] = link
        return link

    def _peer(self, life: str) -> RelayPeer | None:
        """The other node; None if there are too many."""
        peer = self._peers.get(life)
        if peer is None and len(self._peers) < self.limits.nodes_max and not self._is_stopped:
            peer = self._peers[life] = RelayPeer(
                self._bus, self._own_life, life, limits=self.limits, next_line=lambda: next(self._lines)
            )
        return peer

    # Time

    def _ticked(self) -> None:
        limits, now = self.limits, self._loop.time()
        self._tick = self._loop.call_later(limits.relay_beat_s, self._ticked)
        was_paused = now - self._ticked_at > 2 * limits.relay_beat_s
        self._ticked_at = now
        for life, peer in list(self._peers.items()):
            if not peer.links:
                if now - max(peer.heard_at, peer.sent_at) >= limits.dead_kept_s:
                    peer.stop()
                    del self._peers[life]
            elif was_paused:
                # The fault was here: what the others said waits to be read.
                peer.heard_at = now
                peer.speak_anyway()
            elif now - peer.heard_at >= limits.relay_silent_s:
                peer.give_up("it is silent")
            elif now - peer.sent_at >= limits.relay_beat_s:
                peer.speak_anyway()

    def _reconnected(self) -> None:
        """What was said meanwhile is lost; if it was anything, the numbers show it."""
        for peer in self._peers.values():
            if peer.links:
                peer.speak_anyway()
