"""Creates rooms: those that end with the process, and those that outlive it."""

from random import Random
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.room_writer import RoomWriter, WriterContext
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.persistence import InMemory
from holdfast.server.rooms.runner import RoomListeners, RoomRunner
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.splitmix64 import SplitMix64


class RoomFactory:
    """Creates the runner of each room, with the persistence that its durability requires."""

    listeners: RoomListeners
    """Set where the server is composed, before there are rooms."""

    def __init__(self, services: RoomServices, committer: Committer | None, writers: WriterContext) -> None:
        self._services = services
        self._committer = committer
        self._writers = writers
        self._random = services.context.random
        # One number and one bound method shared by all outlets.
        self._body_bytes_max = services.context.limits.payload_bytes_max - FRAME_HEAD_BYTES
        self._overflowed = services.lifecycle.overflowed
        self._in_memory = InMemory(
            services.outbox, self._random, make_outlet=self._outlet, forget_session=self._forget_session
        )

    def make(self, room_type: type[Room[Any]], room_id: str) -> RoomRunner:
        seed = self._random.getrandbits(64)
        if room_type.durability != "memory":
            return self.make_durable(room_type, room_id, seed).runner
        return RoomRunner(
            room_type,
            room_id,
            random=Random(seed),  # noqa: S311 - for games, and repeatable
            persistence=self._in_memory,
            services=self._services,
            listeners=self.listeners,
        )

    def make_durable(self, room_type: type[Room[Any]], room_id: str, seed: int) -> StorePersistence:
        """A durable room: a new one, or one whose random numbers continue from `seed`."""
        assert self._committer is not None
        persistence = StorePersistence(
            self._committer,
            self._services.context,
            overflowed=self._services.lifecycle.overflowed,
        )
        runner = RoomRunner(
            room_type,
            room_id,
            random=SplitMix64(seed),
            persistence=persistence,
            services=self._services,
            listeners=self.listeners,
        )
        writer = RoomWriter(
            self._writers,
            runner,
            is_at_rest=lambda: persistence.is_at_rest,
            changed=persistence.changed,
            fenced=persistence.fenced,
        )
        persistence.attach(runner, writer)
        return persistence

    def _outlet(self, session: Session, channel: Channel) -> ChannelOutlet:
        return ChannelOutlet(
            session,
            channel,
            body_bytes_max=self._body_bytes_max,
            overflowed=self._overflowed,
        )

    def _forget_session(self, session: Session) -> None:
        if self._committer is not None:
            # The client learns of its freed seat once the store has forgotten the session: it must not return without
            # it.
            self._committer.sessions.ended(session)
            self._committer.sessions.hold(session)
