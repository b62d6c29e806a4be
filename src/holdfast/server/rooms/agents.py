"""The agents that a room opens itself: players without a client, each played by a coroutine, its brain.

An agent has a session and a seat like other players. Its brain is a task beside the room's turns: it starts after
`on_join`, or after `on_rejoin` on a seat that was held for it, and ends with the seat.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from holdfast.core.connection import Connection
from holdfast.core.errors import Duplicate, NotFound, NotSeated, Refused, Throttled
from holdfast.core.join_options import checked_options
from holdfast.core.listed_room import check_full
from holdfast.core.messages import Message
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, RoomAgent, player_data_type
from holdfast.core.room_context import RoomContext
from holdfast.core.room_listing import RoomStatus
from holdfast.core.session import (
    SESSION_ID_BYTES,
    Player,
    RoomHandle,
    Seat,
    SeatState,
    SeatStep,
    Session,
    SessionId,
    SessionState,
    agent_id,
)
from holdfast.core.tokens import new_id
from holdfast.logs import get_logger
from holdfast.schemas.events import SessionResynced
from holdfast.schemas.player import AGENT_PREFIX
from holdfast.server.agent_sessions import Answered, Inbox
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import RoomGone, Turns

log = get_logger("holdfast.server")

M = TypeVar("M", bound=Message)

Brain = Callable[[RoomAgent[Any]], Coroutine[Any, Any, None]]

# The least time between two starts of a brain that ends at once: a game may open its agent again each time, and must
# not take the node's time with it.
_RESTART_S = 1.0


class ResyncedInbox(Inbox):
    """Never ends its agent: what does not fit is not kept, and the agent is sent the current state when it reads."""

    __slots__ = ("_has_missed",)

    def __init__(self, messages_max: int, resync: Callable[[], None]) -> None:
        super().__init__(messages_max, resync)
        self._has_missed = False

    def overflow(self) -> None:
        self.mute()
        self._has_missed = True
        # It may be about to read.
        self._wake()

    def _waits(self) -> None:
        if self._has_missed:
            self._has_missed = False
            self._overflowed()


class _Life:
    """One agent with a brain."""

    __slots__ = ("brain", "inbox", "seat", "task")

    def __init__(self, seat: Seat, brain: Brain, inbox: Inbox) -> None:
        self.seat = seat
        self.brain = brain
        self.inbox = inbox
        self.task: asyncio.Task[None] | None = None

    def outlet(self, _: Session) -> Outlet:
        return self.inbox

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class AgentSeating:
    """What a room does with its agents."""

    room: RoomHandle
    take: Callable[[Seat, Session, Callable[[Session], Outlet]], None]
    """The session takes the seat."""
    joined: Callable[[Seat], Any]
    """The turn in which the room hears of the agent: `on_join`."""
    send: Callable[[Seat, Message], None]
    """The agent's next message."""
    ask: Callable[[Seat, Message, Answered], None]
    """The same, with an answer."""
    resync: Callable[[Seat], None]
    """Send the agent the current state: `on_resync`."""
    failed: Callable[[Exception, str, str], None]
    """The game's code raised an error, here, for this player."""


class RoomAgents:
    """The agents of one room, and their brains."""

    def __init__(
        self, room: Room[Any], context: RoomContext, services: RoomServices, turns: Turns, seating: AgentSeating
    ) -> None:
        self._room = room
        self._context = context
        self._services = services
        self._limits = services.context.limits
        self._clock = services.context.clock
        self._publish = services.context.publish
        self._turns = turns
        self._seating = seating
        self._lives: dict[Seat, _Life] = {}
        # They take their seats when the room is open.
        self._early: list[_Life] = []
        # By agent, when its next brain may start: of those whose last one has ended at once.
        self._restarts: dict[str, float] = {}
        self._turn_over = asyncio.Event()
        # Those of lost seats included, until they have ended.
        self._tasks: set[asyncio.Task[None]] = set()

    # Opening

    def open(self, name: str, brain: Brain, roles: frozenset[str], options: Any) -> Player[Any]:
        """Give an agent a seat: a new one, or the one that is held for it, with the options of before."""
        player_id, seats = agent_id(name), self._context.seats
        name = player_id.removeprefix(AGENT_PREFIX)
        if self._context.is_closing:
            raise NotFound("the room is closing")
        seat = seats.of(player_id)
        turn = self._context.transaction
        if seat is not None:
            is_free = seat.agent and seat.state is SeatState.HELD
            if not is_free or (turn is not None and not turn.mark(seat)):
                raise Duplicate(f"an agent {name!r} is in the room already")
            self._context.later(self._open_again, seat, brain, roles)
            return seat.player
        if seats.agents >= self._limits.agents_max:
            raise Throttled(f"this room has {seats.agents} agents; raise Limits.agents_max or open fewer")
        self._services.agents.check_space()
        if not seats.is_awaited(player_id):
            check_full(self._room, self._context, 1)
        options = checked_options(type(self._room), options, self._limits.options_bytes_max)
        seat = Seat(self._new_session(name, roles), self._new_data(), self._seating.room, agent=name)
        seat.options = options
        life = self._new_life(seat, brain)
        seat.was_reserved = seats.use(player_id)
        seats.add(seat)
        if turn is not None:
            turn.undo(self._take_back, life)
        self._context.later(self._begin, life)
        return seat.player

    def _begin(self, life: _Life) -> None:
        """The agent is on the server from now on."""
        if life.seat.state is SeatState.FREED:
            # The room ended while the turn that opened it went on.
            return
        self._add_session(life.seat.session)
        if self._context.listing.status is RoomStatus.CREATING:
            self._early.append(life)
        else:
            self._take_seat(life)

    def _take_back(self, life: _Life) -> None:
        """The turn that opened it is undone."""
        seat = life.seat
        self._lives.pop(seat, None)
        if seat.state is SeatState.RESERVED:
            seat.happened(SeatStep.FREED)
            self._context.seats.forget(seat)

    def opened(self) -> None:
        """The room is open: the agents that were opened while it was created take their seats."""
        early, self._early = self._early, []
        for life in early:
            self._take_seat(life)

    def _new_life(self, seat: Seat, brain: Brain) -> _Life:
        inbox = ResyncedInbox(self._limits.kept_messages_max, partial(self._resync, seat))
        life = self._lives[seat] = _Life(seat, brain, inbox)
        if self._room.transactional:
            inbox.room = self._context
        # The game may send to it from now on.
        seat.outlet = seat.session.inbox = inbox
        return life

    def _new_data(self) -> Any:
        return player_data_type(type(self._room))()

    def _new_session(self, name: str, roles: frozenset[str]) -> Session:
        context = self._services.context
        session = Session(
            SessionId(new_id(context.random.randbytes(SESSION_ID_BYTES))),
            agent_id(name),
            limits=self._limits,
            now=self._clock.now(),
            grace_s=self._room.grace_s,
            roles=roles,
            name=name,
        )
        session.signed_in_at = self._clock.wall_clock()
        return session

    def _add_session(self, session: Session) -> None:
        context = self._services.context
        self._services.lifecycle.add(session, by_player=False)
        context.counters.sessions += 1
        self._services.agents.connect(session, self._lost)

    def _lost(self, connection: Connection) -> None:
        """An operator or the game has disconnected an agent: its brain ends, and the room may open it again."""
        lifecycle = self._services.lifecycle
        session = lifecycle.registry.of_connection(connection.id)
        life = next((each for each in self._lives.values() if each.seat.session is session), None)
        if session is not None:
            # Nobody reads it any more; the next brain has its own.
            session.inbox = None
        lifecycle.lost(connection)
        # If the room has not done so already, in `on_drop`.
        if life is not None and self._lives.get(life.seat) is life:
            del self._lives[life.seat]
            life.cancel()

    def _take_seat(self, life: _Life) -> None:
        seat = life.seat
        if seat.session.state is not SessionState.CONNECTED:
            # It was kicked before the room was open, or its session was ended.
            self._seating.room.free(seat, Reason.KICKED, "")
            return
        self._seating.take(seat, seat.session, life.outlet)
        self._turns.follow(self._seating.joined, (seat,), self._joined, (life,))

    def _joined(self, error: Exception | None, _: Any, life: _Life) -> None:
        if error is None:
            self._start(life)
        elif not isinstance(error, RoomGone) and life.seat.state is not SeatState.FREED:
            message = str(error) if isinstance(error, Refused) else ""
            log.warning("an agent was not let in", room=self._room.id, player=life.seat.player_id, why=message)
            if not isinstance(error, Refused):
                self._seating.failed(error, "on_join", life.seat.player_id)
            self._seating.room.free(life.seat, Reason.JOIN_FAILED, message)

    def _open_again(self, seat: Seat, brain: Brain, roles: frozenset[str]) -> None:
        if seat.state is not SeatState.HELD:
            # Its grace, or the room, ended while the turn that opened it went on.
            return
        session = seat.session
        former = self._lives.pop(seat, None)
        if former is not None:
            former.cancel()
        life = self._new_life(seat, brain)
        self._services.lifecycle.prove(session, roles)
        self._services.agents.reconnect(session, self._lost, "resynced")
        self._seating.room.returned(seat, True)
        # After `on_resync` and `on_rejoin`, which wait for their turns.
        self._turns.take(self._start, (life,), None, (seat,))

    # The brain

    def _start(self, life: _Life) -> None:
        if self._lives.get(life.seat) is life:
            task = life.task = self._services.brains.start(self._live(life))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _live(self, life: _Life) -> None:
        seat = life.seat

        def send(message: Message) -> None:
            self._send(life, message)

        async def receive(kind: type[Message]) -> Message:
            return await self._receive(life, kind)

        async def until(holds: Callable[[], object]) -> None:
            await self._until(life, holds)

        async def ask(message: Message, timeout_s: float | None) -> Any:
            # A refusal may come at once: a brain that asks again and again must leave others their time.
            await asyncio.sleep(0)
            self._check_seat(life)
            wait_s = self._limits.ask_s if timeout_s is None else timeout_s
            return await life.inbox.answer(message.wire_name, partial(self._seating.ask, seat, message), wait_s)

        error: Exception | None = None
        if (may_start_at := self._restarts.pop(seat.agent, None)) is not None:
            await asyncio.sleep(may_start_at - self._clock.now())
        began_at = self._clock.now()
        try:
            await life.brain(RoomAgent(self._room, seat.player, send=send, receive=receive, ask=ask, until=until))
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = RuntimeError("the brain awaited something that was cancelled")
            error.__cause__ = cancelled
        except Exception as raised:  # noqa: BLE001 - the game's code; contained and logged
            error = raised
        if self._lives.get(seat) is life:
            # Forgotten first: it has ended, and is not to be cancelled.
            del self._lives[seat]
            self._ended(seat.agent, began_at)
            if error is None:
                self._seating.room.leave(seat)
            else:
                self._seating.room.free(seat, Reason.AGENT_FAILED, "the agent's code failed")
        if error is not None:
            self._seating.failed(error, f"the brain of agent {seat.agent!r}", seat.player_id)

    def _ended(self, name: str, began_at: float) -> None:
        now = self._clock.now()
        self._restarts = {each: at for each, at in self._restarts.items() if at > now}
        if now < began_at + _RESTART_S:
            self._restarts[name] = began_at + _RESTART_S

    def _send(self, life: _Life, message: Message) -> None:
        self._check_seat(life)
        self._seating.send(life.seat, message)

    async def _receive(self, life: _Life, kind: type[M]) -> M:
        while True:
            self._check_seat(life)
            message = await life.inbox.next()
            if isinstance(message, kind):
                return message

    async def _until(self, life: _Life, holds: Callable[[], object]) -> None:
        while True:
            # Also if it is true already, as in `ask`.
            await asyncio.sleep(0)
            self._check_seat(life)
            if holds():
                return
            self._turns.once_over = self._turn_is_over
            await self._turn_over.wait()

    def _turn_is_over(self) -> None:
        """Brains that wait for something look again."""
        self._turn_over.set()
        self._turn_over.clear()

    def _check_seat(self, life: _Life) -> None:
        if self._lives.get(life.seat) is not life or life.seat.state is SeatState.FREED:
            raise NotSeated("the agent no longer has this seat")

    def _resync(self, seat: Seat) -> None:
        """The agent reads again, after its inbox was full: send it the current state first."""
        self._services.context.counters.streams_overflowed += 1
        session = seat.session
        self._publish(SessionResynced(session=session.id, player=session.player_id, player_name=session.name))
        self._seating.resync(seat)

    # The end

    def left(self, seat: Seat, reason: Reason, message: str) -> None:
        """The agent has lost its seat: its brain is cancelled, and its session ends."""
        life = self._lives.pop(seat, None)
        if life is not None:
            life.cancel()
        if seat.session.state is SessionState.PRECONNECT:
            # The turn that opened it is not over.
            return
        ended = Reason.BYE if reason is Reason.LEFT else reason
        self._services.lifecycle.end_session(seat.session, ended, message)

    def stop(self) -> None:
        """The room is not run any more: cancel the brains, and end the sessions."""
        for life in list(self._lives.values()):
            self.left(life.seat, Reason.STOPPING, "")

    def ended(self) -> Coroutine[Any, Any, None] | None:
        """The wait until all brains, which were cancelled, have ended; None if they have."""
        return self._wait(list(self._tasks)) if self._tasks else None

    async def _wait(self, tasks: list[asyncio.Task[None]]) -> None:
        _, late = await asyncio.wait(tasks, timeout=self._limits.close_s / 2)
        if late:
            log.error("brains of agents do not end", room=self._room.id, kind=self._room.kind, brains=len(late))
