"""A server in memory and in virtual time, and callers from any address: what the tests of limits play with."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from msgspec import Raw

from holdfast import Auth, Limits, Message, Player, PlayerData, Reason, Room, on
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.events import Ended, LimitExceeded
from holdfast.schemas.frames import Close, Data, Hello, Latest, Resume, Welcome
from holdfast.testing import MemoryServer, Named, Network
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.raw_client import RawClient

HOME = "203.0.113.7"
ELSEWHERE = "198.51.100.9"

# Callers made by hand answer no ping.
PATIENT = Limits(ping_s=3600.0, silence_s=7200.0)


class Say(Message):
    n: int


class Wish(Message):
    what: Any = None


class Hall(Room[PlayerData]):
    """Notes what it hears."""

    max_players = 1000
    keep_before_start = True

    def on_create(self, config: dict[str, Any]) -> None:
        self.heard: list[int] = []
        self.wished: list[Any] = []

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        self.heard.append(message.n)

    @on(Wish)
    def wish(self, player: Player[PlayerData], message: Wish) -> None:
        self.wished.append(message.what)


class Street(Network):
    """A network in which callers have addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.address = HOME

    def caller(self, number: int) -> str:
        return f"[{self.address}]:{number}" if ":" in self.address else f"{self.address}:{number}"


class Town(MemoryServer):
    """The server, whom it told, and the ways to it."""

    def __init__(self, limits: Limits, rooms: Sequence[type[Room[Any]]] = (Hall,), **options: Any) -> None:
        self.street = Street()
        super().__init__(rooms, network=self.street, limits=limits, **options)
        self.told: list[LimitExceeded] = []
        self.on(LimitExceeded, self.told.append)
        self.ended: list[Ended] = []
        self.on(Ended, self.ended.append)

    async def knock(self, address: str = HOME, codec: Codec = MSGPACK) -> RawClient:
        """A link, and nothing said on it."""
        self.street.address = address
        client = RawClient(codec)
        await self.street.dial(
            client, URL, subprotocols=[Subprotocol(codec.name, codec.text)], limits=TransportLimits.of(self.limits)
        )
        return client

    async def call(self, name: str, address: str = HOME) -> RawClient:
        """A link, and a hello that was not answered yet."""
        client = await self.knock(address)
        client.say(Hello(Auth(Named.scheme, name)))
        return client

    async def guest(self, name: str = "ada", address: str = HOME, codec: Codec = MSGPACK) -> "Guest":
        """Signed in."""
        client = await self.knock(address, codec)
        client.say(Hello(Auth(Named.scheme, name)))
        return Guest(self, client, await client.hear(Welcome))

    async def seated(self, name: str = "ada", address: str = HOME, codec: Codec = MSGPACK) -> "Guest":
        """Signed in, and on a seat of the hall."""
        guest = await self.guest(name, address, codec)
        await guest.client.join("hall")
        return guest

    def hall(self) -> Hall:
        """The one hall."""
        (room,) = self.rooms
        assert isinstance(room, Hall)
        return room

    def limits_told(self) -> list[tuple[str, str]]:
        """Which limits were reached, and what was done."""
        return [(event.limit, event.action) for event in self.told]


class Guest:
    """Somebody who is known."""

    def __init__(self, town: Town, client: RawClient, welcome: Welcome) -> None:
        self.town = town
        self.client = client
        self.welcome = welcome
        self.said = 0

    def say(self, count: int = 1) -> None:
        """So many messages, each in a payload of its own."""
        for _ in range(count):
            self.said += 1
            self.client.send(self.said, Say(self.said))

    def say_at_once(self, count: int) -> None:
        """So many messages in one payload."""
        numbers = range(self.said + 1, self.said + count + 1)
        encode = self.client.codec.encode
        self.client.say(*(Data(1, n, 0, "say", Raw(encode(Say(n)))) for n in numbers))
        self.said += count

    def send_latest(self, count: int = 1) -> None:
        """So many unreliable ones."""
        for n in range(count):
            self.client.say(Latest(1, "say", Raw(self.client.codec.encode(Say(n)))))

    async def come_back(self, address: str = HOME) -> RawClient:
        """A link, and a hello with the token; it was not answered yet."""
        client = await self.town.knock(address, self.client.codec)
        client.say(Hello(None, Resume(self.welcome.session, self.welcome.token)))
        return client


def patient(**limits: Any) -> Limits:
    """These limits, and patience with callers made by hand."""
    return replace(PATIENT, **limits)


@asynccontextmanager
async def town(**limits: Any) -> AsyncIterator[Town]:
    """A town with these limits."""
    server = Town(patient(**limits))
    async with server:
        yield server


async def refused(client: RawClient, reason: Reason) -> Close:
    """How it was refused: for this reason, and with a time to come back."""
    close = await client.closed()
    assert (close.code, close.reason) == (CLOSE_CODES[reason], reason)
    assert close.retry_after_s > 0
    return close


async def later(seconds: float = 0.01) -> None:
    """Let time pass: it costs nothing."""
    await asyncio.sleep(seconds)


def nested(depth: int) -> Any:
    """An array in an array …"""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def request_body(codec: Codec, what: Any) -> Raw:
    """A wish as it travels."""
    return Raw(codec.encode({"what": what}))
