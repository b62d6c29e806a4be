"""The client for programs without an event loop: the same names, blocking.

Nothing is decided here. Each session has a thread of its own in which the asyncio session lives, so it stays connected
while the program is busy; the methods may be called from any thread.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from holdfast.client import room as asynchronous_room
from holdfast.client import session as asynchronous
from holdfast.client.background import Background
from holdfast.client.link import Dial, dial
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import NotSeated, SessionEnded
from holdfast.core.frames import Auth, Outcome
from holdfast.core.infos import RoomInfo
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, SeatLeft


class ClientRoom:
    """One seat. Iterate over it for the room's messages, or `poll` it once per frame of your game.

    A message counts as processed, and is acknowledged, when the next one is asked for. One thread should read.
    """

    def __init__(self, background: Background, room: asynchronous_room.ClientRoom) -> None:
        self.id = room.id
        self.kind = room.kind
        self._background = background
        self._room = room

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat is gone; None while it is ours. What came before it can still be read."""
        return self._room.left

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged."""
        self._background.run(lambda: self._room.send(message))

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: now or never; a newer one with the same type and key takes its place."""
        self._background.call(lambda: self._room.send_latest(message, key))

    def flush(self) -> None:
        """Wait until the server has applied everything that was sent; `NotSeated` if the seat goes first."""
        self._background.run(self._room.flush)

    def leave(self) -> None:
        """Give the seat back. What was sent before arrives first; what was not read is dropped."""
        self._background.run(self._room.leave)

    def receive(self, timeout: float | None = None) -> Message:
        """The next message; `TimeoutError` after so many seconds without one."""

        async def received() -> Message:
            try:
                async with asyncio.timeout(timeout):
                    return await self._room.receive()
            except TimeoutError:
                raise TimeoutError(f"no message within {timeout:g} s") from None

        return self._background.run(received)

    def poll(self) -> list[Message]:
        """The messages that are there now, without waiting; raises like `receive` when there can be no more."""
        return self._background.call(self._room.poll)

    def acknowledge(self) -> None:
        """Count what was read as processed now, not when more is asked for: before `ClientSession.save`."""
        self._background.call(self._room.acknowledge)

    def __iter__(self) -> "ClientRoom":
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except NotSeated:
            raise StopIteration from None

    def __repr__(self) -> str:
        return repr(self._room)


class ClientSession:
    """A player's presence on a server. Reconnects and resumes by itself; made by `connect`."""

    def __init__(self, background: Background, session: asynchronous.ClientSession) -> None:
        self._background = background
        self._session = session

    # Who and where

    @property
    def id(self) -> str:
        """The session's public id."""
        return self._session.id

    @property
    def player_id(self) -> str:
        """Who we are."""
        return self._session.player_id

    @property
    def credential(self) -> str:
        """The secret with which this guest can sign in again; keep it like a password."""
        return self._session.credential

    @property
    def latency_ms(self) -> float:
        """The round-trip time, as the server measures it."""
        return self._session.latency_ms

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._session.connected

    @property
    def outcome(self) -> Outcome | None:
        """What became of the session at the last welcome: "new", "resumed", "resynced" or "reset"."""
        return self._session.outcome

    @property
    def drops(self) -> int:
        """How often a connection was lost."""
        return self._session.drops

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `resume=` this is how to get it back."""
        room = self._session.room
        return ClientRoom(self._background, room) if room is not None else None

    @property
    def on_drop(self) -> Callable[[], None] | None:
        """Called when the connection is lost, in the session's own thread: set a flag and return."""
        return self._session.on_drop

    @on_drop.setter
    def on_drop(self, callback: Callable[[], None] | None) -> None:
        self._session.on_drop = callback

    @property
    def on_resume(self) -> Callable[[Outcome], None] | None:
        """Called when the session is back, in the session's own thread: set a flag and return."""
        return self._session.on_resume

    @on_resume.setter
    def on_resume(self, callback: Callable[[Outcome], None] | None) -> None:
        self._session.on_resume = callback

    # What to ask for

    def create(
        self, kind: str, *, properties: Mapping[str, Any] | None = None, max_players: int | None = None
    ) -> RoomInfo:
        """Make a room. Joining it is another call."""
        return self._background.run(lambda: self._session.create(kind, properties=properties, max_players=max_players))

    def search(self, kind: str | None = None, *, limit: int = 20) -> list[RoomInfo]:
        """Rooms with a free seat, oldest first."""
        return self._background.run(lambda: self._session.search(kind, limit=limit))

    def join(self, room_id: str) -> ClientRoom:
        """Take a seat in a room."""
        return ClientRoom(self._background, self._background.run(lambda: self._session.join(room_id)))

    def join_or_create(
        self, kind: str, *, properties: Mapping[str, Any] | None = None, max_players: int | None = None
    ) -> ClientRoom:
        """Take a seat in any open room of a kind, or in a new one."""
        room = self._background.run(
            lambda: self._session.join_or_create(kind, properties=properties, max_players=max_players)
        )
        return ClientRoom(self._background, room)

    # Life

    def close(self) -> None:
        """End the session on purpose: the seat is given back now, or when its grace ends if there is no connection.

        What was sent goes out first. Closing what is closed does nothing.
        """
        try:
            with suppress(SessionEnded):
                self._background.run(self._session.close)
        finally:
            self._background.stop()

    def suspend(self) -> bytes:
        """Go away without ending the session; the result goes on with it: `connect(url, resume=…)`."""
        state = self._background.run(self._session.suspend)
        self._background.stop()
        return state

    def save(self) -> bytes:
        """What `connect(url, resume=…)` needs to go on from here if this process dies. It holds secrets."""
        return self._background.call(self._session.save)

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._background.call(self._session.cut)

    def __enter__(self) -> "ClientSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._session)


def connect(  # noqa: PLR0913 - settings, all by keyword
    url: str,
    *,
    messages: Iterable[type[Message]] = (),
    auth: Auth | None = None,
    resume: bytes | None = None,
    dialect: str = MSGPACK.name,
    give_up_s: float = 120.0,
    limits: Limits | None = None,
    random: Random | None = None,
    dial: Dial = dial,
) -> ClientSession:
    """Connect to a server, and stay connected: `with connect("ws://127.0.0.1:7777") as session:`.

    Leaving the block ends the session, also by an exception or Ctrl-C; without a block, call `session.close()`.
    The arguments and errors are those of `holdfast.connect`.
    """
    connecting = asynchronous.connect(
        url,
        messages=messages,
        auth=auth,
        resume=resume,
        dialect=dialect,
        give_up_s=give_up_s,
        limits=limits,
        random=random,
        dial=dial,
    )
    background = Background(f"holdfast session at {url}")
    try:
        return ClientSession(background, background.run(connecting.__aenter__))
    except BaseException:
        background.stop()
        raise
