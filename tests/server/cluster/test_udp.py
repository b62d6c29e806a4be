"""UDP beside a stream, for clients whose session is on another node than their connection, or moves there."""

import asyncio

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.testing import UdpNetwork
from tests.server.cluster.nodes import Nodes, in_virtual_time, until


class Aim(Message):
    angle: int


class Field(Room[PlayerData]):
    """Tells everybody where everybody aims."""

    durability = "commit"
    max_players = 8

    @on(Aim)
    def aimed(self, _: Player[PlayerData], aim: Aim) -> None:
        for each in self.players:
            each.send_latest(aim)


@in_virtual_time
async def test_unreliable_messages_arrive_wherever_the_room_is_and_while_it_moves() -> None:
    udp = UdpNetwork(latency_s=0.01)
    async with Nodes("ab", rooms=(Field,), udp=udp) as nodes:
        ann = await nodes.a.connect("ann", messages=[Aim])
        bob = await nodes.b.connect("bob", messages=[Aim])
        mine = await ann.join_or_create("field")
        theirs = await bob.join(mine.id)
        assert nodes.where(mine.id) == ["a"]
        await until(lambda: ann.latest_transport == bob.latest_transport == "udp")

        mine.send_latest(Aim(1))
        assert [await room.receive(Aim) for room in (mine, theirs)] == [Aim(1)] * 2
        theirs.send_latest(Aim(2))
        assert [await room.receive(Aim) for room in (mine, theirs)] == [Aim(2)] * 2

        await nodes.migration("a").move(mine.id, "b")
        await asyncio.sleep(1)
        for number, room in enumerate((mine, theirs), start=3):
            room.send_latest(Aim(number))
            assert [await each.receive(Aim) for each in (mine, theirs)] == [Aim(number)] * 2

        assert (ann.drops, bob.drops) == (0, 0)
        assert nodes.a.counters.datagrams_forged == nodes.b.counters.datagrams_forged == 0


@in_virtual_time
async def test_a_client_that_is_relayed_from_its_hello_on_uses_the_stream() -> None:
    udp = UdpNetwork()
    async with Nodes("ab", rooms=(Field,), udp=udp) as nodes:
        ann = await nodes.a.connect("ann", url=[nodes.a.address, nodes.b.address], messages=[Aim])
        room = await ann.join_or_create("field")
        await until(lambda: ann.latest_transport == "udp")
        nodes.a._stop_listening()  # noqa: SLF001 - so that it comes back by the other node

        nodes.a.link(ann).cut()
        await until(lambda: ann.drops == 1 and ann.connected)
        await asyncio.sleep(10)

        assert ann.latest_transport == "memory"
        room.send_latest(Aim(5))
        assert await room.receive(Aim) == Aim(5)
