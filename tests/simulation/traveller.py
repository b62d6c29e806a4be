"""A player of a cluster: what others do, and they go to rooms on other nodes, and come to other nodes."""

import asyncio
from typing import TYPE_CHECKING, cast

from tests.simulation.player import Actor
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster_world import ClusterWorld, NodeDialer
    from tests.simulation.world import World


class Traveller(Actor):
    """One player with one program at a time, sometimes two."""

    world: "ClusterWorld"

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._steps |= {self.visit: 12, self.hop: 8}

    async def visit(self, process: Process) -> None:
        """Go to a room somewhere, by its id."""
        rooms = self.world.rooms()
        if rooms:
            await self.move(process)
            self.checker.count("visits")
            await process.join("", self.random.choice(rooms).id)

    async def hop(self, process: Process) -> None:
        """Lose the connection, and find the node gone: the next one has to do."""
        dialer = cast("NodeDialer", process.dialer)
        dialer.barred = self.world.address_of(dialer.link)
        self.checker.count("hops")
        process.session.cut()
        self.world.start(self._unbar(dialer, self.random.choice([0.5, 3.0, 10.0])))

    async def _unbar(self, dialer: "NodeDialer", after_s: float) -> None:
        await asyncio.sleep(after_s)
        dialer.barred = ""
