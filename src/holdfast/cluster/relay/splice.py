"""A client's link joined to a relayed one: what comes on one is sent on the other, and the end of one ends the other.

The node in between reads nothing, keeps nothing and answers nothing: codec, channel and session are at the far end.
"""

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.cluster.relay.link import Caller
from holdfast.cluster.relay.passing import Passing
from holdfast.cluster.relay.relay import ClientRelay
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.transports.port import VANISHED, DialError, Receiver, Transport, TransportLimits


class SplicedEnd:
    """The receiver of one of the two links."""

    def __init__(self) -> None:
        self.link: Callable[[], Transport] | None = None
        self.other: SplicedEnd | None = None
        self.passing: Passing | None = None

    def opened(self, transport: Transport) -> None:
        self.link = lambda: transport

    def received(self, payload: bytes) -> None:
        if (there := self._there) is not None:
            there.send(payload)

    def received_datagram(self, payload: bytes) -> None:
        if (there := self._there) is not None and not there.send_datagram(payload):
            there.send(payload)

    def kept_busy(self) -> None:
        """Frames without a payload end here."""

    def congested(self) -> None:
        if (there := self._there) is not None:
            there.pause_reading()

    def drained(self) -> None:
        if (there := self._there) is not None:
            there.resume_reading()

    def lost(self, code: int, reason: str) -> None:
        if self.passing is not None:
            self.passing.over()
        if (there := self._there) is not None:
            self.end(there, code, reason)

    def end(self, there: Transport, code: int, reason: str) -> None:
        """This link has ended: end the other one."""
        if code == VANISHED:
            there.abort()
        else:
            there.close(code, reason)

    @property
    def _there(self) -> Transport | None:
        other = self.other
        return None if other is None or other.link is None else other.link()


class _FarEnd(SplicedEnd):
    """The relayed link's. If it vanishes, with its node or the line there, the client is told to resume."""

    def end(self, there: Transport, code: int, reason: str) -> None:
        if code == VANISHED:
            code, reason = CLOSE_CODES[Reason.DROPPED], "the node of your session is gone, or its link; resume"
        super().end(there, code, reason)


async def splice(
    client: Callable[[], Transport],
    relay: ClientRelay,
    life: str,
    *,
    heard: Callable[[], Sequence[bytes]],
    limits: TransportLimits,
    follows: bytes = b"",
    age_s: float = 0.0,
) -> Receiver:
    """Relay a client to a node; what was heard from it so far goes first. Returns what hears the rest.

    `client` is its link, which may be another one later; `age_s` says how long it has been connected.

    Pause the client's reading before, and resume it once its link tells the returned receiver; what arrives until then
    is what `heard` returns, too. Raises `DialError`, and the client's link is as it was.
    """
    near, far = SplicedEnd(), _FarEnd()
    near.other, far.other = far, near
    near.link = client
    own = client()
    caller = Caller(address=own.peer, is_encrypted=own.is_encrypted, is_compressed=own.is_compressed, age_s=age_s)
    link = await relay.dial(far, life, caller=caller, subprotocols=[own.subprotocol], limits=limits, follows=follows)
    if not client().is_up:
        link.abort()
        raise DialError("the client has gone")
    for payload in heard():
        link.send(payload)
    if relay.descriptors is not None:
        near.passing = far.passing = Passing(
            client, link, relay.descriptors, limits=relay.limits, passed=partial(_part, near, far)
        )
    return near


def _part(near: SplicedEnd, far: SplicedEnd) -> None:
    """The client's connection is the other node's: neither link tells the other of its end."""
    near.other = far.other = None
