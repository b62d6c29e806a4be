"""A small room and a few gestures, for telling again what the simulation has found."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar

from holdfast import ClientSession, Message, Player, PlayerData, Reason, Room, on
from holdfast.testing import MemoryServer, run


class Say(Message):
    text: str


class Chat(Room[PlayerData]):
    """Tells what it does, and repeats what it hears. Its turns take as long as its door is shut."""

    story: ClassVar[list[str]]
    door: ClassVar[asyncio.Event]

    def on_join(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"join {player.id}")

    def on_drop(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"drop {player.id}")

    def on_rejoin(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"rejoin {player.id}")

    def on_resync(self, player: Player[PlayerData]) -> Any:
        player.send(Say("the state"))

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> Any:
        self.story.append(f"leave {player.id} {reason}")

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await self.door.wait()
        self.story.append(f"say {say.text}")
        self.broadcast(say)


def chat(**settings: Any) -> type[Chat]:
    door = asyncio.Event()
    door.set()
    return type("Chat", (Chat,), {"story": [], "door": door, **settings})


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(600.0):
            await test(*args, **kwargs)

    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(limited(*args, **kwargs))

    return plain


async def a_moment() -> None:
    await asyncio.sleep(0.5)


def kill(server: MemoryServer, client: ClientSession) -> None:
    """The process of a client is gone."""
    server.dialer(client).is_dead = True
    server.link(client).cut()


async def until_dialed(server: MemoryServer, client: ClientSession, *, links: int) -> None:
    while len(server.dialer(client).links) < links:  # noqa: ASYNC110 - costs nothing in virtual time
        await asyncio.sleep(0.1)
