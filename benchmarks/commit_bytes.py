"""How much does one message write? One player sends, in a durable room that has more and more of everything.

    python -m benchmarks.commit_bytes [--sizes 8 100 1000] [--messages 200]

The room answers the sender and nobody else. Counted is what the commits of a message write, keys included: with many
players in the room, with many objects that the sender owns, with many that the server owns, and with many timers. A
room whose record is written whole writes all of that with every message.
"""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import holdfast
from holdfast import Limits, Message, Player, PlayerData, Room, Server, WebSocket, on
from holdfast.stores import Batch, MemoryStore

KINDS = ("players", "own objects", "server's objects", "timers")
# So many messages are not counted: what has not changed settles meanwhile.
WARM_UP = 60


class Fill(Message):
    what: str
    count: int


class Ping(Message):
    pass


class Pong(Message):
    pass


class Hall(Room[PlayerData]):
    durability = "commit"
    max_players = 100_000

    @on(Fill)
    def fill(self, player: Player[PlayerData], fill: Fill) -> None:
        for number in range(fill.count):
            match fill.what:
                case "own objects":
                    self.own(player, f"object-{number}")
                case "server's objects":
                    self.own(None, f"object-{number}")
                case "timers":
                    self.after(86_400.0, self.ring, number)
                case _:
                    pass
        player.send(Pong())

    def ring(self, number: int) -> None: ...

    @on(Ping)
    def ping(self, player: Player[PlayerData], ping: Ping) -> None:
        player.send(Pong())


class CountingStore(MemoryStore):
    """A store that counts what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.keys = 0

    async def commit(self, batches: Sequence[Batch]) -> Any:
        for batch in batches:
            for write in batch:
                self.keys += 1
                self.bytes += len(write.key) + len(write.value or b"")
        return await super().commit(batches)


async def measure(kind: str, size: int, messages: int) -> tuple[float, float]:
    """Bytes and keys that one message writes."""
    store = CountingStore()
    limits = Limits(sessions_max=200_000)
    async with (
        Server([Hall], listen=[WebSocket(port=0)], store=store, limits=limits) as server,
        holdfast.connect(server.url, messages=[Pong]) as session,
    ):
        room = await session.join_or_create("hall")
        if kind == "players":
            for number in range(size - 1):
                await server.open_agent(f"npc-{number}").join(room.id)
        await room.send(Fill(kind, size))
        await room.receive()
        for _ in range(WARM_UP):
            await echo(room)
        before = store.bytes, store.keys
        for _ in range(messages):
            await echo(room)
        return (store.bytes - before[0]) / messages, (store.keys - before[1]) / messages


async def echo(room: holdfast.ClientRoom) -> None:
    await room.send(Ping())
    await room.receive()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 100, 1000])
    parser.add_argument("--messages", type=int, default=200)
    options = parser.parse_args()
    print(f"{'bytes (keys) a message':24}" + "".join(f"{size:>16,}" for size in options.sizes))
    for kind in KINDS:
        found = [await measure(kind, size, options.messages) for size in options.sizes]
        print(f"{kind:24}" + "".join(f"{f'{size:,.0f} ({keys:.1f})':>16}" for size, keys in found), flush=True)


asyncio.run(main())
