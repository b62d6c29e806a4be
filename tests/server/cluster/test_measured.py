"""What the nodes of a cluster count: each sample says of which node it is, and rooms that nobody has are counted."""

import asyncio

from holdfast.testing.server import MemoryServer
from tests.server.cluster.nodes import Lounge, Nodes, Table, in_virtual_time, until


async def samples(server: MemoryServer) -> dict[tuple[str, str], float]:
    """By the name of the series and the label `node`."""
    families = await server.operate.metrics.families()
    return {(each.name, each.labels.get("node", "")): each.value for family in families for each in family.samples}


@in_virtual_time
async def test_every_sample_of_a_node_has_its_name() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "b")
        await ann.join_or_create("table")

        for name in "ab":
            shown = await samples(nodes.servers[name])

            assert {node for _, node in shown} == {name}
            assert {"holdfast_sessions", "holdfast_turn_seconds_bucket"} <= {each for each, _ in shown}
        assert (await samples(nodes.b))["holdfast_sessions_opened_total", "b"] == 1


@in_virtual_time
async def test_a_server_that_is_alone_has_no_such_label() -> None:
    async with MemoryServer([Lounge], name="one") as server:
        shown = await samples(server)

    assert {series for series, node in shown if node} == {"holdfast_node_info"}


@in_virtual_time
async def test_rooms_that_no_node_can_have_are_counted_until_one_can() -> None:
    nodes = Nodes("ab", rooms=[Table, Lounge])
    nodes.servers["b"] = MemoryServer(
        [Lounge], network=nodes.network, name="b", cluster=nodes.buses, store=nodes.store(), limits=nodes.limits
    )
    async with nodes:
        ann = await nodes.connect("ann", "a")
        await ann.create("table")
        assert (await samples(nodes.b))["holdfast_rooms_unowned", "b"] == 0

        nodes.a.crash()
        await asyncio.sleep(10.0)
        assert (await samples(nodes.b))["holdfast_rooms_unowned", "b"] == 1

        nodes.servers["c"] = nodes.server("c")
        await nodes.c.start()
        await until(lambda: len(list(nodes.c.rooms)) == 1)
        await asyncio.sleep(nodes.limits.sweep_s)
        assert (await samples(nodes.b))["holdfast_rooms_unowned", "b"] == 0
        assert (await samples(nodes.c))["holdfast_rooms_unowned", "c"] == 0


@in_virtual_time
async def test_a_takeover_leaves_no_room_without_a_node() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.create("table")

        nodes.a.crash()
        await until(lambda: bool(nodes.where(room.id)))
        await asyncio.sleep(1.0)

        for name in "bc":
            assert (await samples(nodes.servers[name]))["holdfast_rooms_unowned", name] == 0
