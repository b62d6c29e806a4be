"""Durable sessions: what the store has of each, which changes it does not have yet, and what must wait for it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.core.channel import Channel
from holdfast.core.connection import Connection
from holdfast.core.errors import NotFound, Refused
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.records import channel_record, encode, session_key, session_record
from holdfast.core.session import Session
from holdfast.schemas.frames import Purpose
from holdfast.schemas.session import ChannelRecord
from holdfast.server.context import Clock
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter, SavedSend, settle
from holdfast.server.sessions import SessionLifecycle
from holdfast.stores.port import ABSENT, Write

# Reasons that do not depend on a room's turn: the connection closes whatever is saved.
_NOT_WELCOME = frozenset({Reason.BANNED, Reason.SIGNED_OUT, Reason.TOKEN_REUSED})


class SessionWriter:
    """Turns one session into a record, and knows what the store has of it."""

    __slots__ = (
        "_closing",
        "_consuming",
        "_leaving",
        "consumed",
        "held",
        "home",
        "is_ended",
        "is_gone",
        "moved",
        "revision",
        "session",
        "watched",
        "when_ended",
    )

    def __init__(self, session: Session, revision: int) -> None:
        self.session = session
        self.revision = revision
        self.home: RoomWriter | None = None
        """The durable room in which it has its seat, or which it has just left."""
        self.watched: RoomWriter | None = None
        """The durable room that it watches, or watched until a moment ago."""
        self.moved: tuple[RoomWriter, ...] = ()
        """It took or left a seat or place in these rooms: they and the session must be saved in one batch."""
        self.is_ended = False
        self.is_gone = False
        """The delete of its record is in a commit, or was."""
        self.held: Connection | None = None
        """The connection that is not written to before the next commit."""
        self._leaving: Connection | None = None
        self.when_ended: tuple[Callable[[Refused | None], None], ...] = ()
        """Called once the end of the session is saved, or with the reason why it never will be."""
        self._closing: tuple[tuple[Channel, Outlet], ...] = ()
        """The channels of former seats whose last messages are not acknowledged."""
        self.consumed: tuple[SavedSend, ...] = ()
        """Messages to the session that the next record has: they are deleted where they were until then."""
        self._consuming: tuple[SavedSend, ...] = ()
        """Those of the present commit."""

    def cut(self) -> list[Write]:
        key = session_key(self.session.id)
        # A seat that the room has not heard of is not in the room's record, and must not be in the session's either.
        self.moved = self._joining()
        if self.is_ended or not self.moved:
            self._leaving, self.held = self.held, None
        self.is_gone = self.is_ended
        session = self.session
        self._consuming, self.consumed = self.consumed, ()
        consumed = [Write(send.key, None, send.revision) for send in self._consuming]
        inbox = self._cut_inbox()
        if self.is_ended:
            return [*([Write(key, None, self.revision)] if self.revision != ABSENT else []), *consumed]
        self._closing = tuple(each for each in self._closing if each[0] in session.closing)
        room_id = _room_id(self.home, session, "seat")
        spectating = _room_id(self.watched, session, "spectator")
        if session.seat is None:
            self.home = None
        if session.place is None:
            self.watched = None
        closing = [record for channel in session.closing if (record := self._cut_closing(channel)) is not None]
        saved = session_record(session, room_id, closing, inbox, spectating=spectating)
        return [Write(key, encode(saved), self.revision), *consumed]

    def _cut_closing(self, channel: Channel) -> ChannelRecord | None:
        outlet = next((outlet for each, outlet in self._closing if each is channel), None)
        if outlet is not None:
            return outlet.record()
        # What a memory room still says on it does not wait for a commit: the record is right once all is said. A client
        # that returns before that hears that the channel is gone.
        return channel_record(channel) if channel.is_finished else None

    def _cut_inbox(self) -> ChannelRecord | None:
        session = self.session
        if isinstance(session.inbox, GatedOutlet):
            session.inbox.cut()
            return session.inbox.record()
        return channel_record(session.own_channel) if session.own_channel is not None else None

    def _joining(self) -> tuple[RoomWriter, ...]:
        """The rooms that have not heard of its seat or place: that is not saved yet, and the client must wait."""
        session, home, watched = self.session, self.home, self.watched
        joining: tuple[RoomWriter, ...] = ()
        if home is not None and session.seat is not None and not home.has_seat_of(session, "seat"):
            joining = (home,)
        if watched is not None and session.place is not None and not watched.has_seat_of(session, "spectator"):
            joining = (*joining, watched)
        return joining

    def move(self, home: RoomWriter) -> None:
        """Save it together with this room."""
        if home not in self.moved:
            self.moved = (*self.moved, home)

    def left(self) -> list[RoomWriter]:
        """The rooms that it has just left, as a player or as a spectator, and that are not saved without it yet."""
        session = self.session
        left = [self.home if session.seat is None else None, self.watched if session.place is None else None]
        return [room for room in left if room is not None]

    def not_saved(self) -> None:
        """Its batch was refused because of a room, and it lives on: whatever waits for a commit waits for the next."""
        leaving, self._leaving = self._leaving, None
        if leaving is not None and self.held is not None:
            leaving.release()
        self.held = self.held or leaving
        self.consumed, self._consuming = (*self._consuming, *self.consumed), ()
        if isinstance(self.session.inbox, GatedOutlet):
            self.session.inbox.not_saved()

    def unseated(self, channel: Channel, outlet: Outlet) -> None:
        """The seat is gone; its last messages may still wait for a commit."""
        self._closing = (*self._closing, (channel, outlet))

    def committed(self, revision: int) -> None:
        """The store has it: write to its connection again."""
        self.revision = revision
        self._consuming = ()
        if isinstance(self.session.inbox, GatedOutlet):
            self.session.inbox.release()
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.release()
        if self.is_gone:
            self.end_known(None)

    def let_go(self) -> tuple[SavedSend, ...]:
        """The record is deleted: what has happened since the commit began waits for no other one.

        Returns the messages that the session has and that are still in the store.
        """
        if isinstance(self.session.inbox, GatedOutlet):
            self.session.inbox.cut()
            self.session.inbox.release()
        held, self.held = self.held, None
        if held is not None:
            held.release()
        consumed, self.consumed = self.consumed, ()
        return consumed

    def end_known(self, error: Refused | None) -> None:
        """The end of the session is saved, or never will be."""
        when_ended, self.when_ended = self.when_ended, ()
        for then in when_ended:
            then(error)

    async def ended(self) -> None:
        """Wait until the record of the session, which has ended here, is deleted; `Refused` if it never will be."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_ended += (partial(settle, ended),)
        await ended


def linked(room: RoomWriter, links: list[tuple[RoomWriter, ...]]) -> list[RoomWriter]:
    """The room, and all that are linked to it, directly or by others."""
    together = {room: None}
    for each in (waiting := [room]):
        for link in links:
            if each in link:
                waiting += [other for other in link if other not in together]
                together |= dict.fromkeys(link)
    return list(together)


def _room_id(home: RoomWriter | None, session: Session, purpose: Purpose) -> str:
    return home.room_id if home is not None and home.has_seat_of(session, purpose) else ""


class SessionWriters:
    """The durable sessions of this server, and those of them to be saved with the next commit."""

    def __init__(
        self,
        clock: Clock,
        lifecycle: SessionLifecycle,
        *,
        store_patience_s: float,
        save: Callable[[RoomWriter | None], None],
    ) -> None:
        """`save` is called when a session has changed, with the room that must be saved together with it."""
        self._loop = clock.loop
        self._lifecycle = lifecycle
        self._store_patience_s = store_patience_s
        self._save = save
        self._writers: dict[Session, SessionWriter] = {}
        self._ending: set[str] = set()
        """The ids of sessions that have ended here, and whose records the store has still."""
        self._unclaimed: set[Session] = set()
        """Sessions from the store that this server has not written yet: their former server may have, after they were
        read (R8)."""
        self.on_claim_ended: Callable[[Session], None] = lambda _: None
        """The first commit of a session from the store has succeeded or failed, or the store fails altogether."""
        self.dirty: dict[SessionWriter, None] = {}
        self.sealed: set[SessionWriter] = set()
        """Those that another node is about to have: they are not written."""
        self._is_failing = False
        """Whether the store refuses to save."""

    def __contains__(self, session: Session) -> bool:
        return session in self._writers

    def of(self, session: Session) -> SessionWriter | None:
        """The writer of a session; None if it is not durable."""
        return self._writers.get(session)

    def is_ending(self, session_id: str) -> bool:
        """Whether the session has ended here, and the store has its record still."""
        return session_id in self._ending

    def at(self, home: RoomWriter) -> list[SessionWriter]:
        """The sessions that go where this room goes: their seat is in it, or they watch it and have no saved seat."""
        return [writer for writer in self._writers.values() if (writer.home or writer.watched) is home]

    def links(self) -> list[tuple[RoomWriter, ...]]:
        """Rooms that must be saved in the same batch, because a session has moved in all of them; usually there are
        none."""
        return [writer.moved for writer in self.dirty if len(writer.moved) > 1]

    # Changes

    def adopt(
        self, session: Session, home: RoomWriter | None, revision: int = ABSENT, *, purpose: Purpose = "seat"
    ) -> None:
        """The session has its seat or place in a durable room, or is back from the store: save it until it ends."""
        writer = self._writers.get(session)
        if writer is None:
            writer = self._writers[session] = SessionWriter(session, revision)
            if revision != ABSENT:
                self._unclaimed.add(session)
        if purpose == "seat":
            writer.home = home
        else:
            writer.watched = home
        self._set_ended(writer, is_ended=False)

    def changed(self, session: Session) -> None:
        """Save the session with the next commit; its client does not wait for it."""
        writer = self._writers.get(session)
        if writer is not None:
            self._mark(writer, None)

    def hold(self, session: Session) -> None:
        """Save the session with the next commit, and write nothing to its client before that."""
        writer = self._writers.get(session)
        if writer is None:
            return
        connection = session.connection
        if connection is not None and connection is not writer.held:
            connection.hold()
            writer.held = connection
        self._mark(writer, None)

    def moved(self, session: Session, purpose: Purpose) -> None:
        """The session took or left a seat, or a place as a spectator: save it and the room in one batch."""
        writer = self._writers.get(session)
        if writer is not None:
            self._move(writer, writer.home if purpose == "seat" else writer.watched)

    def moved_at(self, session: Session, home: RoomWriter) -> None:
        """The same, if it has its seat or place in this room, or had it until a moment ago."""
        writer = self._writers.get(session)
        if writer is not None:
            self._move(writer, home if home in {writer.home, writer.watched} else None)

    def ended(self, session: Session) -> None:
        """The session is over, or its seat is in a memory room: delete its record."""
        writer = self._writers.get(session)
        if writer is not None:
            self._set_ended(writer, is_ended=True)
            self._move(writer, writer.home)
            if writer.watched is not None:
                self._move(writer, writer.watched)

    def seated_in_memory(self, session: Session) -> None:
        """The session took a seat that is not saved, and must not return without it: delete its record."""
        self.ended(session)
        # The client hears of the seat once that is done.
        self.hold(session)

    def consumed(self, session: Session, send: SavedSend) -> bool:
        """The session has messages that are saved elsewhere; False if it is not durable."""
        writer = self._writers.get(session)
        if writer is not None:
            writer.consumed += (send,)
            self._mark(writer, None)
        return writer is not None

    def unseated(self, session: Session, outlet: Outlet) -> None:
        """The session has lost a seat, whose outlet may have messages that wait for a commit."""
        writer = self._writers.get(session)
        if writer is not None and session.closing:
            writer.unseated(session.closing[-1], outlet)

    def _set_ended(self, writer: SessionWriter, *, is_ended: bool) -> None:
        if is_ended:
            self._ending.add(writer.session.id)
        elif writer.is_ended:
            self._ending.discard(writer.session.id)
        writer.is_ended = is_ended

    def _move(self, writer: SessionWriter, home: RoomWriter | None) -> None:
        if home is not None:
            writer.move(home)
        self._mark(writer, home)

    def _mark(self, writer: SessionWriter, home: RoomWriter | None) -> None:
        if writer not in self.dirty or home is not None:
            self.dirty[writer] = None
            self._save(home)

    def forget(self, session: Session) -> None:
        """Save this session no more; its record stays as it is."""
        writer = self._writers.pop(session, None)
        if writer is not None:
            self.dirty.pop(writer, None)
            self.sealed.discard(writer)
            self._set_ended(writer, is_ended=False)
        self._claim_ended(session)

    def committed(self, writer: SessionWriter) -> tuple[SavedSend, ...]:
        """The store has this session; if it has ended, its record is deleted, and it is not saved any more.

        Returns messages to it that are to be deleted, too.
        """
        self._claim_ended(writer.session)
        if not (writer.is_gone and writer.is_ended):
            return ()
        self.forget(writer.session)
        return writer.let_go()

    # Claims

    def is_unclaimed(self, session: Session) -> bool:
        """Whether the session is back from the store, which may have a newer record of it than was read."""
        return session in self._unclaimed

    def confirm(self, session: Session) -> bool:
        """Write a session and its room once more: that shows whether they are still this server's. False if it is not
        durable."""
        writer = self._writers.get(session)
        if writer is None:
            return False
        self._unclaimed.add(session)
        self._mark(writer, writer.home)
        return True

    def _claim_ended(self, session: Session) -> None:
        if session in self._unclaimed:
            self._unclaimed.discard(session)
            self.on_claim_ended(session)

    # The store fails, and recovers

    def stall(self) -> None:
        """The store refuses to save: close the connections. Their clients may return once it saves again."""
        self._is_failing = True
        for writer in list(self._writers.values()):
            if writer.session.connection is not None:
                self._lifecycle.turn_away(writer.session.connection)
        for session in self._unclaimed:
            self.on_claim_ended(session)

    def proceed(self) -> None:
        """The store saves again: players, who could not return meanwhile, get a new grace."""
        self._is_failing = False
        for writer in self._writers.values():
            self._lifecycle.graces.renew(writer.session)

    # The end of a session

    def is_stuck(self, session: Session) -> bool:
        """Whether the session is durable and the store refuses to save: its player cannot return."""
        return self._is_failing and session in self._writers

    def close_connection(self, session: Session, connection: Connection, reason: Reason, message: str) -> None:
        """Close the connection of a session that ended, once the end is saved: until then it may be undone."""
        writer = self._writers.get(session)
        if writer is None:
            connection.close(reason, message)
        else:
            writer.when_ended += (lambda _: connection.close(reason, message),)
            self._loop.call_later(self._store_patience_s, self._close_unsaved, connection, reason, message)

    def _close_unsaved(self, connection: Connection, reason: Reason, message: str) -> None:
        """Close the connection although the end of its session is not saved, if the store fails."""
        if reason in _NOT_WELCOME:
            connection.close(reason, message)
        elif self._is_failing:
            self._lifecycle.turn_away(connection)
        elif connection.is_open:  # its commit began later than this wait
            self._loop.call_later(self._store_patience_s, self._close_unsaved, connection, reason, message)

    def end_saved(self, session: Session) -> Callable[[], Awaitable[None]] | None:
        """A function that waits until the end of a session is saved; None if the session is not durable."""
        writer = self._writers.get(session)
        return partial(self._wait_ended, writer) if writer is not None else None

    async def _wait_ended(self, writer: SessionWriter) -> None:
        if self._writers.get(writer.session) is writer:
            # If another server has taken it over, it is not ours to end.
            with contextlib.suppress(NotFound):
                await writer.ended()
