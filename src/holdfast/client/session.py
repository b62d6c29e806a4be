"""The client's session: one object that stays while connections come and go underneath it."""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from os import PathLike
from random import Random, SystemRandom
from ssl import SSLContext
from typing import Any

from msgspec import Struct

from holdfast.client.connector import Reach
from holdfast.client.directory import Directory
from holdfast.client.events import Noticed, SeatEvent, Welcomed
from holdfast.client.exchange import Exchange, read
from holdfast.client.journal import Journal
from holdfast.client.link import Dial, make_dialer
from holdfast.client.protocol import ClientProtocol
from holdfast.client.room import ClientRoom
from holdfast.client.seats import Seats
from holdfast.client.storage import SessionStorage
from holdfast.core.backoff import FIRST_S, LONGEST_S, Backoff
from holdfast.core.codec import CODECS, MSGPACK, Codec
from holdfast.core.errors import Invalid
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.core.removed import removed
from holdfast.logs import get_logger
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.frames import Auth, Outcome
from holdfast.schemas.requests import Confirm, Link
from holdfast.transports.port import GOING_AWAY, NORMAL

log = get_logger("holdfast.client")


class Stopping(Struct, frozen=True):
    """The server stops within so many seconds."""

    deadline_s: float


class ClientSession(Directory):
    """A player's presence on a server. Reconnects and resumes by itself; made by `holdfast.connect`."""

    def __init__(
        self,
        protocol: ClientProtocol,
        reach: Reach,
        messages: Iterable[type[Message]],
        journal: Journal | None = None,
    ) -> None:
        self.protocol = protocol
        """The session without its sockets, for tests and tools."""
        self.outcome: Outcome | None = None
        """What became of the session at the last welcome: "new", "resumed", "resynced" or "reset"."""
        self.drops = 0
        """How often a connection was lost."""
        self.on_drop: Callable[[], None] | None = None
        """Called when the connection is lost; the session goes on and tries to come back."""
        self.on_resume: Callable[[Outcome], None] | None = None
        """Called when the session is back, with what became of it."""
        self.on_stopping: Callable[[float], None] | None = None
        """Called when the server says that it stops within so many seconds; the session may come back after that."""
        exchange = Exchange(protocol, reach, journal=journal, happened=self._happened, dropped=self._dropped)
        super().__init__(exchange, Seats(exchange, messages, latest_max=reach.limits.latest_kept_max))

    # Who and where

    @property
    def id(self) -> str:
        """The session's public id."""
        return self.protocol.session_id

    @property
    def player_id(self) -> str:
        """Who we are."""
        return self.protocol.player_id

    @property
    def credential(self) -> str:
        """The secret with which this guest can sign in again; keep it like a password."""
        return self.protocol.credential

    @property
    def latency_ms(self) -> float:
        """The round-trip time, as the server measures it."""
        return self.protocol.latency_ms

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self.protocol.is_welcome

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `saved=` this is how to get it back."""
        return self._seats.room

    async def link(self, auth: Auth) -> None:
        """Give this guest an account, and stay the same player: id, data and seat. Sign in with `auth` from now on.

        `Conflict` if the account has a player already (sign in with it instead), or this is no guest; `NotAllowed` if
        `auth` proves nothing. The guest's credential does not sign in any more, and other sessions of the guest end.
        """
        await self._exchange.request(Link(auth.scheme, auth.credential), partial(self._linked, auth))
        # A saved session is stored with its new token before this is written, which makes the old one worthless.
        await self._exchange.ask(Confirm(), object)

    def _linked(self, auth: Auth, answer: Any) -> None:
        self.protocol.linked(auth, read(answer, LinkInfo, "answer to 'link'").token)

    # Life

    async def open(self) -> None:
        """Connect for the first time; `connect` does this."""
        await self._exchange.open()

    async def close(self) -> None:
        """End the session on purpose: the seat is given back now, or when its grace ends if there is no connection.

        What was sent goes out first. Closing what is closed does nothing.
        """
        if not self._exchange.is_over:
            self._exchange.say_bye()
        await self._exchange.close(NORMAL, Reason.BYE, "closed by this client")

    async def suspend(self) -> None:
        """Go away without ending the session: the next `connect` with the same `saved=` goes on with it.

        Messages that were read count as processed; those that were not will be sent again.
        """
        self._exchange.check()
        self._seats.acknowledge()
        self._exchange.keep()
        self._exchange.flush(with_acks=True)
        await self._exchange.close(GOING_AWAY, "suspended", "suspended by this client")

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._exchange.cut()

    # From the exchange

    def _happened(self, event: Welcomed | Noticed | SeatEvent) -> None:
        match event:
            case Welcomed():
                self._welcomed(event.outcome)
            case Noticed(topic="stopping"):
                notice = read(event.body, Stopping, "notice of the end")
                if self.on_stopping is not None:
                    self._call(self.on_stopping, notice.deadline_s)
            case Noticed():
                self._news.noticed(event)
            case _:
                self._seats.happened(event)

    def _dropped(self) -> None:
        self.drops += 1
        if self.on_drop is not None:
            self._call(self.on_drop)

    def _welcomed(self, outcome: Outcome) -> None:
        self.outcome = outcome
        if outcome.kind != "new":
            self._news.welcomed()
            if self.on_resume is not None:
                self._call(self.on_resume, outcome)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            callback(*args)
        except Exception:
            log.exception("a callback of the session failed")

    def __repr__(self) -> str:
        return f"<ClientSession {self.id} of {self.player_id} {'connected' if self.connected else 'disconnected'}>"


def _codec(dialect: str) -> Codec:
    if dialect not in CODECS:
        raise Invalid(f"no dialect is called {dialect!r}; there is {', '.join(CODECS)}")
    return CODECS[dialect]


def _backoff(first_s: float, longest_s: float) -> Backoff:
    try:
        return Backoff(first_s=first_s, longest_s=longest_s)
    except ValueError as error:
        raise Invalid(f"`retry_first_s`, `retry_longest_s`: {error}") from None


REMOVED = {
    "server_key": "encrypt TCP with TLS: connect to tcps://host:port, with `ssl` for a certificate of your own",
    "compression": "only WebSocket clients that offer permessage-deflate, as browsers do, are compressed",
}
"""What to use instead of options that no longer exist."""


class connect:  # noqa: N801 - reads as a verb: `async with holdfast.connect(url) as session:`
    """Connect to a server, and stay connected: `async with holdfast.connect("ws://127.0.0.1:7777") as session:`.

    Leaving the block ends the session. `session = await connect(url)` does the same without a block; then call
    `session.close()` yourself. Raises `OSError` if nobody answers at the address, `SessionEnded` if the server does not
    want us. With a saved session, a server that does not answer is tried again for `give_up_s`. A connection that is
    lost later is replaced, and the session resumed, without a word; see `on_drop`.

    - `messages`: the types that rooms send; others arrive as `Untyped`.
    - `auth`: how to sign in; a new guest if you say nothing, a known one with `Auth("guest", credential)`.
    - `saved`: where to keep the session, so that it outlives this process: a file's path, or a `SessionStorage` of your
      own. If there is one, go on with it; if that is gone, sign in with `auth`, or as the same guest as before.
      `Conflict` if another session uses the file, in this process or another.
    - `dialect`: "holdfast.v1.msgpack" or "holdfast.v1.json"; a saved session keeps its own.
    - `ssl`: for wss:// and tcps://, which certificates to believe; without it, those that this system believes.
    - `give_up_s`: for how long to try to come back before the session counts as over.
    - `retry_first_s`, `retry_longest_s`: each wait is random between 0 and a ceiling. The ceiling starts at
      `retry_first_s`, doubles with each attempt, and stops at `retry_longest_s`; after a 30 s outage that cap grows
      too, up to 15 times.
    - `limits`, `random`, `dial`: replaced in tests.
    """

    @removed(**REMOVED)
    def __init__(
        self,
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
    ) -> None:
        limits = limits or Limits()
        dial = make_dialer(url, dial, ssl)
        backoff = _backoff(retry_first_s, retry_longest_s)
        journal = Journal.at(saved, limits) if saved is not None else None
        state = journal.read() if journal is not None else None
        if state is None:
            protocol = ClientProtocol(_codec(dialect), auth or Auth(), limits)
        else:
            protocol = ClientProtocol(_codec(state.dialect), auth, limits)
            protocol.load(state)
        if journal is not None:
            journal.follow(protocol)
        reach = Reach(
            url=url,
            dial=dial,
            backoff=backoff,
            give_up_s=give_up_s,
            random=random or SystemRandom(),
            limits=limits,
        )
        self._session = ClientSession(protocol, reach, messages, journal)

    @property
    def session(self) -> ClientSession:
        """The session, also before it is open: what is set here, such as `on_resume`, hears of the first welcome."""
        return self._session

    async def __aenter__(self) -> ClientSession:
        await self._session.open()
        return self._session

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def __await__(self) -> Generator[Any, None, ClientSession]:
        return self.__aenter__().__await__()
