"""Tools for testing games: virtual time, a network and a store that break when told to, a whole server in memory.

    import holdfast
    from holdfast.testing import MemoryServer, run

    class Say(holdfast.Message):
        text: str

    class Chat(holdfast.Room[holdfast.PlayerData]):
        @holdfast.on(Say)
        def said(self, player, say):
            self.broadcast(say)

    async def a_message_survives_a_broken_connection():
        async with MemoryServer([Chat]) as server:
            ada = await server.connect("ada", messages=[Say])
            room = await ada.join_or_create("chat")
            server.link(ada).cut()
            await room.send(Say("still here"))
            assert await room.receive() == Say("still here")
            assert ada.drops == 1

    run(a_message_survives_a_broken_connection())

Waiting takes no real time: `await asyncio.sleep(3600)` returns at once, an hour later in virtual time.
See docs/guide/testing.md.
"""

from holdfast.testing.clock import Crashed, Deadlock, Livelock, Machine, VirtualLoop, run
from holdfast.testing.network import Dialer, Link, Network, Side
from holdfast.testing.replay import Replay, replay
from holdfast.testing.server import UNLIMITED, GameFailed, MemoryServer, Named, generous
from holdfast.testing.store import Disk, FaultyStore, MemoryStorage
from holdfast.testing.udp import UdpNetwork

__all__ = [
    "UNLIMITED",
    "Crashed",
    "Deadlock",
    "Dialer",
    "Disk",
    "FaultyStore",
    "GameFailed",
    "Link",
    "Livelock",
    "Machine",
    "MemoryServer",
    "MemoryStorage",
    "Named",
    "Network",
    "Replay",
    "Side",
    "UdpNetwork",
    "VirtualLoop",
    "generous",
    "replay",
    "run",
]
