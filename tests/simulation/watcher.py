"""A player who only watches: what they do, and the programs they do it with."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast import ClientRoom, Outcome
from tests.simulation.player import Actor
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

# The part of what spectators say that asks for a seat.
PROMOTIONS = 0.04


class WatchingProcess(Process):
    """A program whose room is the one that its session watches."""

    def _room(self) -> ClientRoom | None:
        return self.session.spectating

    async def _join(self, kind: str, room_id: str | None) -> None:
        if room_id is not None:
            await self.session.spectate(room_id)

    def _resumed(self, outcome: Outcome) -> None:
        if outcome.reason == "rolled_back":
            # A place that never was may have left its number to another, in the same room.
            self._saved.clear()
        super()._resumed(outcome)


class Watcher(Actor):
    """Watches one room after the other, and now and then is given a seat, which they give back."""

    process_type = WatchingProcess
    # A slow room must not be kept from its players.
    words_max = 3

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        steps: dict[Callable[[Process], Awaitable[None]], int] = {
            self.talk: 30,
            self.flush: 10,
            self.talk_and_be_cut: 10,
            self.save: 6,
            self.read_slowly: 6,
            self.move: 8,
            self.crash: 8,
            self.suspend: 4,
            self.say_bye: 2,
        }
        self._steps = steps

    async def ready(self) -> Process:
        """A program that runs, and watches a room if there is one."""
        process = self.process
        if process is None or process.is_over:
            process = await self.begin()
        if process.sit() is None:
            self._unflushed.clear()
            seat = process.session.room
            if seat is not None:
                await seat.leave()
            # One without players is about to end.
            rooms = list(self.world.server.rooms) if self.world.is_up else []
            rooms = [room for room in rooms if any(not player.is_agent for player in room.players)]
            if rooms:
                self.checker.count("spectators")
                await process.join("", self.random.choice(rooms).id)
        return process

    def _wish(self) -> str:
        return "promote" if not self.world.game.is_quiet and self.random.random() < PROMOTIONS else ""
