"""A room whose turns last as long as a test likes."""

import asyncio

from holdfast import Player, on
from tests.server.world import Chat, Hero, Said, Say


class Slow(Chat):
    """Is in the middle of something for as long as the test likes."""

    gate: asyncio.Event

    def on_tick(self, dt_s: float) -> None:
        self.story.tell("tick")

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("begin", say.text)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.story.tell("end", say.text)
        self.broadcast(Said(player.id, say.text))


def gate_of(kind: type[Chat]) -> asyncio.Event:
    gate = kind.gate  # type: ignore[attr-defined] # of `Slow` and `Undecided`
    assert isinstance(gate, asyncio.Event)
    return gate
