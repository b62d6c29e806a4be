"""A client that another node relays has the limits of its own address, and costs bounded memory at both."""

import asyncio
from dataclasses import replace

from holdfast.client.room import ClientRoom
from holdfast.core.limits import Limits
from holdfast.testing.server import generous
from tests.server.cluster.nodes import Nodes, Said, Say, Table, in_virtual_time, until


async def texts(room: ClientRoom, count: int) -> list[str]:
    async with asyncio.timeout(60):
        return [(await room.receive(Said)).text for _ in range(count)]


@in_virtual_time
async def test_a_relayed_client_that_sends_too_much_is_slowed_down_like_any_other() -> None:
    limits = replace(generous(), messages_per_s=10.0, messages_burst=20)
    async with Nodes("ab", limits=limits) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)

        for number in range(200):
            await bobs.send(Say(str(number)))
        await until(lambda: nodes.a.counters.messages_throttled > 0)

        assert nodes.b.counters.messages_throttled == 0


@in_virtual_time
async def test_a_relayed_client_that_reads_nothing_holds_up_nobody_and_costs_a_window() -> None:
    async with Nodes("ab", limits=replace(generous(Limits()), silence_s=1e6, unread_s=1e6)) as nodes:
        ann, bob, cat = [await nodes.connect(name, at) for name, at in (("ann", "a"), ("bob", "b"), ("cat", "b"))]
        anns = await ann.join_or_create("table")
        await bob.join(anns.id)
        cats = await cat.join(anns.id)
        nodes.b.link(bob).stall()
        cluster_a = nodes.a.parts.cluster
        assert cluster_a is not None

        most = 0
        for number in range(400):
            await anns.send(Say(f"{number} " + "x" * 8000))
            assert len(await texts(cats, 1)) == len(await texts(anns, 1)) == 1
            session = nodes.a.sessions.get(bob.id)
            if session is not None and session.connection is not None:
                most = max(most, session.connection.transport.buffered_bytes)  # type: ignore[attr-defined]  # is live

        room = nodes.a.rooms.get(anns.id)
        assert isinstance(room, Table)
        assert len(room.state.said) >= 400
        limits = nodes.limits
        assert 0 < most <= limits.write_buffer_bytes_max + limits.relay_unread_bytes_max + 16_000


@in_virtual_time
async def test_good_resumes_by_another_node_cost_the_address_nothing_in_the_end() -> None:
    limits = replace(generous(), hellos_per_address_per_s=0.001, hellos_per_address_burst=10)
    async with Nodes("ab", limits=limits) as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("table")
        nodes.a._stop_listening()  # noqa: SLF001 - the way to its node is closed
        for number in range(30):
            nodes.a.link(ann).cut()
            await room.send(Say(str(number)))
            await asyncio.sleep(10.0)
        said = [each for each in await texts(room, 30) if each.startswith("ann")]
        assert len(said) == 30
