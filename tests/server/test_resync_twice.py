"""A stream that begins anew twice before the room has its turn: one state, behind the one gap that the client saw."""

import asyncio

from holdfast import Message, Player, PlayerData, Resynced, Room, RoomUpdated, on
from holdfast.testing import MemoryServer
from tests.server.durability.bench import in_virtual_time


class Work(Message):
    n: int


class Note(Message):
    n: int


class State(Message):
    call: int


class Depot(Room[PlayerData]):
    """Takes its time, so that what happens to a player meanwhile has to wait."""

    grace_s = 600.0
    calls = 0

    @on(Work)
    async def work(self, player: Player[PlayerData], work: Work) -> None:
        await asyncio.sleep(5.0)
        self.broadcast(Note(work.n))

    def on_resync(self, player: Player[PlayerData]) -> None:
        self.calls += 1
        player.send(State(self.calls))


@in_virtual_time
async def test_two_resyncs_before_the_rooms_turn_are_one_state_behind_one_gap() -> None:
    async with MemoryServer([Depot]) as server:
        bob = await server.connect("bob", messages=[State, Note])
        busy = await bob.join_or_create("depot")
        ada = await server.connect("ada", messages=[State, Note])
        seat = await ada.join(busy.id)
        await busy.send(Work(1))
        await asyncio.sleep(0.1)
        (depot,) = server.rooms
        assert isinstance(depot, Depot)

        def overflow() -> None:
            for _ in range(5000):
                depot.broadcast(Note(0), exclude=[player for player in depot.players if player.id == "bob"])

        for n in (2, 3):
            server.dialer(ada).is_down = True
            server.link(ada).cut()
            await asyncio.sleep(0.1)
            if n == 2:
                server.machine.call(overflow)
            server.dialer(ada).is_down = False
            await asyncio.sleep(1.0)
            await busy.send(Work(n))
        await asyncio.sleep(60.0)

        heard = [message for message in seat.poll() if not isinstance(message, RoomUpdated) and message != Note(0)]
        assert depot.calls == 1
        assert heard[:2] == [Resynced(), State(1)]
        assert all(isinstance(message, Note) for message in heard[2:])
