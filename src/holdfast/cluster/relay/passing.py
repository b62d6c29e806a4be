"""A relayed client's connection is passed to the node of its session, if both nodes are on one machine.

Relaying stays the rule: it begins at once, and goes on whenever a step does not fit. The node that has the connection
decides, and its words and the other's come in one order with what is relayed:

    state     what comes                                       what is done                                next
    relayed   relayed for `relay_settled_s`; may be passed     look for the end of a payload               waiting
    waiting   a payload that nothing follows in this process   stop reading; pass the socket; LinkPassing  offered
    waiting   the same, but something waits to be written      read on                                     relayed
    offered   LinkTaking: the client has all that was relayed  LinkPassed; close the socket here           passed
    offered   LinkKept, or nothing for `relay_passing_s`       LinkKept; read on                           relayed
    any       the client or the relayed link is lost           as without all this                         over

`LinkTaking` waits while the client's socket does not take what was written, like a payload. After each attempt the next
one takes longer to come, and one comes at most once in `relay_settled_s`: a room that moves to and fro costs little.
`taking.py` has the other node's half.
"""

import asyncio
import secrets
from collections.abc import Callable
from math import inf

from holdfast.cluster.descriptors import KEY_BYTES, Descriptors
from holdfast.cluster.relay.link import RelayedLink
from holdfast.core.limits import ClusterLimits
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.schemas.relay import LinkKept, LinkPassed, LinkPassing
from holdfast.transports.port import Passable, Transport

_SLOWER = 4.0
"""How much longer each attempt takes to come than the one before."""


class Passing:
    """The half of the node that has the connection, for one client."""

    def __init__(
        self,
        client: Callable[[], Transport],
        link: RelayedLink,
        descriptors: Descriptors,
        *,
        limits: ClusterLimits,
        passed: Callable[[], None],
    ) -> None:
        """`client` is its own link, which may be another one later; `passed` is called when it is no longer this
        node's."""
        self._client = client
        self._link = link
        self._descriptors = descriptors
        self._limits = limits
        self._passed = passed
        self._loop = asyncio.get_running_loop()
        self._pause_s = limits.relay_settled_s
        self._timer: asyncio.TimerHandle | None = None
        self._standing: Passable | None = None
        """The client's link, while it is looked at or offered."""
        self._key = b""
        """What it is offered with."""
        link.passing = self
        self._later()

    def over(self) -> None:
        """One of the two links is lost."""
        self._link.passing = None
        if self._timer is not None:
            self._timer.cancel()
        if self._standing is not None and not self._key:
            self._standing.stand_between(None)
        self._standing = None

    def _later(self) -> None:
        self._standing, self._key = None, b""
        if self._pause_s < inf:
            self._timer = self._loop.call_later(self._pause_s, self._begin)
            self._pause_s *= _SLOWER

    def _begin(self) -> None:
        client = self._client()
        if isinstance(client, Passable) and client.may_pass and self._descriptors.knows(self._link.peer):
            self._standing = client
            client.stand_between(self._offer)
        elif client.kind == self._link.kind:
            # Its connection is on a third node, and may come here.
            self._later()

    def _offer(self) -> None:
        client = self._standing
        assert client is not None
        key, passed = secrets.token_bytes(KEY_BYTES), client.passed
        is_ready = self._link.is_up and not self._client().buffered_bytes
        if not is_ready or not self._descriptors.pass_on(self._link.peer, key, client.descriptor):
            self._later()
            client.go_on()
            return
        self._key = key
        self._link.say(LinkPassing(self._link.number, key, passed.is_text, passed.window_bits))
        self._timer = self._loop.call_later(self._limits.relay_passing_s, self.kept, key)

    def kept(self, key: bytes) -> None:
        """It stays here."""
        client = self._standing
        if key != self._key or client is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._link.say(LinkKept(self._link.number, key))
        self._later()
        client.go_on()

    def taken(self, key: bytes) -> None:
        """The other node waits for it, and the client's socket has all that came before."""
        client = self._standing
        if key != self._key or client is None:
            return
        if not self._client().is_up or self._client().buffered_bytes:
            self.kept(key)
            return
        self._link.say(LinkPassed(self._link.number, key))
        self.over()
        self._passed()
        client.let_go(CLOSE_CODES[Reason.MOVED])
