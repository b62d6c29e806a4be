"""One end of a relayed link: a transport whose other end is on another node.

Payloads go in parts, so that a large one does not hold up those of other clients. A part costs credit, which the other
end gives back when its receiver has read it: a receiver that does not read stops its own link and no other.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from holdfast.cluster.descriptors import Descriptors
from holdfast.cluster.relay.taking import Taking
from holdfast.core.connection import Traffic
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.relay import (
    LinkClosing,
    LinkKept,
    LinkPart,
    LinkPassed,
    LinkPassing,
    LinkReset,
    LinkTaking,
    RelayFrame,
)
from holdfast.transports.links import close_code, shorten, tell
from holdfast.transports.port import (
    NO_STATUS,
    TOO_BIG,
    VANISHED,
    Accept,
    DialError,
    Receiver,
    Subprotocol,
    Switchable,
    Transport,
    TransportLimits,
    agree,
)

log = get_logger("holdfast.cluster")

# So that payloads without a byte are not without a cost.
PART_COST_BYTES = 32


PassingFrame = LinkPassing | LinkTaking | LinkPassed | LinkKept
StreamFrame = LinkPart | LinkClosing | PassingFrame
"""What comes in the order in which it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that is relayed, as its own link to the dialing node has it."""

    address: str
    is_encrypted: bool = False
    is_compressed: bool = False
    age_s: float = 0.0
    """How long it has been connected."""


@dataclass(frozen=True, slots=True)
class Dialing:
    """What the dialing end waits for."""

    receiver: Receiver
    offered: Sequence[Subprotocol]
    done: asyncio.Future[None]


class LinkLine(Protocol):
    """What a link needs of the line that it is on."""

    life: str
    """Of the other node."""

    def wants(self, link: "RelayedLink") -> None:
        """The link has something to send."""

    def post(self, frame: RelayFrame) -> None:
        """Send this, whatever waits on the links."""

    def owe(self, link: "RelayedLink", size: int) -> None:
        """Give credit back to the other end."""

    def forget(self, link: "RelayedLink") -> None:
        """The link has ended."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it; it takes a moment."""


class PassesClient(Protocol):
    """Passes the client's connection to the other node (`passing.py`)."""

    def taken(self, key: bytes) -> None:
        """The other node is ready."""

    def kept(self, key: bytes) -> None:
        """The other node does not take it."""


class RelayedLink:
    """One end. `number` is the link's in the words of this node."""

    kind: Final = "relay"
    datagram_bytes_max: Final = 0

    def __init__(
        self,
        line: LinkLine,
        number: int,
        *,
        peer: str,
        caller: Caller,
        limits: TransportLimits,
        cluster_limits: ClusterLimits,
        descriptors: Descriptors | None = None,
    ) -> None:
        self.number = number
        self.peer = peer
        self.is_encrypted = caller.is_encrypted
        self.is_compressed = caller.is_compressed
        self.age_s = caller.age_s
        self.subprotocol = Subprotocol("", None)
        self.buffered_bytes = 0
        self.dialing: Dialing | None = None
        self.passing: PassesClient | None = None
        self._taking: Taking | None = None
        self._descriptors = descriptors
        self._line = line
        self._limits = limits
        self._window_bytes = self._credit = cluster_limits.relay_unread_bytes_max
        self._part_bytes = cluster_limits.relay_part_bytes_max
        self._receiver: Receiver | None = None
        self._outbox: deque[StreamFrame] = deque()
        self._inbox: deque[StreamFrame] = deque()
        self._inbox_bytes = 0
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._is_reading = True
        self._is_congested = False
        self._received_bytes = self._taken_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        # Set as soon as the end is certain: from then on nothing is sent or received.
        self._end: tuple[int, str] | None = None
        self._is_lost = False

    @property
    def life(self) -> str:
        """The other node's."""
        return self._line.life

    @property
    def is_up(self) -> bool:
        return self._end is None

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._received_bytes, self._taken_bytes, self.buffered_bytes)

    def send(self, payload: bytes) -> None:
        if self._end is not None:
            return
        if self._taking is None:
            self._queue(payload)
            self._line.wants(self)
        else:
            self._taking.held.append(payload)
            self.buffered_bytes += len(payload)
        if self.buffered_bytes > self._limits.write_high_bytes and not self._is_congested and self._receiver:
            self._is_congested = True
            tell(self, self._receiver.congested)

    def _queue(self, payload: bytes) -> None:
        size = self._part_bytes
        for start in range(0, len(payload) or 1, size):
            part = LinkPart(self.number, payload[start : start + size], start + size >= len(payload))
            self._outbox.append(part)
            self.buffered_bytes += cost_of(part)

    def send_datagram(self, payload: bytes) -> bool:
        return False

    def say(self, frame: PassingFrame) -> None:
        """Say it after all that was sent."""
        if self._end is None:
            self._outbox.append(frame)
            self._line.wants(self)

    def close(self, code: int, reason: str) -> None:
        if self._end is not None:
            return
        self._end = (code, reason)
        if self._taking is None:
            self._outbox.append(LinkClosing(self.number, code, shorten(reason)))
            self._line.wants(self)
        loop = asyncio.get_running_loop()
        loop.call_soon(self._read)  # the other end's answer has not arrived yet
        self._deadline = loop.call_later(self._limits.close_s, self.abort)

    def abort(self) -> None:
        if self._is_lost or self._end == (VANISHED, ""):
            return
        if self._taking is not None and self._taking.is_passed:
            self._end = (VANISHED, "")
            return
        self._line.post(LinkReset(self.number))
        self.sever()

    def pause_reading(self) -> None:
        if self._end is None:
            self._is_reading = False

    def resume_reading(self) -> None:
        if self._end is None:
            self._is_reading = True
            asyncio.get_running_loop().call_soon(self._read)

    # LinkOpening

    def open(self, accept: Accept, subprotocol: Subprotocol) -> None:
        """Both nodes have agreed."""
        self.subprotocol = subprotocol
        tell(self, self._open, accept)

    def taken(self, name: str) -> None:
        """The other node has taken it."""
        if self.dialing is None or self._receiver is not None:
            return
        subprotocol = agree([name], self.dialing.offered)
        if subprotocol is None:
            self.abort()
            self._not_opened(DialError(f"{self.peer} chose a protocol that was not offered", retry=False))
            return
        receiver = self.dialing.receiver
        self.open(lambda: receiver, subprotocol)
        if not self.dialing.done.done():
            self.dialing.done.set_result(None)

    def _open(self, accept: Accept) -> None:
        self._receiver = accept()
        self._receiver.opened(self)

    def refused(self, error: DialError) -> None:
        """The other node does not take it."""
        self._end = self._end or (VANISHED, "")
        self._not_opened(error)
        self._forget()

    def _not_opened(self, error: DialError) -> None:
        if self.dialing is not None and not self.dialing.done.done():
            self.dialing.done.set_exception(error)

    # From the line

    def next_part(self) -> StreamFrame | None:
        """What to send next, if it has credit."""
        if not self._outbox:
            return None
        frame = self._outbox[0]
        if isinstance(frame, LinkPart):
            if cost_of(frame) > self._credit:
                return None
            self._credit -= cost_of(frame)
        return self._outbox.popleft()

    def credited(self, size: int) -> None:
        """The other end has read so many bytes."""
        size = min(size, self.buffered_bytes)
        self._credit += size
        self.buffered_bytes -= size
        self._taken_bytes += size
        if self._outbox:
            self._line.wants(self)
        # Like asyncio: drained well below the mark, so that the two do not alternate.
        if self._is_congested and self.buffered_bytes <= self._limits.write_high_bytes // 4:
            self._is_congested = False
            if self._receiver and not self._is_lost:
                tell(self, self._receiver.drained)

    def arrived(self, frame: StreamFrame) -> None:
        """A part of a payload, the other end's close, or a word about passing the client's connection."""
        self._inbox.append(frame)
        if isinstance(frame, LinkPart):
            self._inbox_bytes += cost_of(frame)
            if self._inbox_bytes > self._window_bytes:
                # It was sent without credit.
                self.abort()
                return
        self._read()

    def severed(self) -> None:
        """The other end, its node or the line is gone."""
        self._end = self._end or (VANISHED, "")
        self._not_opened(DialError(f"the link to the node {self.peer} was lost"))
        self._forget()
        self._lose()

    def sever(self) -> None:
        """Gone, for a reason on this node: the receiver is told in a moment."""
        self._end = self._end or (VANISHED, "")
        self._forget()
        asyncio.get_running_loop().call_soon(self._lose)

    def _forget(self) -> None:
        self._outbox.clear()
        self._inbox.clear()
        self._pieces.clear()
        self.buffered_bytes = 0
        if self._taking is not None:
            self._taking.drop()
        self._line.forget(self)

    def _read(self) -> None:
        """Read what has come; after a close of our own only the answer matters."""
        while self._inbox and not self._is_lost:
            frame = self._inbox[0]
            if not self._is_reading and self._end is None and isinstance(frame, LinkPart | LinkClosing | LinkTaking):
                # `LinkTaking` too: it says that all before it was read.
                return
            self._inbox.popleft()
            match frame:
                case LinkPart():
                    self._inbox_bytes -= cost_of(frame)
                    self._line.owe(self, cost_of(frame))
                    self._take(frame)
                case LinkClosing():
                    self._on_close(frame)
                case _:
                    self._on_passing(frame)

    def _take(self, part: LinkPart) -> None:
        self._received_bytes += cost_of(part)
        self._pieces_bytes += len(part.body)
        if self._end is not None or self._receiver is None:
            return
        if self._pieces_bytes > self._limits.payload_bytes_max:
            self.close(TOO_BIG, f"a payload may have at most {self._limits.payload_bytes_max} bytes")
            return
        self._pieces.append(part.body)
        if part.is_last:
            payload = b"".join(self._pieces)
            self._pieces.clear()
            self._pieces_bytes = 0
            tell(self, self._receiver.received, payload)

    def _on_close(self, frame: LinkClosing) -> None:
        if self._end is None:
            code = frame.code if frame.code == NO_STATUS else close_code(frame.code)
            self._end = (code, frame.reason)
            self._line.post(LinkClosing(self.number, code, frame.reason))
        elif self._outbox and isinstance(self._outbox[-1], LinkClosing):
            # Both close at once, and ours still waits behind payloads that the other end will not read.
            self._line.post(self._outbox[-1])
        elif self._taking is not None:
            self._line.post(LinkClosing(self.number, *self._end))
        self._forget()
        self._lose()

    # The client's connection is passed from one node to the other

    def _on_passing(self, frame: PassingFrame) -> None:
        taking = self._taking
        match frame:
            case LinkPassing():
                self._begin_taking(frame)
            case LinkTaking(key=key) if self.passing is not None:
                self.passing.taken(key)
            case LinkKept(key=key) if self.passing is not None:
                self.passing.kept(key)
            case LinkKept(key=key) if taking is not None and key == taking.key:
                self._relay_on(taking)
            case LinkPassed(key=key) if taking is not None and key == taking.key:
                # Nothing more comes or goes on this line.
                self._line.post(LinkReset(self.number))
                self._line.forget(self)
                taking.is_passed = True
                self._line.spawn(self._go_over(taking)).add_done_callback(self._gone_over)
            case _:
                """A word about an attempt that is over."""

    def _begin_taking(self, frame: LinkPassing) -> None:
        sock = self._descriptors.take(frame.key) if self._descriptors is not None else None
        if sock is None or self._end is not None or not isinstance(self._receiver, Switchable):
            if sock is not None:
                sock.close()
            self.say(LinkKept(self.number, frame.key))
            return
        self.say(LinkTaking(self.number, frame.key))
        self._taking = Taking(frame, sock)

    def _relay_on(self, taking: Taking) -> None:
        self._taking = None
        taking.drop()
        for payload in taking.held:
            self.buffered_bytes -= len(payload)
            self._queue(payload)
        if self._end is not None:
            self._outbox.append(LinkClosing(self.number, self._end[0], shorten(self._end[1])))
        self._line.wants(self)

    async def _go_over(self, taking: Taking) -> None:
        assert self._receiver is not None
        try:
            await taking.take_over(
                self._receiver,
                self._switch,
                peer=self.peer,
                is_encrypted=self.is_encrypted,
                subprotocol=self.subprotocol,
                limits=self._limits,
            )
        except OSError as error:
            log.warning("a connection that was passed to this node is lost", peer=self.peer, error=str(error))

    def _gone_over(self, _: asyncio.Task[None]) -> None:
        """If it was not switched, it never will be: the node stops, or the socket cannot be used."""
        if self._taking is not None:
            self._taking.drop()
        self._lose()

    def _switch(self, transport: Transport) -> None:
        """The link goes on over the client's own connection."""
        assert isinstance(self._receiver, Switchable)
        assert self._taking is not None
        self._is_lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._receiver.switched(transport)
        for payload in self._taking.held:
            transport.send(payload)
        if self._is_congested and transport.buffered_bytes <= self._limits.write_high_bytes:
            self._receiver.drained()
        if not self._is_reading:
            transport.pause_reading()
        if self._end == (VANISHED, ""):
            transport.abort()
        elif self._end is not None:
            transport.close(*self._end)

    def _lose(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._receiver is not None:
            tell(self, self._receiver.lost, *(self._end or (VANISHED, "")))


def cost_of(part: LinkPart) -> int:
    """The credit that a part takes."""
    return len(part.body) + PART_COST_BYTES
