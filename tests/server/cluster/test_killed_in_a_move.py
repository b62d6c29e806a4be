"""A node is killed at each step of a move: the one that gives, or the one that takes. Nothing is lost or doubled."""

import asyncio
from contextvars import Context

import pytest

from holdfast.client.room import ClientRoom
from holdfast.core.errors import Refused
from tests.migration_steps import STEPS, WHEN, Step, once_at
from tests.server.cluster.nodes import Nodes, Said, Say, Table, in_virtual_time, until

TEXTS = 12


async def play(room: ClientRoom, name: str) -> list[str]:
    """Say something again and again; what was heard of it."""
    heard: list[str] = []
    for number in range(TEXTS):
        await room.send(Say(str(number)))
        while not heard or heard[-1] != f"{name}:{number}":
            text = (await room.receive(Said)).text
            if text.startswith(name):
                heard.append(text)
        await asyncio.sleep(0.02)
    return heard


@pytest.mark.parametrize("victim", ["a", "b"], ids=["giver", "taker"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_a_node_may_die_at_any_step_of_a_move(step: Step, when: str, victim: str) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Nodes("abc") as nodes:
            ann = await nodes.connect("ann", "a", "b", "c")
            bob = await nodes.connect("bob", "c", "b", "a")
            room = await ann.join((await ann.create("table")).id)
            same = await bob.join(room.id)
            playing = [asyncio.ensure_future(play(each, name)) for each, name in ((room, "ann"), (same, "bob"))]
            await asyncio.sleep(0.03)
            killed: list[str] = []

            def kill() -> None:
                killed.append(victim)
                # Not from within its own work.
                asyncio.get_running_loop().call_soon(nodes.servers[victim].crash, context=Context())

            with once_at(step, when, kill):
                moving = asyncio.ensure_future(nodes.a.machine.do(nodes.migration("a").move(room.id, "b")))
                await asyncio.wait([moving], timeout=30)
            if victim == "a":
                moving.cancel()
            elif (error := moving.exception()) is not None:
                assert isinstance(error, Refused), error
            async with asyncio.timeout(120):
                heard = await asyncio.gather(*playing)

            assert killed == [victim]
            assert heard == [[f"{name}:{number}" for number in range(TEXTS)] for name in ("ann", "bob")]
            await until(lambda: len(nodes.where(room.id)) == 1)
            [owner] = nodes.where(room.id)
            table = nodes.servers[owner].rooms.get(room.id)
            assert isinstance(table, Table)
            for name in ("ann", "bob"):
                said = [text for text in table.state.said if text.startswith(name)]
                assert said == [f"{name}:{number}" for number in range(TEXTS)]

    story()
