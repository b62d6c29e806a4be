"""How players' messages become turns of a room, and what is answered when one is refused."""

from collections.abc import Callable
from typing import Any

from holdfast.core.channel import MESSAGE_OVERHEAD_BYTES
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Failed, Invalid, NotAllowed, NotFound, Refused, Throttled
from holdfast.core.handlers import Handler, bounded
from holdfast.core.messages import Message, MessageRefused
from holdfast.core.outlet import Backlog, Outlet, Waiting
from holdfast.core.room import Room, room_handlers
from holdfast.core.session import Seat, SeatState
from holdfast.schemas.frames import Data, Latest, sentence
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import RoomGone, Turns

# Enum members are slow to look up, and this one is needed for every message.
_FREED = SeatState.FREED

# What the turn of a message comes to that has to wait for its seat.
_STALLED = object()

Failure = Callable[[Exception, str, str], None]


class Delivery:
    """The way into one room."""

    def __init__(self, room: Room[Any], services: RoomServices, turns: Turns, failed: Failure) -> None:
        self._room = room
        handlers = bounded(room_handlers(type(room)), services.context.limits.nesting_max)
        self._restricted = {name: handler for name, handler in handlers.items() if handler.role}
        # What everybody may send is looked up first, so that roles cost nothing there.
        self._handlers = handlers
        if self._restricted:
            self._handlers = {name: handler for name, handler in handlers.items() if not handler.role}
        self._limits = services.context.limits
        self._counters = services.context.counters
        self._trace = services.trace()
        self._turns = turns
        self._failed = failed
        self._now = services.context.clock.now
        # Of the turn that is being taken, if its message had waited.
        self._done: Callable[..., None] = self._applied
        self._done_args: tuple[Any, ...] = ()

    def deliver(self, seat: Seat, frame: Data) -> None:
        """A player's next message: run its handler now, or when it is its turn."""
        handler = self._handlers.get(frame.type)
        codec = seat.session.codec
        run: Callable[..., Any]
        args: tuple[Any, ...]
        if handler is None or codec is None:
            run, args = self._not_for_everybody(seat, frame)
        else:
            try:
                run, args = handler.method, (self._room, seat.player, handler.decoders[codec].decode(frame.body))
            except Exception as error:  # noqa: BLE001 - its number is used up: whatever is wrong with it has to be said
                run, args = self._unreadable, (error,)
        done: Callable[..., None] = self._applied
        if self._trace is not None:
            run, done = self._trace(self._room, seat.player, frame, run=run, done=done)
        outlet = seat.outlet
        if self._turns.is_busy or outlet.backlog is not None or outlet.is_full:
            size = len(frame.body)
            outlet.waiting_bytes += size
            self._wait(seat, (run, args, done, (seat, outlet, frame.seq, frame.type, size)))
        else:
            self._turns.take(run, args, done, (seat, outlet, frame.seq, frame.type, 0))

    def _not_for_everybody(self, seat: Seat, frame: Data) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        handler = self._restricted.get(frame.type)
        codec = seat.session.codec
        if handler is None or codec is None:
            return self._refuse_unknown, (frame.type,)
        if handler.role not in seat.session.roles:
            return self._refuse_role, (handler,)
        try:
            return handler.method, (self._room, seat.player, handler.decoders[codec].decode(frame.body))
        except Exception as error:  # noqa: BLE001 - as above
            return self._unreadable, (error,)

    def refuse(self, seat: Seat, frame: Data) -> None:
        """A player's next message, of which there are too many: not carried out, but it has its place in the order."""
        done_args = (seat, seat.outlet, frame.seq, frame.type, 0)
        if seat.outlet.backlog is not None:
            self._wait(seat, (self._refuse_throttled, (), self._applied, done_args))
        else:
            self._turns.take(self._refuse_throttled, (), self._applied, done_args)

    # What has to wait: for the room, or until its player has read what is there for them

    def _wait(self, seat: Seat, message: Waiting) -> None:
        outlet = seat.outlet
        backlog = outlet.backlog
        if backlog is None:
            backlog = outlet.backlog = Backlog()
        backlog.messages.append(message)
        if self._turns.is_busy and not backlog.stalled:
            self._queue(seat, outlet)
        else:
            backlog.stall(self._now())

    def _queue(self, seat: Seat, outlet: Outlet) -> None:
        """A turn for the next message of a seat, whichever that is by then: they are never out of order."""
        self._turns.take(self._next, (outlet,), self._next_ended, (seat, outlet))

    def _next(self, outlet: Outlet) -> Any:
        backlog = outlet.backlog
        assert backlog is not None
        if outlet.is_full and not backlog.is_leaving:
            backlog.stall(self._now())
            return _STALLED
        run, args, self._done, self._done_args = _popped(outlet, backlog)
        return run(*args)

    def _next_ended(self, error: Exception | None, result: Any, _seat: Seat, outlet: Outlet) -> None:
        if result is _STALLED:
            return
        if isinstance(error, RoomGone):
            # It was never begun; another one may have been.
            if outlet.backlog is not None:
                _, _, done, done_args = _popped(outlet, outlet.backlog)
                done(error, None, *done_args)
            return
        self._done(error, result, *self._done_args)

    def has_read(self, seat: Seat) -> None:
        """Messages of a player that stalled have their turn, as long as there is not too much to read again."""
        outlet = seat.outlet
        backlog = outlet.backlog
        if backlog is None:
            return
        backlog.stalled_at = self._now()
        while backlog.stalled and not outlet.is_full:
            backlog.stalled -= 1
            self._queue(seat, outlet)

    def let_finish(self, seat: Seat) -> None:
        """The player gives the seat back: what they said before has its turn, also if they do not read any more."""
        backlog = seat.outlet.backlog
        if backlog is None:
            return
        backlog.is_leaving = True
        while backlog.stalled:
            backlog.stalled -= 1
            self._queue(seat, seat.outlet)

    def deliver_latest(self, seat: Seat, frame: Latest) -> None:
        """An unreliable message: dropped if it does not fit or would pile up; what the game refuses is not answered."""
        handler = self._handlers.get(frame.type)
        codec = seat.session.codec
        if handler is None and frame.type in self._restricted:
            handler = self._restricted[frame.type]
            if handler.role not in seat.session.roles:
                self._counters.messages_refused += 1
                return
        if handler is None or codec is None or self._is_crowded(seat):
            return
        try:
            message = handler.decoders[codec].decode(frame.body)
        except Exception as error:  # noqa: BLE001 - the game's own check of it may raise anything
            self._latest_unreadable(error, seat, frame.type)
            return
        size = 0
        if self._turns.is_busy:
            size = len(frame.body) + MESSAGE_OVERHEAD_BYTES
            seat.outlet.latest_waiting_bytes += size
        self._turns.take(
            handler.method,
            (self._room, seat.player, message),
            self._latest_ended,
            (seat, seat.outlet, frame.type, size),
        )

    def _is_crowded(self, seat: Seat) -> bool:
        return (
            len(self._turns) >= self._limits.turns_waiting_max
            or seat.outlet.latest_waiting_bytes >= self._limits.window_bytes_max
        )

    def deliver_native(self, seat: Seat, message: Message) -> None:
        """An agent's message: an object, never encoded."""
        handler = room_handlers(type(self._room)).get(message.wire_name)
        if handler is None:
            raise NotFound(f"a {self._room.kind} has no handler for {message.wire_name!r}")
        if handler.role and handler.role not in seat.session.roles:
            self._refuse_role(handler)
        if not isinstance(message, handler.message_type):
            raise Invalid(f"{message.wire_name!r} is handled as {handler.message_type.__qualname__}")
        if len(self._turns) >= self._limits.turns_waiting_max:
            raise Throttled("the room has too many turns waiting")
        args = (self._room, seat.player, message)
        self._turns.take(handler.method, args, self._applied, (seat, seat.outlet, 0, message.wire_name, 0))

    def _refuse_unknown(self, name: str) -> None:
        raise NotFound(f"a {self._room.kind} has no handler for {name!r}")

    def _refuse_throttled(self) -> None:
        raise Throttled("too many messages at once: send fewer, or raise Limits.messages_per_s")

    def _refuse_role(self, handler: Handler) -> None:
        raise NotAllowed(f"{handler.message_type.wire_name!r} requires the role {handler.role!r}")

    def _unreadable(self, error: Exception) -> None:
        if isinstance(error, DECODE_ERRORS):
            raise Invalid(str(error)) from None
        # Raised by the game's own check of it.
        raise error

    def _applied(
        self,
        error: Exception | None,
        _: Any,
        seat: Seat,
        outlet: Outlet,
        seq: int,
        name: str,
        size: int,
    ) -> None:
        if size:
            outlet.waiting_bytes -= size
        if error is not None:
            self._refused(error, seat, outlet, seq, name)
        if seat.state is _FREED:
            # Kicked by its own message, or the room ended: the stream's last message tells.
            return
        self._counters.messages_applied += 1
        # Not the player's outlet of now: another session may have taken the seat over while this one's message waited.
        outlet.applied(seq)

    def _refused(self, error: Exception, seat: Seat, outlet: Outlet, seq: int, name: str) -> None:
        self._counters.messages_refused += 1
        if isinstance(error, Refused):
            refused = MessageRefused(seq, name, error.code, sentence(str(error)))
        else:
            self._failed(error, f"the handler of {name!r}", seat.player_id)
            refused = MessageRefused(seq, name, Failed.code, "the game's handler failed")
        if seat.state is not _FREED:
            outlet.send(refused)

    def _latest_ended(self, error: Exception | None, _: Any, seat: Seat, outlet: Outlet, name: str, size: int) -> None:
        outlet.latest_waiting_bytes -= size
        if isinstance(error, Refused):
            self._counters.messages_refused += 1
        elif error is not None:
            self._failed(error, f"the handler of {name!r}", seat.player_id)

    def _latest_unreadable(self, error: Exception, seat: Seat, name: str) -> None:
        if isinstance(error, DECODE_ERRORS):
            self._counters.messages_refused += 1
        else:
            self._failed(error, f"the handler of {name!r}", seat.player_id)


def _popped(outlet: Outlet, backlog: Backlog) -> Waiting:
    message = backlog.messages.popleft()
    if not backlog.messages:
        outlet.backlog = None
    return message
