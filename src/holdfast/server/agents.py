"""Agents that join rooms like clients do. Those that a room opens itself are in `rooms/agents.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.connection import Connection
from holdfast.core.errors import AlreadySeated, NotSeated, SessionEnded
from holdfast.core.messages import Message, SeatLeft, check_message
from holdfast.core.reasons import Reason
from holdfast.core.session import Seat, Session, SessionState, agent_id
from holdfast.identity.port import Identity
from holdfast.schemas.player import AGENT_PREFIX
from holdfast.schemas.requests import Create
from holdfast.server.admission.sign_in import SessionMaker
from holdfast.server.agent_sessions import AgentSessions, Inbox
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.rooms.approval import Interrupted
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import SessionLifecycle

_AWAY = "the agent is disconnected: call its resume() first"


class AgentRoom:
    """An agent's seat in a room, with the same methods as a client's room."""

    def __init__(self, runner: RoomRunner, seat: Seat, inbox: Inbox, *, ask_s: float) -> None:
        self._ask_s = ask_s
        self._runner = runner
        self._seat = seat
        self._inbox = inbox
        self.id = runner.room.id
        self.kind = runner.room.kind

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat was freed; None while the agent has it."""
        farewell = self._inbox.farewell
        return farewell if isinstance(farewell, SeatLeft) else None

    async def send(self, message: Message) -> None:
        """Send a message to the room."""
        self._check_seat()
        self._runner.delivery.deliver_native(self._seat, message)

    async def ask(self, message: Message, *, timeout_s: float | None = None) -> Any:
        """Send a message and wait for the answer, as `ClientRoom.ask` does; a refusal is raised."""
        # A refusal may come at once: an agent that asks again and again must leave others their time.
        await asyncio.sleep(0)
        self._check_seat()
        check_message(message)
        ask = partial(self._runner.delivery.ask_native, self._seat, message)
        return await self._inbox.answer(message.wire_name, ask, self._ask_s if timeout_s is None else timeout_s)

    def _check_seat(self) -> None:
        session = self._seat.session
        if session.seat is not self._seat:
            raise NotSeated("the agent no longer has a seat in this room")
        if session.state is not SessionState.CONNECTED:
            raise NotSeated(_AWAY)

    async def leave(self) -> None:
        """Free the seat; messages sent before are handled first."""
        self._runner.leave(self._seat)

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self._inbox.next()) is not None:
            yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """The parts of the server that agents use."""

    context: Context
    lifecycle: SessionLifecycle
    maker: SessionMaker
    rooms: Directory
    sessions: AgentSessions
    seat_returned: Callable[[Session, Collection[Channel]], None]
    lost: Callable[[Connection], None]
    """One bound method for all agents."""


class Agent:
    """A player controlled by code. Open one with `server.open_agent(name)`."""

    def __init__(self, services: AgentServices, name: str, roles: frozenset[str]) -> None:
        services.sessions.check_space()
        self._services = services
        player_id = agent_id(name)
        self.session = services.maker.make(Identity(player_id, roles), player_id.removeprefix(AGENT_PREFIX))
        self._inbox: Inbox | None = None
        """Messages to its session; None until it begins to read them."""
        services.sessions.connect(self.session, services.lost)

    def resume(self) -> None:
        """Reconnect after `session.disconnect()`, to the same seat; messages sent meanwhile wait to be read."""
        session, services = self.session, self._services
        if session.state is SessionState.ENDED:
            raise self._ended()
        if session.state is SessionState.CONNECTED:
            return
        services.sessions.reconnect(session, services.lost, "resumed")
        services.seat_returned(session, ())

    async def create(
        self,
        kind: str,
        *,
        properties: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        max_players: int | None = None,
    ) -> str:
        """Create a room and return its id."""
        request = Create(kind, dict(properties or {}), max_players, config=dict(config or {}))
        self._services.rooms.check_role(kind, self.session.roles)
        runner = await self._services.rooms.create(request, self.session.player_id, is_trusted=True)
        return runner.room.id

    async def join(self, room_id: str, *, options: Any = None) -> AgentRoom:
        """Take a seat in a room, with what its `join_options` asks for."""
        if self.session.state is SessionState.ENDED:
            raise self._ended()
        if self.session.state is SessionState.DISCONNECTED:
            raise NotSeated(_AWAY)
        if self.session.seat is not None:
            raise AlreadySeated("this agent already has a seat; leave it first")
        runner = self._services.rooms.runner(room_id)
        inbox = self._make_inbox()
        try:
            seat = await runner.join(self.session, lambda _: inbox, options)
        except Interrupted:
            # The session was ended or disconnected while it was joining.
            raise self._ended() if self.session.end_reason is not None else NotSeated(_AWAY) from None
        return AgentRoom(runner, seat, inbox, ask_s=self._services.context.limits.ask_s)

    def _make_inbox(self) -> Inbox:
        services = self._services
        return Inbox(services.context.limits.kept_messages_max, self._overflowed)

    def _overflowed(self) -> None:
        reason = "the agent does not read its messages"
        self._services.lifecycle.end_session(self.session, Reason.SLOW, reason)

    async def receive(self) -> Message:
        """The next message to the agent's session, as opposed to its seat; `SessionEnded` after the last one.

        It hears those that are sent from the first call on: an agent that never reads them is not sent any.
        """
        if self._inbox is None:
            if self.session.state is SessionState.ENDED:
                raise self._ended()
            self.session.inbox = self._inbox = self._make_inbox()
        message = await self._inbox.next()
        if message is None:
            raise self._ended()
        return message

    def _ended(self) -> SessionEnded:
        assert self.session.end_reason is not None
        return SessionEnded(self.session.end_reason)

    def end(self) -> None:
        """End the agent's session; its seat is freed."""
        self._services.lifecycle.end_session(self.session, Reason.BYE)
