"""Creates rooms: those that end with the process, and those that outlive it."""

from random import Random
from typing import Any

from holdfast.core.room import Room
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.room_writer import WriterContext
from holdfast.server.rooms.listeners import RoomListeners
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.recorder import is_recorded
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.splitmix64 import SplitMix64


class RoomFactory:
    """Creates the runner of each room, with the persistence that its durability requires."""

    listeners: RoomListeners[RoomRunner]
    """Set where the server is composed, before there are rooms."""

    def __init__(self, services: RoomServices, committer: Committer | None, writers: WriterContext) -> None:
        self._services = services
        self._committer = committer
        self._writers = writers
        self._in_memory = Persistence(services)

    def make(self, room_type: type[Room[Any]], room_id: str) -> RoomRunner:
        seed = self._services.context.random.getrandbits(64)
        if room_type.durability != "memory":
            return self.make_durable(room_type, room_id, seed).runner
        # Whose state is one number if it is noted with every turn; Python's own is faster.
        is_noted = room_type.transactional or is_recorded(room_type)
        random = SplitMix64(seed) if is_noted else Random(seed)  # noqa: S311 - for games, and repeatable
        return self._runner(room_type, room_id, random, self._in_memory)

    def make_durable(self, room_type: type[Room[Any]], room_id: str, seed: int) -> StorePersistence:
        """A durable room: a new one, or one whose random numbers continue from `seed`."""
        assert self._committer is not None
        persistence = StorePersistence(self._services, self._committer)
        persistence.attach(self._runner(room_type, room_id, SplitMix64(seed), persistence), self._writers)
        return persistence

    def _runner(self, room_type: type[Room[Any]], room_id: str, random: Random, persistence: Persistence) -> RoomRunner:
        return RoomRunner(
            room_type,
            room_id,
            random=random,
            persistence=persistence,
            services=self._services,
            listeners=self.listeners,
        )
