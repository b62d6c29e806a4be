"""A node that was cut off, and whose rooms others have taken meanwhile, tells nobody anything that is not so."""

import asyncio

from holdfast import Outcome
from holdfast.client.room import ClientRoom
from holdfast.testing.bus import MemoryBus
from holdfast.testing.network import Dialer
from holdfast.transports.port import Receiver, Subprotocol, Transport, TransportLimits
from tests.server.cluster.nodes import Nodes, Said, Say, in_virtual_time, until


def bus_of(nodes: Nodes, name: str) -> MemoryBus:
    cluster = nodes.servers[name].parts.cluster
    assert cluster is not None
    bus = cluster.node.bus
    assert isinstance(bus, MemoryBus)
    return bus


class Steered(Dialer):
    """Dials the address that the test wants."""

    to = ""

    async def __call__(
        self, receiver: Receiver, _: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        return await super().__call__(receiver, self.to, subprotocol, limits)


async def say(room: ClientRoom, text: str) -> int:
    async with asyncio.timeout(60):
        await room.send(Say(text))
        return (await room.receive(Said)).number


@in_virtual_time
async def test_a_room_that_another_node_has_is_given_up_as_soon_as_its_former_node_is_heard_again() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        nodes.buses.cut(bus_of(nodes, "a"))
        await until(lambda: nodes.where(room.id) == ["a", "b"])

        nodes.buses.mend(bus_of(nodes, "a"))

        # Although nothing happens in it.
        await until(lambda: nodes.where(room.id) == ["b"])
        assert await say(room, "two") == 2


@in_virtual_time
async def test_a_player_who_returns_to_a_node_that_lost_the_room_unnoticed_is_not_told_that_it_was_rolled_back() -> (
    None
):
    async with Nodes("ab") as nodes:
        outcomes: list[Outcome] = []
        steered = Steered(nodes.network, "ann")
        steered.to = nodes.a.address
        ann = await nodes.a.connect("ann", dial=steered, messages=[Said])
        ann.on_resume(outcomes.append)
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        # Away, so that nothing happens in the room on this node later.
        steered.is_down = True
        steered.link.cut()
        await asyncio.sleep(1.0)
        nodes.buses.cut(bus_of(nodes, "a"))
        await until(lambda: nodes.where(room.id) == ["a", "b"])
        steered.to, steered.is_down = nodes.b.address, False
        assert [await say(room, text) for text in ("two", "three")] == [3, 4]

        # Nobody has told it, and it asks nobody: it has a session with this id.
        steered.to = nodes.a.address
        steered.link.cut()
        await until(lambda: nodes.where(room.id) == ["b"])
        nodes.buses.mend(bus_of(nodes, "a"))
        number = await say(room, "four")

        assert number == 6, "after these and two drops"
        assert [outcome.kind for outcome in outcomes] == ["resumed"] * len(outcomes)
