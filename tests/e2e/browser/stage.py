"""A game with a dashboard, in this process, for the tests in a browser."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from playwright.async_api import Page

import holdfast
from holdfast import (
    ClientRoom,
    ClientSession,
    Hidden,
    Message,
    Player,
    PlayerData,
    Private,
    Room,
    Server,
    WebSocket,
    on,
)
from holdfast.http.api import ApiKey, HttpApi
from tests.deadlines import DEADLINE_S

SOON_MS = DEADLINE_S * 1000


class Say(Message):
    text: str
    loud: bool = False


class Said(Message):
    who: str
    text: str


class Notice(Message):
    text: str


class Talker(PlayerData):
    said: int = 0


class Hall(msgspec.Struct):
    """What the room knows."""

    topic: str = "weather"
    lines: int = 0


class Chat(Room[Talker]):
    """Repeats to everybody what one says."""

    max_players = 8
    empty_ttl_s = 600.0
    state: Hall

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Hall()

    @on(Say)
    def said(self, player: Player[Talker], say: Say) -> None:
        self.state.lines += 1
        player.data.said += 1
        self.broadcast(Said(player.id, say.text))


class Draw(Message):
    """From a client: take a card."""


class Hand(PlayerData):
    cards: Private[list[int]] = msgspec.field(default_factory=list)
    count: int = 0


class Board(msgspec.Struct):
    drawn: int = 0
    deck: Hidden[list[int]] = msgspec.field(default_factory=list)


class Table(Room[Hand]):
    """Shares its state, and sends nothing."""

    shares = ("state", "players")
    empty_ttl_s = 600.0
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board(deck=[7, 8, 9])

    @on(Draw)
    def draw(self, player: Player[Hand], draw: Draw) -> None:
        player.data.cards.append(self.state.deck.pop())
        player.data.count += 1
        self.state.drawn += 1


class RecordedTable(Table):
    """The same, with a recording."""

    kind = "recorded_table"
    record = "game"


class Stage:
    """A server, its dashboard, and players over real sockets."""

    def __init__(self, server: Server, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack
        host, port = server.addresses["http"]
        self.url = f"http://{host}:{port}/"

    async def open(self, page: Page, path: str = "") -> None:
        """Show a page of the dashboard."""
        page.set_default_timeout(SOON_MS)
        await page.goto(f"{self.url}#/{path}")

    async def joins(self) -> tuple[ClientSession, ClientRoom]:
        """A player who sits in the room."""
        session = await self._stack.enter_async_context(holdfast.connect(self.server.url, messages=[Said, Notice]))
        return session, await session.join_or_create("chat")


@asynccontextmanager
async def staged(
    keys: Sequence[ApiKey] = (), port: int = 0, origins: Sequence[str] = (), **settings: Any
) -> AsyncIterator[Stage]:
    """A server from here to the end of the block."""
    http = HttpApi(port=port, keys=keys)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            Server([Chat, Table, RecordedTable], listen=[WebSocket(port=0, origins=origins)], http=http, **settings)
        )
        yield Stage(server, stack)


async def heard(room: ClientRoom, kind: type[Message]) -> Message:
    """The next message of a kind."""
    async with asyncio.timeout(DEADLINE_S):
        async for message in room:
            if isinstance(message, kind):
                return message
    raise AssertionError(f"the room ended before it sent a {kind.__name__}")
