"""Rooms go to another node in the middle of a match: no player drops, no message is lost or doubled.

    the connections of the room's sessions stand still → what they have sent is carried out → the room stands still
    → its last commit → the other node reads it, and takes the room and its sessions → the connections follow

Until the other node has said that it has them, this one can go on. If it goes on although the other one has them, its
next commit is refused, as always. Rooms whose sessions watch each other go together.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast.cluster.port import BusError, NobodyThere
from holdfast.cluster.questions import Questions
from holdfast.core.errors import Invalid, NotAllowed, NotFound, Refused, Throttled
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.schemas.cluster import MoveRooms, RoomMove, RoomsMoved, SessionMove
from holdfast.schemas.events import RoomReleased
from holdfast.server.cluster.handovers import Handovers
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.connection.connection import HeardMeanwhile, LiveConnection
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import SessionLifecycle

log = get_logger("holdfast.cluster")

_MAY_TAKE, _TAKE, _MOVE = "may_take_rooms", "take_rooms", "move_room"
_LOOK_S = 0.002
# Rooms that are handed over at the same time when a node is emptied.
_AT_ONCE = 8
_SESSIONS_AT_ONCE = 32


@dataclass(slots=True)
class _Standing:
    """A session whose connection stands still."""

    session: Session
    connection: LiveConnection
    heard: HeardMeanwhile


class Migration:
    """Hands rooms over to other nodes, and takes theirs."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode,
        *,
        rooms: Directory,
        lifecycle: SessionLifecycle,
        committer: Committer,
        takeover: Takeover,
        handovers: Handovers,
        is_asking: Callable[[Session], bool],
        is_full: Callable[[str, int], str],
    ) -> None:
        """`is_asking` says whether a request of a session is being carried out; `is_full` why this node cannot take a
        number of rooms of a kind, or "".
        """
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._node = node
        self._questions: Questions = node.questions
        self._rooms = rooms
        self._lifecycle = lifecycle
        self._committer = committer
        self._takeover = takeover
        self._handovers = handovers
        self._is_asking = is_asking
        self._is_full = is_full
        self._moving: set[str] = set()
        self._taken: dict[str, RoomsMoved] = {}
        """The answers to moves that were asked for lately, by their ids: an answer may be lost."""
        self.pauses_s: list[float] = []
        """How long the last rooms stood still."""
        self._questions.answer(_MAY_TAKE, list[str], self._may_take)
        self._questions.answer(_TAKE, MoveRooms, self._take)
        self._questions.answer(_MOVE, RoomMove, self._asked)

    # What operators ask for

    async def move(self, room_id: str, to: str) -> None:
        """Hand a room over to the node with this name or life; `Refused` if it stays where it is."""
        life = self._life_of(to)
        if self._rooms.get(room_id) is None:
            owner = await self._takeover.room(room_id)
            if owner is None:
                raise NotFound(f"there is no room {room_id!r}; it may have ended")
            if owner != self._node.life:
                try:
                    await self._questions.ask(
                        owner, _MOVE, RoomMove(room_id, life), bool, within_s=3 * self._limits.handover_s
                    )
                except BusError:
                    raise Throttled(f"the node {self._node.name_of(owner)} does not answer; try again") from None
                return
        if life != self._node.life:
            await self._move(self._rooms.runner(room_id), life)

    async def _asked(self, asked: RoomMove) -> bool:
        await self.move(asked.room, asked.to)
        return True

    def _life_of(self, name: str) -> str:
        members = self._node.watch.membership.members
        named = [life for life in (self._node.life, *members) if name in {life, self._node.name_of(life)}]
        alive = [life for life in named if self._node.is_alive(life)]
        if not alive:
            known = ", ".join(sorted(self._node.name_of(life) for life in members if self._node.is_alive(life)))
            raise NotFound(f"there is no node {name!r} in the cluster; there are: {known or 'no others'}")
        if len(alive) > 1:
            raise Invalid(f"{len(alive)} nodes have the name {name!r}: use a life, one of {', '.join(alive)}")
        return alive[0]

    async def empty(self) -> None:
        """Hand everything over that can go on elsewhere: durable rooms, and sessions without a room."""
        limit = asyncio.Semaphore(_AT_ONCE)
        runners = [runner for runner in self._rooms.runners() if runner.persistence.survives_stop]
        await asyncio.gather(*(self._give_up(runner, limit) for runner in runners))
        limit = asyncio.Semaphore(_SESSIONS_AT_ONCE)
        await asyncio.gather(*(self._send_on(session, limit) for session in self._lifecycle.registry))

    async def _give_up(self, runner: RoomRunner, limit: asyncio.Semaphore) -> None:
        async with limit:
            if self._rooms.get(runner.room.id) is not runner.room:
                return  # it went with another one, or has ended
            life = self._node.next_owner(runner.room.id, runner.room.kind)
            if life is None or life == self._node.life:
                return
            try:
                await self._move(runner, life)
            except Refused as refusal:
                log.warning("a room could not be handed over; it will be taken over", room=runner.room.id, why=refusal)

    async def _send_on(self, session: Session, limit: asyncio.Semaphore) -> None:
        async with limit:
            life = self._node.next_taker(session.id)
            is_free = session.seat is None and session.place is None and session.connection is not None
            if life is None or life == self._node.life or not is_free or self._is_asking(session):
                return
            with suppress(Refused, TimeoutError):
                await self._handovers.give(session, life, list)

    # Giving

    async def _move(self, runner: RoomRunner, life: str) -> None:
        group = self._together(runner)
        for each in group:
            if not isinstance(each.persistence, StorePersistence):
                raise NotAllowed(
                    f"room {each.room.id} ({each.room.kind}) is in memory only and cannot move: durable rooms can"
                )
            if each.room.id in self._moving or each.is_closing:
                raise Throttled(f"room {each.room.id} is moving already, or ending")
        try:
            await self._questions.ask(life, _MAY_TAKE, [each.room.kind for each in group], bool)
        except BusError:
            raise Throttled(f"the node {self._node.name_of(life)} does not answer; try again") from None
        ids = {each.room.id for each in group}
        self._moving |= ids
        try:
            await self._hand_over(group, life)
        finally:
            self._moving -= ids

    def _together(self, runner: RoomRunner) -> list[RoomRunner]:
        """The room, and those whose players watch it, or which its players watch."""
        group = {runner.room.id: runner}
        for each in (waiting := [runner]):
            for session in _members(each):
                for seat in (session.seat, session.place):
                    if seat is not None and seat.room.id not in group:
                        other = self._rooms.runner(seat.room.id)
                        group[other.room.id] = other
                        waiting.append(other)
        return list(group.values())

    async def _hand_over(self, group: Sequence[RoomRunner], life: str) -> None:
        began_at = self._clock.now()
        writers = [each.persistence.writer for each in group if isinstance(each.persistence, StorePersistence)]
        standing: dict[Session, _Standing] = {}
        try:
            await self._come_to_rest(group, standing)
            for writer in writers:
                writer.is_leaving = True
                writer.turns.freeze()
            async with asyncio.timeout(self._limits.commit_timeout_s):
                await asyncio.gather(*(self._committer.saved(writer) for writer in writers))
                sessions = list(dict.fromkeys(session for each in group for session in _members(each)))
                await asyncio.gather(*(self._committer.settled(session) for session in sessions))
            for still in standing.values():
                still.connection.write_rest()
            moves = [
                SessionMove(session.id, {channel.number: channel.sent for channel in session.channels()})
                for session in sessions
                if session in standing
            ]
            moved = await self._offered(life, [each.room.id for each in group], moves)
        except BaseException as error:
            for writer in writers:
                writer.is_leaving = False
                writer.turns.thaw()
            for still in standing.values():
                still.connection.go_on(still.heard)
            if isinstance(error, TimeoutError):
                raise Throttled("the store does not save at the moment; try again") from None
            raise
        for each in group:
            self._let_go(each)
        for session in sessions:
            self._committer.sessions.forget(session)
            self._lifecycle.give_away(session)
        self.pauses_s = [*self.pauses_s[-999:], self._clock.now() - began_at]
        await asyncio.gather(
            *(
                self._handovers.follow_with(each.connection, each.heard, life, moved.keys.get(each.session.id, b""))
                for each in standing.values()
            )
        )

    async def _come_to_rest(self, group: Sequence[RoomRunner], standing: dict[Session, _Standing]) -> None:
        """Let every connection stand still, and wait until everything that it has sent is carried out."""
        deadline = self._clock.now() + self._limits.move_rest_s
        while True:
            for session in (session for each in group for session in _members(each)):
                connection = session.connection
                if session in standing or not isinstance(connection, LiveConnection) or not connection.is_open:
                    continue
                connection.pause_reading()
                if not connection.backlog and not self._is_asking(session):
                    standing[session] = _Standing(session, connection, connection.stand_still())
            for session in [session for session, each in standing.items() if session.connection is not each.connection]:
                del standing[session]  # it dropped, or continues on a newer connection
            if all(self._is_at_rest(each, standing) for each in group):
                return
            if self._clock.now() >= deadline:
                self._leave_behind(group, standing)
                return
            await asyncio.sleep(_LOOK_S)

    @staticmethod
    def _is_at_rest(runner: RoomRunner, standing: dict[Session, _Standing]) -> bool:
        if not isinstance(runner.persistence, StorePersistence) or not runner.persistence.writer.is_at_rest:
            return False
        for session in _members(runner):
            if isinstance(session.connection, LiveConnection) and session.connection.is_open:
                if session not in standing:
                    return False
                if any(channel.accepted > channel.applied for channel in session.channels()):
                    return False
        return len(runner.turns) == 0

    def _leave_behind(self, group: Sequence[RoomRunner], standing: dict[Session, _Standing]) -> None:
        """Some clients send more than is carried out, or read nothing: they have to resume."""
        for session in list(dict.fromkeys(session for each in group for session in _members(each))):
            connection = session.connection
            is_quiet = session in standing and all(each.accepted == each.applied for each in session.channels())
            if isinstance(connection, LiveConnection) and not is_quiet:
                standing.pop(session, None)
                connection.close(Reason.MOVED, "this room moves to another node; resume")

    async def _offered(self, life: str, room_ids: list[str], sessions: list[SessionMove]) -> RoomsMoved:
        move = MoveRooms(f"{self._node.life}.{self._clock.now()}.{room_ids[0]}", room_ids, sessions)
        deadline = self._clock.now() + self._limits.handover_s
        while True:
            try:
                return await self._questions.ask(life, _TAKE, move, RoomsMoved)
            except NobodyThere as error:
                if not self._node.may_live(life) or self._clock.now() >= deadline:
                    raise Throttled("the other node has just gone; the room stays here") from error
            except BusError as error:
                if self._clock.now() >= deadline:
                    raise Throttled("the other node does not answer; the room stays here") from error
            # The same offer again: whoever has them already says so.
            await asyncio.sleep(self._limits.probe_s)

    def _let_go(self, runner: RoomRunner) -> None:
        assert isinstance(runner.persistence, StorePersistence)
        self._committer.remove(runner.persistence.writer)
        room, info = runner.room, runner.entry.public_info()
        self._publish(RoomReleased(room=room.id, reason=Reason.MOVED, info=info))
        runner.let_go()

    # Taking

    def _may_take(self, kinds: list[str]) -> bool:
        for kind in dict.fromkeys(kinds):
            if why := self._is_full(kind, len(kinds)):
                raise Throttled(why)
        return True

    async def _take(self, move: MoveRooms) -> RoomsMoved:
        if move.id in self._taken:
            return self._taken[move.id]
        # The same question may come again while this is being done.
        await self._takeover.take_moved(move.rooms)
        missing = [room_id for room_id in move.rooms if self._rooms.get(room_id) is None]
        if missing:
            raise Throttled(f"room {missing[0]} could not be restored here; the log of this node says why")
        if move.id not in self._taken:
            keys = {
                each.session: self._handovers.expect(session, each.sent)
                for each in move.sessions
                if (session := self._lifecycle.registry.get(each.session)) is not None
            }
            self._taken[move.id] = RoomsMoved(keys)
            self._clock.loop.call_later(3 * self._limits.handover_s, self._taken.pop, move.id, None)
        return self._taken[move.id]


def _members(runner: RoomRunner) -> Iterable[Session]:
    """The sessions with a seat in a room, and those that watch it."""
    return [seat.session for seat in (*runner.context.seats.occupied, *(runner.context.spectators or ()))]
