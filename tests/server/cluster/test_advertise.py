"""A relayed client connects to its session's node itself, if that has an address of its own; nobody sees a drop."""

import asyncio

from holdfast import Player
from holdfast.client.nearer import AGAIN_S
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession
from holdfast.testing.server import MemoryServer
from tests.server.cluster.nodes import Hero, Nodes, Said, Say, Table, in_virtual_time, until


class Strict(Table):
    """Notes all that it hears of drops, and lets nobody come back."""

    kind = "strict"
    disconnect = "hard"

    def on_rejoin(self, player: Player[Hero]) -> None:
        self.state.said.append(f"rejoin {player.id}")

    def on_leave(self, player: Player[Hero], reason: str) -> None:
        self.state.said.append(f"leave {player.id}")


def own_address(name: str) -> str:
    return f"memory://{name}"


class Watched:
    """A session, and all that its program hears of its connection."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.heard: list[object] = []
        session.on_drop(self.heard.append)
        session.on_resume(self.heard.append)
        session.on_reconnecting(self.heard.append)


def is_direct(server: MemoryServer, session: ClientSession) -> bool:
    here = server.sessions.get(session.id)
    connection = here.connection if here is not None else None
    return connection is not None and connection.transport_kind == "memory"


async def talk(room: ClientRoom, name: str, count: int, start: int = 0) -> list[str]:
    """What the player of this name says, as the room repeats it."""
    for number in range(start, start + count):
        await room.send(Say(str(number)))
        await asyncio.sleep(0.01)
    heard: list[str] = []
    async with asyncio.timeout(60):
        while len(heard) < count:
            said = (await room.receive(Said)).text
            if said.startswith(name):
                heard.append(said.partition(":")[2])
    return heard


@in_virtual_time
async def test_a_player_who_joins_a_room_elsewhere_goes_to_its_node_without_a_drop() -> None:
    async with Nodes("ab", rooms=[Strict], advertise=own_address) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        watched = Watched(bob)
        room = await ann.join_or_create("strict")

        bobs = await bob.join(room.id)
        said = await talk(bobs, "bob", 50)
        await until(lambda: is_direct(nodes.a, bob))
        said += await talk(bobs, "bob", 10, 50)

        assert said == [str(number) for number in range(60)]
        assert watched.heard == []
        assert bob.drops == 0
        strict = nodes.a.rooms.get(room.id)
        assert isinstance(strict, Strict)
        assert strict.state.said == [f"bob:{number}" for number in range(60)]
        await until(lambda: len(nodes.b.parts.connections) == 0)


@in_virtual_time
async def test_a_client_that_resumes_by_another_node_goes_to_its_own() -> None:
    async with Nodes("ab", advertise=own_address) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        bobs = await bob.join((await ann.join_or_create("table")).id)
        await until(lambda: is_direct(nodes.a, bob))
        await asyncio.sleep(AGAIN_S)

        # It comes back by the address that it was given, which is that of the other node.
        bob.cut()
        await until(lambda: bob.drops == 1 and bob.connected)
        said = await talk(bobs, "bob", 50)

        assert said == [str(number) for number in range(50)]
        assert is_direct(nodes.a, bob)
        assert bob.drops == 1
        assert nodes.a.counters.takeovers == 2, "it came relayed, and went there"


@in_virtual_time
async def test_a_node_that_cannot_be_reached_relays_on() -> None:
    async with Nodes("ab", advertise=lambda name: f"memory://{name}-behind-a-firewall") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        watched = Watched(bob)
        bobs = await bob.join((await ann.join_or_create("table")).id)

        said = await talk(bobs, "bob", 500)

        assert said == [str(number) for number in range(500)]
        assert watched.heard == []
        assert not is_direct(nodes.a, bob)


@in_virtual_time
async def test_a_node_without_an_address_relays() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        bobs = await bob.join((await ann.join_or_create("table")).id)

        await talk(bobs, "bob", 50)

        assert not is_direct(nodes.a, bob)


@in_virtual_time
async def test_an_address_of_another_node_sends_nobody_round_and_round() -> None:
    async with Nodes("ab", advertise={"a": "memory://b", "b": ""}.get) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        watched = Watched(bob)
        bobs = await bob.join((await ann.join_or_create("table")).id)

        said = await talk(bobs, "bob", 2000)

        assert said == [str(number) for number in range(2000)]
        assert watched.heard == []
        assert nodes.a.counters.takeovers == 1


@in_virtual_time
async def test_a_move_costs_nothing_of_what_was_said_in_either_direction() -> None:
    for seed in range(8):
        async with Nodes("abc", seed=seed, advertise=own_address) as nodes:
            ann = await nodes.connect("ann", "a")
            others = [await nodes.connect(name, "b" if name < "p" else "c") for name in ("bob", "cat", "pat", "zoe")]
            room = await ann.join_or_create("table")
            rooms = [await each.join(room.id) for each in others]

            async def chat(each: ClientRoom, name: str) -> list[str]:
                for number in range(30):
                    await each.send(Say(f"{name}{number}"))
                    await asyncio.sleep(0.007)
                async with asyncio.timeout(60):
                    return [(await each.receive(Said)).text for _ in range(120)]

            heard = await asyncio.gather(*(chat(each, name) for each, name in zip(rooms, "bcpz", strict=True)))
            assert all(is_direct(nodes.a, each) for each in others)

            table = nodes.a.rooms.get(room.id)
            assert isinstance(table, Table)
            said = table.state.said
            assert len(said) == len(set(said)) == 120
            assert not any(each.startswith("drop") for each in said)
            assert all(each == said for each in heard)


@in_virtual_time
async def test_a_client_that_closes_while_it_moves_leaves_no_connection_behind() -> None:
    for turns in range(40):
        async with Nodes("ab", advertise=own_address) as nodes:
            ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
            await bob.join((await ann.join_or_create("table")).id)

            for _ in range(turns):
                await asyncio.sleep(0)
            await bob.close()

            await until(lambda: len(nodes.a.parts.connections) == 1 and len(nodes.b.parts.connections) == 0)
