"""What the simulation has found where servers fall, each reduced to the few steps that it takes."""

import asyncio
from typing import Any

from msgspec import Struct

from holdfast import Limits, Message, Outcome, Player, PlayerData, Reason, Room, on
from holdfast.core.room import Durability
from holdfast.testing import FaultyStore, MemoryServer
from tests.saved_sessions import storage_of
from tests.simulation.stage import a_moment, in_virtual_time

LATENCY_S = 0.02


class Say(Message):
    text: str


class Minutes(Struct):
    said: list[str] = []
    members: list[str] = []


class Table(Room[PlayerData]):
    durability: Durability = "commit"
    state: Minutes

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Minutes()

    def on_join(self, player: Player[PlayerData]) -> Any:
        self.state.members.append(player.id)

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> Any:
        self.state.members.remove(player.id)

    def on_resync(self, player: Player[PlayerData]) -> Any:
        player.send(Say("the state"))

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.state.said.append(say.text)
        self.broadcast(say)


class Lounge(Table):
    durability = "memory"

    async def on_join(self, player: Player[PlayerData]) -> None:
        await a_moment()
        super().on_join(player)


class Bar(Table):
    disconnect = "hard"


class Diary(Table):
    durability = "checkpoint"
    checkpoint_s = 1.0


def serve(store: FaultyStore | None = None, **options: Any) -> MemoryServer:
    store = store or FaultyStore(latency_s=LATENCY_S)
    return MemoryServer([Table, Lounge, Diary, Bar], store=store, **options)


@in_virtual_time
async def test_a_used_token_stays_used_when_the_server_crashes() -> None:
    async with serve() as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("table")
        stolen = ada.protocol.save()
        server.link(ada).cut()
        await room.send(Say("I am back, with another token"))
        await room.flush()
        server.dialer(ada).is_down = True
        server.crash()
        await server.start()

        thief = await server.connect("ada", saved=storage_of(stolen))

        assert thief.outcome is not None
        assert thief.outcome.kind == "reset"


@in_virtual_time
async def test_a_welcome_that_waits_for_a_full_disk_is_not_preceded_by_messages() -> None:
    limits = Limits(store_patience_s=0.5, store_retry_s=0.1)
    store = FaultyStore(latency_s=LATENCY_S)
    async with serve(store, limits=limits) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("table")
        await room.send(Say("kept"))
        server.link(ada).stop_reading("client")
        await a_moment()
        store.is_full = True
        server.link(ada).cut()
        await asyncio.sleep(3.0)
        store.is_full = False

        assert await room.receive() == Say("kept")
        assert server.counters.protocol_errors == 0
        assert ada.connected


@in_virtual_time
async def test_who_moves_on_to_a_room_in_memory_hears_of_it_when_the_store_has_forgotten_them() -> None:
    store = FaultyStore(latency_s=LATENCY_S)
    async with serve(store) as server:
        ada = await server.connect("ada", messages=[Say])
        table = await ada.join_or_create("table")
        await table.leave()

        joining = asyncio.create_task(ada.join_or_create("lounge"))
        while ada.room is None:  # noqa: ASYNC110 - costs nothing in virtual time
            await asyncio.sleep(0.001)

        assert not [key for key in store.disk.entries if key.startswith("session/")]
        await joining


@in_virtual_time
async def test_a_client_is_told_that_its_room_was_rewound_also_if_the_first_welcome_is_lost() -> None:
    outcomes: list[Outcome] = []
    async with serve() as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("diary")
        ada.on_resume(outcomes.append)
        await room.send(Say("lost"))
        await room.flush()
        dialer = server.dialer(ada)
        dialer.latency_s = 0.4
        server.crash()
        await server.start()
        (session,) = server.sessions.of_player("ada")
        while not session.resumes:  # noqa: ASYNC110 - costs nothing in virtual time
            await asyncio.sleep(0.01)
        dialer.latency_s = None
        server.link(ada).cut()
        await asyncio.sleep(5.0)

    assert [outcome.kind for outcome in outcomes] == ["resynced"]
    assert outcomes[0].age_s


@in_virtual_time
async def test_no_seat_is_lost_by_an_orderly_stop() -> None:
    async with serve() as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("bar")

        await server.stop()
        await server.start()

        bar = server.rooms.get(room.id)
        assert bar is not None
        assert [player.id for player in bar.players] == bar.state.members == ["ada"]


class Clock(Table):
    """Shows a time that is never the same."""

    durability = "checkpoint"
    checkpoint_s = 60.0
    shares = ("state",)
    tick_hz = 20

    def on_tick(self, dt_s: float) -> None:
        self.state.said = [str(self.random.random())]


@in_virtual_time
async def test_a_slow_reader_of_a_checkpoint_room_is_shown_nothing_after_the_last_record_of_an_orderly_stop() -> None:
    store = FaultyStore()
    limits = Limits(window_messages_max=2, ack_messages=1, ack_s=0.01)
    async with MemoryServer([Clock], store=store, limits=limits) as server:
        server.network.latency_s = 0.1
        session = await server.connect("ann", messages=[Say])
        outcomes: list[Outcome] = []
        session.on_resume(outcomes.append)
        await session.join_or_create("clock")
        await asyncio.sleep(3.0)

        store.latency_s = 0.5
        await server.stop()
        store.latency_s = 0.0
        await server.start()
        await asyncio.sleep(10.0)

        assert [outcome.reason for outcome in outcomes] == [""]
        assert server.counters.clients_rolled_back == 0
