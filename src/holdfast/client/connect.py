"""`connect`: from a URL and options to an open session."""

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from os import PathLike
from random import Random, SystemRandom
from ssl import SSLContext
from typing import Any, Unpack

from holdfast.client.connector import DialOptions
from holdfast.client.journal import SessionJournal, replayed
from holdfast.client.listeners import LISTENERS, SessionListeners
from holdfast.client.protocol import ClientProtocol
from holdfast.client.saved import SessionFile, SessionStorage
from holdfast.client.session import ClientSession
from holdfast.client.shared import SharedTypes
from holdfast.client.ways import Dial, Ways
from holdfast.core.backoff import FIRST_S, LONGEST_S, Backoff
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import Invalid
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.protobuf import PROTOBUF
from holdfast.core.removed import removed
from holdfast.schemas.frames import Auth
from holdfast.transports import enet, tcp, websocket
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits
from holdfast.transports.udp import sockets
from holdfast.transports.udp.client import OpenUdp


async def dial(
    receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits, *, ssl: SSLContext | None = None
) -> Transport:
    """Open a connection by the address's scheme."""
    match url.partition("://")[0]:
        case "ws" | "wss":
            return await websocket.dial(receiver, url, subprotocols=[subprotocol], limits=limits, ssl=ssl)
        case "tcp" | "tcps":
            return await tcp.dial(receiver, url, subprotocols=[subprotocol], limits=limits, ssl=ssl)
        case "enet":
            return await enet.dial(receiver, url, subprotocols=[subprotocol], limits=limits)
        case _:
            raise DialError(
                f"{url!r} is not a URL of a server: use ws://, wss://, tcp://, tcps:// or enet://host:port", retry=False
            )


def _dialer(urls: Sequence[str], own: Dial | None, ssl: SSLContext | None) -> Dial:
    """The `Dial` for these addresses; `Invalid` if an option would have no effect."""
    if not urls:
        raise Invalid("name the address of a server, as in ws://127.0.0.1:7777")
    if own is not None and ssl is not None:
        raise Invalid("`ssl` has no effect with a `dial` of your own: give it to that")
    if ssl is not None and not any(url.startswith(("wss://", "tcps://")) for url in urls):
        raise Invalid("`ssl` is for wss:// and tcps://: at this address nothing would be encrypted")
    one = _by_scheme(own, ssl)
    return one if len(urls) == 1 else Ways(urls, one)


def _by_scheme(own: Dial | None, ssl: SSLContext | None) -> Dial:
    return own or partial(dial, ssl=ssl)


def _codec(name: str) -> Codec:
    if name not in CODECS:
        if name == PROTOBUF.name:
            raise Invalid(f"{name} needs the protobuf library: pip install 'holdfast[protobuf]'")
        raise Invalid(f"unknown codec {name!r}; use one of {', '.join(CODECS)}")
    return CODECS[name]


def _check_text(option: str, text: str) -> None:
    """`Invalid` if it cannot be sent: Python's text may have half of a character in it, as from a terminal."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"`{option}` has a lone surrogate in it, which is not a character: it cannot be sent") from None


REMOVED = {
    "server_key": "encrypt TCP with TLS: connect to tcps://host:port, with `ssl` for a certificate of your own",
    "dialect": "use `codec`",
    "resume": 'save the session in a file, as in connect(url, saved="ada.session")',
    "compression": "only WebSocket clients that offer permessage-deflate, as browsers do, are compressed",
}
"""What to use instead of options that no longer exist."""


class connect:  # noqa: N801 - reads as a verb: `async with holdfast.connect(url) as session:`
    """Connect to a server, and stay connected: `async with holdfast.connect("ws://127.0.0.1:7777") as session:`.

    Leaving the block ends the session. `session = await connect(url)` does the same without a block; then call
    `session.close()` yourself. Raises `OSError` if the server cannot be reached, `SessionEnded` if it
    refuses us. With a saved session, a server that does not answer is tried again for `give_up_s`. A connection that is
    lost later is replaced, and the session resumed, without a word; see `on_drop`.

    `url` may be a list, in order of preference, as in `["enet://game.example:7780", "wss://game.example"]`: where the
    first does not answer, as UDP often does not in offices and hotels, the next is tried, at each new connection.
    `session.transport` says which it is. Over WebSocket or TCP, `send_latest` uses UDP where the server offers it and
    it gets through: `session.latest_transport` says so.

    `on_drop`, `on_reconnecting`, `on_resume`, `on_stopping`, `on_close` and `on_message` add a listener to that event
    of the session before the first connection.

    - `name`: what the player wants to be called; `SessionEnded` with the problem "name_not_allowed" if that is refused.
      A saved session that goes on keeps its own: see `ClientSession.rename`.
    - `messages`: the types that rooms send; others arrive as `Untyped`, and are named once in a warning.
    - `state`, `data`: the types of what rooms share: of `ClientRoom.state`, and of each player's data in `players` and
      `mine`. `join` and the others take them, too, for one room; these are for all, and for one that was saved.
    - `auth`: how to sign in; a new guest if you say nothing, a known one with `Auth("guest", credential)`.
    - `saved`: where to keep the session, so that it outlives this process: a file's path, or a `SessionStorage` of your
      own. If there is one, go on with it; if that is gone, sign in with `auth`, or as the same guest as before.
      `Conflict` if another session uses the file, in this process or another.
    - `codec`: "holdfast.v1.msgpack", "holdfast.v1.json" or "holdfast.v1.protobuf"; a saved session keeps its own.
    - `ssl`: for wss:// and tcps://, which certificates to believe; without it, those that this system believes.
    - `give_up_s`: for how long to try to come back before the session counts as over.
    - `retry_first_s`, `retry_longest_s`: each wait is random between 0 and a ceiling. The ceiling starts at
      `retry_first_s`, doubles with each attempt, and stops at `retry_longest_s`; after a 30 s outage that cap grows
      too, up to 15 times.
    - `limits`, `random`, `dial`, `open_udp`: replaced in tests. With a `dial` of your own there is no UDP beside it,
      unless you say how to open a socket.
    """

    @removed(**REMOVED)
    def __init__(  # noqa: PLR0913 - options, all by keyword
        self,
        url: str | Sequence[str],
        *,
        name: str = "",
        messages: Iterable[type[Message]] = (),
        state: Any = None,
        data: Any = None,
        auth: Auth | None = None,
        saved: str | PathLike[str] | SessionStorage | None = None,
        codec: str = MSGPACK.name,
        ssl: SSLContext | None = None,
        give_up_s: float = 120.0,
        retry_first_s: float = FIRST_S,
        retry_longest_s: float = LONGEST_S,
        limits: Limits | None = None,
        random: Random | None = None,
        dial: Dial | None = None,
        open_udp: OpenUdp | None = None,
        **listeners: Unpack[SessionListeners],
    ) -> None:
        for option in listeners:
            if option not in LISTENERS:
                raise TypeError(f"connect has no option {option!r}")
        if not isinstance(name, str):
            raise TypeError(f"a player's name is text; got {name!r}")
        _check_text("name", name)
        if auth is not None:
            if not isinstance(auth, Auth):
                raise TypeError(
                    f'`auth` is an Auth, as in auth=Auth.password("ada", "secret"); got {type(auth).__name__}'
                )
            _check_text("auth", auth.credential)
        limits = limits or Limits()
        try:
            backoff = Backoff(first_s=retry_first_s, longest_s=retry_longest_s)
        except ValueError as error:
            raise Invalid(f"`retry_first_s`, `retry_longest_s`: {error}") from None
        urls = [url] if isinstance(url, str) else list(url)
        dialer = _dialer(urls, dial, ssl)
        options = DialOptions(
            url=" or ".join(urls),
            dial=dialer,
            turned_away=dialer.turned_away if isinstance(dialer, Ways) else lambda: None,
            backoff=backoff,
            give_up_s=give_up_s,
            random=random or SystemRandom(),
            limits=limits,
            open_udp=sockets.open_udp if dial is None else open_udp,
            dial_nearer=_by_scheme(dial, ssl),
        )
        storage = SessionFile(saved) if isinstance(saved, str | PathLike) else saved
        try:
            known = replayed(storage.read()) if storage is not None else None
            if known is None:
                protocol = ClientProtocol(_codec(codec), auth or Auth(), limits, name)
            else:
                protocol = ClientProtocol(_codec(known.codec), auth, limits, name)
                protocol.load(known)
            journal = SessionJournal(storage, protocol, limits) if storage is not None else None
            self.session = ClientSession(protocol, options, messages, journal, SharedTypes(state=state, data=data))
            """Also before it is open."""
            for event, listener in listeners.items():
                getattr(self.session, event)(listener)
        except BaseException:
            if storage is not None:
                storage.close()
            raise

    async def __aenter__(self) -> ClientSession:
        await self.session.open()
        return self.session

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    def __await__(self) -> Generator[Any, None, ClientSession]:
        return self.__aenter__().__await__()
