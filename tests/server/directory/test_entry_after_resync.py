"""What is known of a room itself is right also after messages about it could not be kept."""

import asyncio

from holdfast import Limits, Message, PlayerData, Room
from holdfast.testing import MemoryServer, generous
from tests.server.durability.bench import in_virtual_time, until

LIMITS = generous(Limits(window_messages_max=4, kept_messages_max=8))


class Noise(Message):
    pass


class Hall(Room[PlayerData]):
    election = "oldest"


@in_virtual_time
async def test_a_player_who_is_resynced_knows_the_rooms_entry_and_host_of_now() -> None:
    async with MemoryServer([Hall], limits=LIMITS) as server:
        hall = await server.create_room("hall", name="before")
        ada = await server.connect("ada")
        bob = await server.connect("bob")
        seat = await ada.join(hall.id)
        await bob.join(hall.id)
        server.dialer(ada).is_down = True
        server.link(ada).cut()
        await until(lambda: not hall.players[0].connected)
        for _ in range(20):
            hall.broadcast(Noise())
        hall.update(name="after")
        hall.name_host(hall.player("bob"))
        # Long enough for everything that is told about the entry to be told, and lost.
        await asyncio.sleep(5.0)

        server.dialer(ada).is_down = False
        await until(lambda: ada.connected)

        assert ada.outcome is not None
        assert ada.outcome.kind == "resynced"
        await until(lambda: seat.info is not None and seat.info.name == "after")
        assert seat.host == "bob"
