"""The client's session for programs without an event loop: the same names, blocking."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike
from random import Random
from ssl import SSLContext

from holdfast.client import session as asynchronous
from holdfast.client.background import Background
from holdfast.client.link import Dial
from holdfast.client.storage import SessionStorage
from holdfast.client.sync.directory import Directory
from holdfast.client.sync.room import ClientRoom
from holdfast.core.backoff import FIRST_S, LONGEST_S
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import SessionEnded
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.removed import removed
from holdfast.schemas.frames import Auth, Outcome


class ClientSession(Directory):
    """A player's presence on a server. Reconnects and resumes by itself; made by `connect`."""

    def __init__(self, background: Background, session: asynchronous.ClientSession) -> None:
        super().__init__(background, session)
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
        """The room we have a seat in; after `saved=` this is how to get it back."""
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

    @property
    def on_stopping(self) -> Callable[[float], None] | None:
        """Called when the server stops within so many seconds, in the session's own thread: set a flag and return."""
        return self._session.on_stopping

    @on_stopping.setter
    def on_stopping(self, callback: Callable[[float], None] | None) -> None:
        self._session.on_stopping = callback

    def link(self, auth: Auth) -> None:
        """Give this guest an account, and stay the same player. Sign in with `auth` from now on."""
        self._background.run(lambda: self._session.link(auth))

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

    def suspend(self) -> None:
        """Go away without ending the session: the next `connect` with the same `saved=` goes on with it."""
        self._background.run(self._session.suspend)
        self._background.stop()

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._background.call(self._session.cut)

    def __enter__(self) -> "ClientSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._session)


@removed(**asynchronous.REMOVED)
def connect(
    url: str,
    *,
    messages: Iterable[type[Message]] = (),
    auth: Auth | None = None,
    saved: str | PathLike[str] | SessionStorage | None = None,
    dialect: str = MSGPACK.name,
    ssl: SSLContext | None = None,
    give_up_s: float = 120.0,
    retry_first_s: float = FIRST_S,
    retry_longest_s: float = LONGEST_S,
    limits: Limits | None = None,
    random: Random | None = None,
    dial: Dial | None = None,
) -> ClientSession:
    """Connect to a server, and stay connected: `with connect("ws://127.0.0.1:7777") as session:`.

    Leaving the block ends the session, also by an exception or Ctrl-C; without a block, call `session.close()`.
    The arguments and errors are those of `holdfast.connect`.
    """
    connecting = asynchronous.connect(
        url,
        messages=messages,
        auth=auth,
        saved=saved,
        dialect=dialect,
        ssl=ssl,
        give_up_s=give_up_s,
        retry_first_s=retry_first_s,
        retry_longest_s=retry_longest_s,
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
