"""A player who watches, and may play elsewhere at the same time: what they do, and the programs they do it with."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast import ClientRoom
from tests.simulation.player import Actor
from tests.simulation.process import Process, Sitting, is_present

if TYPE_CHECKING:
    from tests.simulation.world import World

# The part of what spectators say that asks for a seat.
PROMOTIONS = 0.04


class WatchingProcess(Process):
    """A program whose room is the one that its session watches. It reads from its seat elsewhere, too."""

    own_sitting: Sitting | None = None

    def _room(self) -> ClientRoom | None:
        return self.session.spectating

    def sittings(self) -> list[Sitting]:
        return [*super().sittings(), *([self.own_sitting] if self.own_sitting is not None else [])]

    def sit(self) -> Sitting | None:
        self.own_sit()
        return super().sit()

    def own_sit(self) -> Sitting | None:
        """Begin to read from the seat of the session, if it is a new one."""
        self.own_sitting = self._sitting_in(self.session.room, self.own_sitting)
        return self.own_sitting if is_present(self.own_sitting) else None

    async def _join(self, kind: str, room_id: str | None) -> None:
        if room_id is not None:
            await self.session.spectate(room_id)
        else:
            self.is_moving_to_memory = self.world.durability[kind] == "memory"
            if self.is_moving_to_memory:
                self.world.game.light.add(self.session.id)
            try:
                await self.session.join_or_create(kind)
            finally:
                self.own_sit()
                self.is_moving_to_memory = False


class Watcher(Actor):
    """Watches one room after the other. Now and then they are given a seat, or take one elsewhere."""

    process_type = WatchingProcess

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        steps: dict[Callable[[WatchingProcess], Awaitable[None]], int] = {
            self.talk: 30,
            self.flush: 10,
            self.talk_and_be_cut: 10,
            self.save: 6,
            self.read_slowly: 6,
            self.move: 8,
            self.crash: 8,
            self.suspend: 4,
            self.clone: 3,
            self.say_bye: 2,
            self.play: 8,
            self.talk_from_the_seat: 15,
            self.leave_the_seat: 4,
        }
        self._steps = steps  # type: ignore[assignment]  # all its processes are such

    async def ready(self) -> Process:
        """A program that runs, and watches a room if there is one."""
        process = self.process
        if process is None or process.is_over:
            process = await self.begin()
        assert isinstance(process, WatchingProcess)
        if process.sit() is None:
            self._unflushed.clear()
            if self.random.random() < 0.5:
                await self.leave_the_seat(process)
            rooms = self.world.rooms()
            own = process.session.room
            rooms = [room for room in rooms if own is None or room.id != own.id]
            if rooms:
                self.checker.count("spectators")
                await process.join("", self.random.choice(rooms).id)
        return process

    def _wish(self) -> str:
        return "promote" if not self.world.game.is_quiet and self.random.random() < PROMOTIONS else ""

    # With a seat elsewhere

    async def play(self, process: WatchingProcess) -> None:
        """Take a seat: in another room, or in the one that they watch."""
        if process.own_sit() is None:
            await process.join(self.random.choice(self.world.kinds).kind)
            self.checker.count("spectators with a seat", process.own_sit() is not None)

    async def talk_from_the_seat(self, process: WatchingProcess) -> None:
        """Send a few operations there."""
        for _ in range(self.random.randint(1, self.words_max)):
            sitting = process.own_sit()
            if sitting is None:
                return
            await process.send(is_refused=False, ballast=0, sitting=sitting)

    async def leave_the_seat(self, process: WatchingProcess) -> None:
        """Only watch from now on."""
        sitting = process.own_sit()
        if sitting is not None:
            await sitting.room.leave()
            sitting.has_left = True

    def own_sitting(self) -> Sitting | None:
        """Their seat, if they have one."""
        process = self.process
        return process.own_sit() if isinstance(process, WatchingProcess) and not process.is_over else None

    async def has_settled(self) -> bool:
        """See `Actor`; and the same for the seat, if there is one."""
        if not await super().has_settled():
            return False
        process, sitting = self.process, self.own_sitting()
        if process is None or sitting is None:
            return True
        await process.send(is_refused=False, ballast=0, sitting=sitting)
        return await self._is_answered(process, sitting)
