"""Messages to sessions, with or without a seat: to one of them, or to everybody on the node.

`Session.send` → `SessionMessages.send` → in a turn of a commit room: `RoomWriter.send`, until that turn is saved
→ `SessionOutlet`, until the session's record is saved if it is durable → its own channel → the connection
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice

from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.errors import NotFound, Throttled
from holdfast.core.messages import Announcement, Message, SeatLeft, check_message
from holdfast.core.reasons import Reason
from holdfast.core.recipients import is_wanted
from holdfast.core.session import Session, SessionState
from holdfast.core.transaction import current_transaction, when_it_succeeds
from holdfast.schemas.events import BroadcastSent
from holdfast.schemas.frames import FRAME_HEAD_BYTES, SeatFrame
from holdfast.server.context import Context
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import Messages, RoomWriter, SavedSend
from holdfast.server.rooms.outlet import OutletOptions, too_large
from holdfast.server.sessions import SessionLifecycle

# Sessions per iteration of the event loop: to tell so many, and to write to them, takes a few milliseconds.
_PORTION = 128
# For these reasons a session is gone from this server and has not ended: another one has it, or will.
_LIVES_ON = frozenset({Reason.MOVED, Reason.STOPPING, Reason.EXPIRED})


class SessionOutlet(GatedOutlet):
    """The outlet of a session's own channel. The client hears of the channel when the first message may leave."""

    __slots__ = ("_epoch", "_is_announced", "_is_cut")

    def __init__(
        self,
        session: Session,
        channel: Channel,
        options: OutletOptions,
        staged: Callable[[GatedOutlet], None],
        *,
        is_new: bool,
    ) -> None:
        super().__init__(session, channel, options, staged)
        self._epoch = session.epoch
        self._is_announced = not is_new
        self._is_cut = False

    @property
    def session(self) -> Session:
        return self._session

    def cut(self) -> None:
        super().cut()
        self._is_cut = True

    def release(self) -> None:
        # Not if the commit began before the channel was opened.
        if self._is_cut and not self._is_announced:
            if self._session.state is SessionState.ENDED:
                # The client can be told of no channel, so it must not be sent messages on it.
                return
            self._announce()
        super().release()

    def _announce(self) -> None:
        self._is_announced = True
        session, channel = self._session, self.channel
        # To a later connection, the welcome has said it.
        if session.connection is not None and session.epoch == self._epoch and session.hears:
            session.connection.send(SeatFrame("joined", channel.number, channel.generation, "", "", channel.purpose))


class _Broadcast:
    """A message on its way to many sessions, encoded once per codec."""

    __slots__ = ("_bodies", "_message", "_rest")

    def __init__(self, message: Message, bodies: Mapping[Codec, bytes], sessions: list[Session]) -> None:
        self._message = message
        self._bodies = bodies
        self._rest = iter(sessions)

    def next_portion(self, push: Callable[[Session, str, bytes], None], most: int | None) -> bool:
        """Send it to some of them; False if these were the last."""
        portion = list(islice(self._rest, most))
        for session in portion:
            # It may have ended, or have a client without ears, by now.
            if session.state is SessionState.ENDED or not session.hears:
                continue
            if session.codec is not None:
                push(session, self._message.wire_name, self._bodies[session.codec])
            elif session.inbox is not None:
                session.inbox.send(self._message)
        return most is not None and len(portion) == most


class SessionMessages:
    """Sends to the sessions of one server."""

    def __init__(
        self,
        context: Context,
        lifecycle: SessionLifecycle,
        committer: Committer | None,
        kinds: Callable[[], Collection[str]],
    ) -> None:
        """`kinds` returns the kinds of rooms of this server."""
        self._loop = context.clock.loop
        self._publish = context.publish
        self._broadcasts_max = context.limits.broadcasts_max
        self._sessions = lifecycle.registry
        self._committer = committer
        self._kinds = kinds
        self._options = OutletOptions(context.limits.payload_bytes_max - FRAME_HEAD_BYTES, lifecycle.overflowed)
        # One bound method for all outlets.
        self._when_staged = self._staged
        self._broadcasts: deque[_Broadcast] = deque()
        self._unsaved_broadcasts = 0
        """Sent in turns that are not saved yet."""
        self.divert: Callable[[Session, str, bytes], bool] | None = None
        """In a cluster: keeps messages to a session that another node is about to have."""

    def send(self, session: Session, message: Message) -> bool:
        """Whether the message will arrive, unless the session ends first."""
        if session.state is SessionState.ENDED or not session.hears:
            return False
        if session.codec is None:
            assert session.inbox is not None
            when_it_succeeds(session.inbox.send, message)
            return True
        body = self._body(session.codec, message)
        room = self._current_room()
        if room is not None:
            room.send(session, message.wire_name, body)
            if (turn := current_transaction()) is not None:
                turn.undo(room.unsend, session)
        else:
            when_it_succeeds(self.push, session, message.wire_name, body)
        return True

    def hand_over(self, session: Session, messages: Messages, saved: SavedSend | None) -> None:
        """Send what a room has sent in a turn, which is saved; `saved` is where the messages are in the store."""
        if session.state is not SessionState.ENDED:
            for name, body in messages:
                self.push(session, name, body)
        elif session.end_reason in _LIVES_ON:
            return
        if saved is not None and self._committer is not None:
            self._committer.consumed(session, saved)

    def ended(self, session: Session) -> None:
        """The session is gone: its agent, if it is one's, need not wait for messages."""
        if session.codec is None and session.inbox is not None:
            session.inbox.finish(SeatLeft(session.end_reason or Reason.BYE))

    # Everybody

    def broadcast(
        self,
        message: Message,
        *,
        where: Callable[[Session], bool] | None = None,
        role: str = "",
        kind: str = "",
        by: str = "",
    ) -> int:
        """Send a message to all sessions for which everything given is true; returns how many there are. `by` names who
        did it, for the event."""
        check_message(message)
        if kind and kind not in self._kinds():
            known = ", ".join(sorted(self._kinds())) or "none"
            raise NotFound(f"unknown kind of room {kind!r}; this server has: {known}")
        if len(self._broadcasts) + self._unsaved_broadcasts >= self._broadcasts_max:
            raise Throttled(f"{self._broadcasts_max} broadcasts are under way; try again when one of them is done")
        sessions = [
            session
            for session in self._sessions
            if session.hears
            and (not role or role in session.roles)
            and (not kind or _is_in(session, kind))
            and (where is None or is_wanted(where, session))
        ]
        codecs = {session.codec for session in sessions}
        bodies = {codec: self._body(codec, message) for codec in codecs if codec is not None}
        text = message.text if isinstance(message, Announcement) else ""
        when_it_succeeds(
            self._publish,
            BroadcastSent(message=message.wire_name, text=text, sessions=len(sessions), role=role, kind=kind, by=by),
        )
        turn, room = current_transaction(), self._current_room()
        if turn is None:
            self._begin(_Broadcast(message, bodies, sessions), room)
        else:
            turn.hold(self._begin, _Broadcast(message, bodies, sessions), room)
        return len(sessions)

    def _begin(self, broadcast: _Broadcast, room: RoomWriter | None) -> None:
        """Now, or once the turn of this room that sends it is saved."""
        if room is None:
            self._start(broadcast)
            return
        assert self._committer is not None

        def saved(done: asyncio.Future[None]) -> None:
            self._unsaved_broadcasts -= 1
            if not done.cancelled() and done.exception() is None:
                self._start(broadcast)

        self._unsaved_broadcasts += 1
        self._committer.saved(room).add_done_callback(saved)

    def _start(self, broadcast: _Broadcast) -> None:
        self._broadcasts.append(broadcast)
        if len(self._broadcasts) == 1:
            self._continue()

    def _continue(self) -> None:
        if self._broadcasts and not self._broadcasts[0].next_portion(self.push, _PORTION):
            self._broadcasts.popleft()
        if self._broadcasts:
            self._loop.call_soon(self._continue)

    def stop(self) -> None:
        """Send what is under way to the rest at once."""
        while self._broadcasts:
            self._broadcasts.popleft().next_portion(self.push, None)

    # The way to one session

    def _current_room(self) -> RoomWriter | None:
        return self._committer.current_turn.room if self._committer is not None else None

    def _body(self, codec: Codec, message: Message) -> bytes:
        body = codec.encode(message)
        if len(body) > self._options.body_bytes_max:
            raise too_large(message.wire_name, body, self._options.body_bytes_max)
        return body

    def push(self, session: Session, name: str, body: bytes) -> None:
        """Send an encoded message."""
        if self.divert is not None and self.divert(session, name, body):
            return
        outlet = session.inbox
        if outlet is None:
            is_new = session.own_channel is None
            channel = session.open_own_channel()
            outlet = session.inbox = SessionOutlet(session, channel, self._options, self._when_staged, is_new=is_new)
        assert isinstance(outlet, SessionOutlet)
        outlet.push(name, body)

    def _staged(self, outlet: GatedOutlet) -> None:
        assert isinstance(outlet, SessionOutlet)
        durable = self._committer.sessions if self._committer is not None else None
        if durable is not None and outlet.session in durable:
            outlet.is_waiting = True
            durable.changed(outlet.session)
        else:
            outlet.cut()
            outlet.release()


def _is_in(session: Session, kind: str) -> bool:
    """Whether the session plays in a room of this kind, or watches one."""
    return any(seat is not None and seat.room.kind == kind for seat in (session.seat, session.place))
