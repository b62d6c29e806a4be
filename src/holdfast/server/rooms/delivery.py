"""How players' messages become turns of a room, how refused ones are answered, and how streams begin anew."""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.core.asks import NO_ASK, answer_to, asked_message, no_answer, unanswerable
from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Failed, Invalid, NotAllowed, NotFound, NotSeated, Refused, Throttled
from holdfast.core.handlers import Handler, bounded
from holdfast.core.messages import ASK, Message, MessageRefused, RoomUpdated
from holdfast.core.outlet import Backlog, Outlet, Waiting
from holdfast.core.rates import Flood, Rates
from holdfast.core.room import Room, room_handlers
from holdfast.core.session import Seat, SeatState, Session
from holdfast.schemas.frames import Data, Latest, sentence
from holdfast.schemas.recording import CauseKind
from holdfast.server.agent_sessions import Answered
from holdfast.server.rooms.answering import answering, check_answer, check_native
from holdfast.server.rooms.entry import RoomEntry
from holdfast.server.rooms.recorder import Recorder
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import RoomGone, Turns

# Enum members are slow to look up, and this one is needed for every message.
_FREED = SeatState.FREED

_HANDLER_FAILED = "the game's handler failed"

# The result of a turn whose message has to wait until its player has read.
_STALLED = object()

Failure = Callable[[Exception, str, str], None]


class Delivery:
    """The way into one room."""

    def __init__(self, room: Room[Any], services: RoomServices, turns: Turns, failed: Failure) -> None:
        self._room = room
        self._handlers = bounded(room_handlers(type(room)), services.context.limits.nesting_max)
        self._limits = services.context.limits
        self._counters = services.context.counters
        self._trace = services.trace()
        self._turns = turns
        self._failed = failed
        self._now = services.context.clock.now
        self._is_transactional = room.transactional
        self.recorder: Recorder | None = None
        """None in a room that is not recorded."""
        # Of the current turn, if its message had waited.
        self._done: Callable[..., None] = self._applied
        self._done_args: tuple[Any, ...] = ()

    def deliver(self, seat: Seat, frame: Data, answered: Callable[..., None] | None = None) -> None:
        """A player's next message: run its handler now, or when it is its turn."""
        handler = self._handlers.get(frame.type)
        codec = seat.session.codec
        run: Callable[..., Any]
        args: tuple[Any, ...]
        if handler is None or codec is None:
            is_ask = frame.type == ASK and answered is None
            if is_ask and (asked := asked_message(frame, codec)) is not None:
                self.deliver(seat, asked, self._answered)
                return
            run, args = _refuse, (NO_ASK if is_ask else self._unknown(frame.type),)
        elif handler.role and handler.role not in seat.session.roles:
            run, args = _refuse, (_role_missing(handler),)
        else:
            try:
                run, args = handler.method, (self._room, seat.member, handler.decoders[codec].decode(frame.body))
                if handler.role:
                    # Not by a call for every message: most handlers require none.
                    run, args = _allowed, (handler, seat.session, *args)
            except Exception as error:  # noqa: BLE001 - its number is used up: any error has to be answered
                # Other errors are raised by the game's own check of it.
                run, args = _refuse, (Invalid(str(error)) if isinstance(error, DECODE_ERRORS) else error,)
        done: Callable[..., None] = answered or self._applied
        if answered is not None and self._is_transactional:
            # Within the turn, which fails and is undone if the answer cannot be sent.
            run, args = answering, (partial(check_answer, seat.outlet, frame.seq, frame.type), run, args)
        if self.recorder is not None:
            kind: CauseKind = "message" if answered is None else "ask"
            run = self.recorder.of_message(run, kind, seat, frame.type, frame.body, codec)
        if self._trace is not None:
            run, done = self._trace(self._room, seat.member, frame, run=run, done=done)
        outlet = seat.outlet
        if self._turns.is_busy or outlet.backlog is not None or outlet.is_full:
            size = len(frame.body)
            outlet.waiting_bytes += size
            self._wait(seat, (run, args, done, (seat, outlet, frame.seq, frame.type, size)))
        else:
            self._turns.take(run, args, done, (seat, outlet, frame.seq, frame.type, 0))

    def refuse(self, seat: Seat, frame: Data) -> None:
        """A message beyond the rate limit: it is not handled, but answered in its place in the order."""
        args = (Throttled("too many messages at once: send fewer, or raise Limits.messages_per_s"),)
        asked = asked_message(frame, seat.session.codec) if frame.type == ASK else None
        done_args = (seat, seat.outlet, frame.seq, (asked or frame).type, 0)
        run: Callable[..., Any] = _refuse
        if self.recorder is not None:
            run = self.recorder.of_message(run, "message", seat, frame.type, frame.body, seat.session.codec)
        if seat.outlet.backlog is not None:
            self._wait(seat, (run, args, self._applied, done_args))
        else:
            self._turns.take(run, args, self._applied, done_args)

    # Messages that wait for the room, or until their player has read

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
        """Queue a turn for the seat's oldest message at that time, so that none are out of order."""
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
        if isinstance(error, RoomGone) and not error.was_begun:
            # Its message was never handled; an earlier one may have been.
            if outlet.backlog is not None:
                _, _, done, done_args = _popped(outlet, outlet.backlog)
                done(error, None, *done_args)
            return
        self._done(error, result, *self._done_args)

    def has_read(self, seat: Seat) -> None:
        """The player has acknowledged something: stalled messages have their turn, until there is too much to read."""
        outlet = seat.outlet
        backlog = outlet.backlog
        if backlog is None:
            return
        backlog.stalled_at = self._now()
        while backlog.stalled and not outlet.is_full:
            backlog.stalled -= 1
            self._queue(seat, outlet)

    def let_finish(self, seat: Seat) -> None:
        """The player is leaving: earlier messages have their turn, even if the player does not read any more."""
        backlog = seat.outlet.backlog
        if backlog is None:
            return
        backlog.is_leaving = True
        while backlog.stalled:
            backlog.stalled -= 1
            self._queue(seat, seat.outlet)

    def deliver_latest(self, seat: Seat, frame: Latest) -> None:
        """An unreliable message: dropped if it does not fit or would pile up; refusals are not answered."""
        handler = self._handlers.get(frame.type)
        codec, outlet = seat.session.codec, seat.outlet
        if handler is None or codec is None:
            return
        if handler.role and handler.role not in seat.session.roles:
            self._counters.messages_refused += 1
            return
        limits = self._limits
        if len(self._turns) >= limits.turns_waiting_max or outlet.latest_waiting_bytes >= limits.window_bytes_max:
            return
        try:
            message = handler.decoders[codec].decode(frame.body)
        except DECODE_ERRORS:
            self._counters.messages_refused += 1
            return
        except Exception as error:  # noqa: BLE001 - the game's own check of it may raise anything
            self._latest_ended(error, None, seat, outlet, frame.type, 0)
            return
        size = 0
        if self._turns.is_busy:
            size = len(frame.body) + MESSAGE_OVERHEAD_BYTES
            outlet.latest_waiting_bytes += size
        run, args = self._call_of(handler, seat, message)
        if self.recorder is not None:
            run = self.recorder.of_message(run, "latest", seat, frame.type, frame.body, codec)
        self._turns.take(run, args, self._latest_ended, (seat, outlet, frame.type, size))

    def ask_native(self, seat: Seat, message: Message, answered: Answered) -> None:
        """The same for an agent that waits for the answer."""
        self.deliver_native(seat, message, partial(self._answered_native, answered))

    def deliver_native(self, seat: Seat, message: Message, done: Callable[..., None] | None = None) -> None:
        """An agent's message: an object, never encoded."""
        handler = self._handlers.get(message.wire_name)
        if handler is None:
            raise self._unknown(message.wire_name)
        if handler.role and handler.role not in seat.session.roles:
            raise _role_missing(handler)
        if not isinstance(message, handler.message_type):
            raise Invalid(
                f"the handler of {message.wire_name!r} takes {handler.message_type.__qualname__}: send that class"
            )
        if len(self._turns) >= self._limits.turns_waiting_max:
            raise Throttled("too many turns of the room are waiting: send it again later")
        if seat.session.rates is not None and not self._may_send(seat.session, seat.session.rates):
            raise Throttled("this agent sends too many messages at once: raise the messages_per_s of its role")
        run, args = self._call_of(handler, seat, message)
        if done is not None and self._is_transactional:
            run, args = answering, (partial(check_native, message.wire_name), run, args)
        if self.recorder is not None:
            kind: CauseKind = "message" if done is None else "ask"
            run = self.recorder.of_message(run, kind, seat, message.wire_name, message, None)
        self._turns.take(run, args, done or self._applied, (seat, seat.outlet, 0, message.wire_name, 0))

    def _call_of(self, handler: Handler, seat: Seat, message: Message) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What to run for a message, and with what."""
        args = (self._room, seat.member, message)
        return (_allowed, (handler, seat.session, *args)) if handler.role else (handler.method, args)

    def _may_send(self, session: Session, rates: Rates) -> bool:
        """Whether an agent with special limits may send a message now: agents have no others."""
        special = rates.special
        if special is None or (special.messages_per_s is None and special.messages_burst is None):
            return True
        if session.flood is None:
            session.flood = Flood(rates)
        return session.flood.messages.take(self._now())

    def _unknown(self, name: str) -> Refused:
        return NotFound(f"rooms of the kind {self._room.kind!r} have no handler for {name!r}")

    def _applied(
        self, error: Exception | None, _: Any, seat: Seat, outlet: Outlet, seq: int, name: str, size: int
    ) -> None:
        if size:
            outlet.waiting_bytes -= size
        if error is not None:
            self._refused(error, seat, outlet, seq, name)
        if seat.state is _FREED:
            # Kicked by its own message, or the room ended: the stream's last message says so.
            return
        self._counters.messages_applied += 1
        # Not `seat.outlet`: another session may have taken the seat over while the message waited.
        outlet.applied(seq)

    def _answered(
        self, error: Exception | None, result: Any, seat: Seat, outlet: Outlet, seq: int, name: str, size: int
    ) -> None:
        """The turn of an ask is over: its result is the answer."""
        if error is None and seat.state is not _FREED:
            try:
                outlet.send(answer_to(seq, name, result))
            except Exception as failure:  # noqa: BLE001 - an answer that cannot be sent is the game's failure
                error = unanswerable(name, failure)
        self._applied(error, None, seat, outlet, seq, name, size)

    def _answered_native(
        self, answered: Answered, error: Exception | None, result: Any, seat: Seat, _: Outlet, *message: Any
    ) -> None:
        _, name, _ = message
        if error is None and result is not None and not isinstance(result, Message):
            error = no_answer(name, result)
        if error is None:
            self._counters.messages_applied += 1
            # As for a client: kicked by its own message, or the room ended.
            gone = NotSeated("the agent lost its seat before the answer came") if seat.state is _FREED else None
            answered(result, gone)
            return
        self._counters.messages_refused += 1
        if not isinstance(error, Refused):
            self._failed(error, f"the handler of {name!r}", seat.player_id)
            error = Failed(_HANDLER_FAILED)
        answered(None, error)

    def _refused(self, error: Exception, seat: Seat, outlet: Outlet, seq: int, name: str) -> None:
        self._counters.messages_refused += 1
        if isinstance(error, Refused):
            refused = MessageRefused(seq, name, error.code, sentence(str(error)))
        else:
            self._failed(error, f"the handler of {name!r}", seat.player_id)
            refused = MessageRefused(seq, name, Failed.code, _HANDLER_FAILED)
        if seat.state is not _FREED:
            outlet.send(refused)

    def _latest_ended(self, error: Exception | None, _: Any, seat: Seat, outlet: Outlet, name: str, size: int) -> None:
        outlet.latest_waiting_bytes -= size
        if isinstance(error, Refused):
            self._counters.messages_refused += 1
        elif error is not None:
            self._failed(error, f"the handler of {name!r}", seat.player_id)


def _role_missing(handler: Handler) -> NotAllowed:
    return NotAllowed(f"{handler.message_type.wire_name!r} requires the role {handler.role!r}")


def _allowed(handler: Handler, session: Session, *args: Any) -> Any:
    """The turn of a message that requires a role, which may have been revoked while it waited."""
    if handler.role not in session.roles:
        raise _role_missing(handler)
    return handler.method(*args)


def _refuse(error: Exception) -> None:
    """The turn of a message that is not handled: its answer has its place in the order."""
    raise error


def _popped(outlet: Outlet, backlog: Backlog) -> Waiting:
    message = backlog.messages.popleft()
    if not backlog.messages:
        outlet.backlog = None
    return message


class SpectatorDelivery(Delivery):
    """The way into one room for its spectators: only messages that are marked for them."""

    def __init__(self, room: Room[Any], services: RoomServices, turns: Turns, failed: Failure) -> None:
        super().__init__(room, services, turns, failed)
        self._for_players = self._handlers
        self._handlers = {name: handler for name, handler in self._handlers.items() if handler.spectators}

    def _unknown(self, name: str) -> Refused:
        if name in self._for_players:
            return NotAllowed(f"{name!r} is for players: spectators may not send it")
        return super()._unknown(name)


class Resyncs:
    """Runs `on_resync` for returning players and spectators of one room for whom messages could not be kept.

    Their stream is mute until then, so the state arrives first.
    """

    def __init__(self, room: Room[Any], turns: Turns, failed: Failure, entry: RoomEntry) -> None:
        self._room = room
        self._turns = turns
        self._entry = entry
        self._failed = failed
        self.waiting: dict[Seat, int] = {}
        """The seats whose stream begins anew and that were not sent the state yet, with their turns of `on_resync`."""

    def begin(self, seat: Seat) -> None:
        self.waiting[seat] = self.waiting.get(seat, 0) + 1
        # Nothing is kept until the state is sent: it has all that was said before.
        seat.outlet.mute()
        self._turns.take(self._resync, (seat,), self._resynced, (seat,))

    def end(self, seat: Seat) -> None:
        """The seat is gone, and the game speaks to it for the last time: no state follows."""
        self.unmute(seat)
        self.waiting.pop(seat, None)

    def unmute(self, seat: Seat) -> None:
        """Write to the player again."""
        if seat in self.waiting:
            seat.outlet.unmute()

    def _resync(self, seat: Seat) -> Any:
        if self.waiting.get(seat, 0) > 1:
            # Their stream began anew once more, and is mute until the turn that belongs to that.
            return None
        self.unmute(seat)
        return self._room.on_resync(seat.member)

    def _resynced(self, error: Exception | None, _: Any, seat: Seat) -> None:
        if isinstance(error, RoomGone):
            # Mute until its `end`.
            return
        if error is not None:
            self._failed(error, "on_resync", seat.player_id)
        # An update of the room itself may be among the messages that were not kept.
        seat.outlet.send(RoomUpdated(self._entry.info(sees_code=seat.purpose == "seat")))
        left = self.waiting.get(seat, 0) - 1
        if left > 0:
            self.waiting[seat] = left
        else:
            self.waiting.pop(seat, None)
