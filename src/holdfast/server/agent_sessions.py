"""What all agents have: a session that is connected inside this process, without a socket, and an inbox.

Those that a room opens itself are in `rooms/agents.py`, those that join rooms as clients do in `agents.py`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from math import isinf
from typing import Any, cast

from holdfast.core.block import Block
from holdfast.core.codec import Codec
from holdfast.core.connection import Connection, ConnectionId, ConnectionStep
from holdfast.core.errors import NotSeated, Refused, Throttled
from holdfast.core.messages import Message
from holdfast.core.outlet import Backlog
from holdfast.core.reasons import Reason
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Session
from holdfast.server.context import Context
from holdfast.server.session_events import opened, resumed
from holdfast.server.sessions import SessionLifecycle

Answered = Callable[[Message | None, Refused | None], None]
"""Takes the answer to what an agent asked, or the refusal."""


# After so many messages that were there already, an agent leaves the event loop to others once.
_TAKEN_MAX = 16
# Instead of a deque until the first message: an empty one takes 760 bytes.
_NO_MESSAGES: deque[Message] = cast("deque[Message]", ())


class AgentConnection(Connection):
    """An agent's connection: inside this process, without a transport."""

    __slots__ = ("_lost",)

    def __init__(self, connection_id: ConnectionId, now: float, lost: Callable[[Connection], None]) -> None:
        super().__init__(connection_id, now)
        self.transport_kind = "agent"
        self._lost = lost
        self.happened(ConnectionStep.WELCOMED)

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        if self.is_open:
            self.end_reason = reason
            self.happened(ConnectionStep.LOST)
            self._lost(self)


class Inbox:
    """The outlet of an agent's seat: a queue of message objects."""

    __slots__ = (
        *("_arrived", "_asks", "_is_muted", "_messages", "_messages_max", "_overflowed", "_taken", "backlog"),
        *("farewell", "is_full", "latest_waiting_bytes", "room", "waiting_bytes"),
    )
    # Agents live beside the room, and look at it.
    is_following = False
    codec: Codec | None = None

    def __init__(self, messages_max: int, overflowed: Callable[[], None]) -> None:
        """`overflowed` is called when the agent has more to read than that."""
        self._messages_max = messages_max
        self._overflowed = overflowed
        self._messages = _NO_MESSAGES
        # Made when the agent first waits: many never read.
        self._arrived: asyncio.Event | None = None
        self._taken = 0
        self._is_muted = False
        self._asks: tuple[asyncio.Future[Message | None], ...] = ()
        self.room: RoomContext | None = None
        """Set if the room is transactional: what a turn of it says waits for its end."""
        self.farewell: Message | None = None
        self.waiting_bytes = self.latest_waiting_bytes = 0
        self.backlog: Backlog | None = None
        self.is_full = False

    def overflow(self) -> None:
        self.mute()
        self._overflowed()

    def mute(self) -> None:
        self._messages = _NO_MESSAGES
        self._is_muted = True

    def unmute(self) -> None:
        self._is_muted = False

    def send(self, message: Message) -> None:
        if self.room is None:
            self._take(message)
        else:
            self.room.later(self._take, message)

    def _take(self, message: Message) -> None:
        if self._is_muted or self.farewell is not None:
            return
        if self._messages is _NO_MESSAGES:
            self._messages = deque()
        self._messages.append(message)
        self._wake()
        if len(self._messages) > self._messages_max:
            self.overflow()

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Agents receive objects, and every agent the same one of a broadcast: treat it as read-only."""

    def push_block(self, block: Block) -> None:
        """Nothing is encoded for an agent."""

    def send_latest(self, message: Message, key: str) -> None:
        """Messages within a process are never lost."""
        self.send(message)

    def send_latest_shared(self, message: Message, key: str, bodies: dict[Codec, bytes]) -> None:
        self.send(message)

    def applied(self, seq: int) -> None:
        """Agents need no acknowledgements."""

    def record(self) -> None:
        """Agents' messages are not saved."""

    def record_version(self) -> tuple[int, ...]:
        return ()

    def finish(self, farewell: Message) -> None:
        self.farewell = farewell
        self._wake()
        for answer in [answer for answer in self._asks if not answer.done()]:
            answer.set_exception(NotSeated("the agent lost its seat before the answer came"))

    async def answer(self, name: str, ask: Callable[[Answered], None], timeout_s: float) -> Any:
        """Wait for the answer to a message with this name, which `ask` has the room handle."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

        def answered(message: Message | None, refused: Refused | None) -> None:
            if answer.done():
                return
            if refused is None:
                answer.set_result(message)
            else:
                answer.set_exception(refused)

        self._asks = (*self._asks, answer)
        limit = asyncio.timeout(None if isinf(timeout_s) else timeout_s)
        try:
            async with limit:
                ask(answered)
                return await answer
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer to {name!r} within {timeout_s:g} s") from None
        finally:
            self._asks = tuple(each for each in self._asks if each is not answer)

    async def next(self) -> Message | None:
        """The next message, or None after the last message of a freed seat."""
        self._taken += 1
        if self._taken % _TAKEN_MAX == 0:
            # An agent that answers itself always finds one.
            await asyncio.sleep(0)
        while not self._messages:
            if self.farewell is not None:
                return None
            arrived = self._arrived = self._arrived or asyncio.Event()
            arrived.clear()
            self._waits()
            await arrived.wait()
        return self._messages.popleft()

    def _wake(self) -> None:
        """Let an agent that waits look again."""
        if self._arrived is not None:
            self._arrived.set()

    def _waits(self) -> None:
        """The agent waits for a message."""


class AgentSessions:
    """Connects the sessions of agents."""

    def __init__(
        self, context: Context, lifecycle: SessionLifecycle, next_connection_id: Callable[[], ConnectionId]
    ) -> None:
        self._now = context.clock.now
        self._publish = context.publish
        self._sessions_max = context.limits.sessions_max
        self._registry = lifecycle.registry
        self._next_connection_id = next_connection_id

    def check_space(self) -> None:
        """`Throttled` if this node may not have one session more."""
        if len(self._registry) >= self._sessions_max:
            raise Throttled("this node has no space for another session")

    def connect(self, session: Session, lost: Callable[[Connection], None]) -> None:
        """The session of a new agent begins; `lost` is called when it is disconnected."""
        self._publish(opened(session, self._attach(session, lost)))

    def reconnect(self, session: Session, lost: Callable[[Connection], None], outcome: str) -> None:
        """The agent is back."""
        away_s = self._now() - session.dropped_at if session.dropped_at is not None else 0.0
        connection = self._attach(session, lost)
        session.resumes += 1
        session.drop_reason = None
        self._publish(resumed(session, connection, outcome, away_s=away_s))

    def _attach(self, session: Session, lost: Callable[[Connection], None]) -> Connection:
        now = self._now()
        connection = AgentConnection(self._next_connection_id(), now, lost)
        self._registry.attach(session, connection, now)
        return connection
