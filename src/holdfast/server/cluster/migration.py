"""Rooms go to another node in the middle of a match: no player drops, no message is lost or doubled.

    the connections of the room's sessions stand still → what they have sent is carried out → the room stands still
    → its last commit → the other node reads it, and takes the room and its sessions → the connections follow

Until the other node has said that it has them, this one can go on. If it goes on although the other one has them, its
next commit is refused, as always. Rooms whose sessions watch each other go together.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.cluster.port import BusError
from holdfast.cluster.questions import Questions
from holdfast.core.errors import NotAllowed, NotFound, Refused, Throttled
from holdfast.core.messages import SeatLeft
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.schemas.cluster import MoveRooms, RoomEnd, RoomMove, RoomsMoved, SessionMove
from holdfast.schemas.events import RoomMoved, RoomReleased
from holdfast.server.cluster.departures import Departures
from holdfast.server.cluster.finder import Unsure
from holdfast.server.cluster.handovers import Handovers
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.connection.buffers import HeardMeanwhile
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.outbox import Outbox, StartedEffect
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.turns import RoomGone
from holdfast.server.sessions import SessionLifecycle
from holdfast.stores.port import StoreError

log = get_logger("holdfast.cluster")

_MAY_TAKE, _TAKE, _MOVE, _END = "may_take_rooms", "take_rooms", "move_room", "end_room"
# Rooms that are handed over at the same time when a node is emptied.
_AT_ONCE = 16
_SESSIONS_AT_ONCE = 32
# How often a room is asked to come to rest when a node is emptied.
_TRIES = 3
_PAUSES_KEPT = 1000


@dataclass(slots=True)
class _Standing:
    """A session whose connection stands still."""

    session: Session
    connection: LiveConnection
    heard: HeardMeanwhile


@dataclass(slots=True)
class _Moving:
    """Rooms that go to another node together."""

    life: str
    """Of the node that is to have them."""
    rooms: dict[str, RoomRunner]
    standing: dict[Session, _Standing] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    """All that go with the rooms, connected or not."""
    to_resume: set[Session] = field(default_factory=set)
    """Those whose connection cannot follow."""
    ended: dict[Session, tuple[Reason, str]] = field(default_factory=dict)
    """Those that have ended meanwhile, and why."""
    effects: list[StartedEffect] = field(default_factory=list)
    """What was being carried out for the rooms."""

    @property
    def writers(self) -> list[tuple[RoomRunner, RoomWriter]]:
        runners = self.rooms.values()
        return [(each, each.persistence.writer) for each in runners if isinstance(each.persistence, StorePersistence)]

    @property
    def members(self) -> list[Session]:
        return list(dict.fromkeys(session for runner in self.rooms.values() for session in _members(runner)))


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
        outbox: Outbox,
        takeover: Takeover,
        handovers: Handovers,
        departures: Departures,
        is_asking: Callable[[Session], bool],
        answered: Callable[[Session], Awaitable[None]],
        is_full: Callable[[str, int], str],
    ) -> None:
        """`is_asking` says whether a request of a session is being carried out, `answered` waits until none is;
        `is_full` says why this node cannot take a number of rooms of a kind, or "".
        """
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._node = node
        self._questions: Questions = node.questions
        self._rooms = rooms
        self._lifecycle = lifecycle
        self._committer = committer
        self._outbox = outbox
        self._takeover = takeover
        self._handovers = handovers
        self._departures = departures
        self._is_asking = is_asking
        self._answered = answered
        self._is_full = is_full
        self._numbers = itertools.count(1)
        self._moving: dict[str, _Moving] = {}
        """By room."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._taken: dict[str, RoomsMoved] = {}
        """The answers to moves that were asked for lately, by their ids: an answer may be lost."""
        self.pauses_s: deque[float] = deque(maxlen=_PAUSES_KEPT)
        """How long the last rooms stood still."""
        self._questions.answer(_MAY_TAKE, list[str], self._may_take)
        self._questions.answer(_TAKE, MoveRooms, self._take)
        self._questions.answer(_MOVE, RoomMove, self._asked)
        self._questions.answer(_END, RoomEnd, self._ended_meanwhile)

    async def stop(self) -> None:
        """Rooms that are being moved stay here: this node is about to save them."""
        tasks = [*self._tasks, *self._telling]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # What operators ask for

    async def move(self, room_id: str, to: str) -> None:
        """Hand a room over to the node with this name or life; `Refused` if it stays where it is."""
        life = self._node.life_of(to)
        if self._rooms.get(room_id) is None:
            try:
                owner = await self._takeover.room(room_id)
            except (Unsure, StoreError):
                raise Throttled(f"a node that may have room {room_id!r} does not answer; try again") from None
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

    async def empty(self) -> None:
        """Hand everything over that can go on elsewhere: durable rooms, and sessions without a room."""
        limit = asyncio.Semaphore(_AT_ONCE)
        runners = [runner for runner in self._rooms.runners() if runner.persistence.survives_stop]
        await asyncio.gather(*(self._give_up(runner, limit) for runner in runners))
        await self.send_on()

    async def send_on(self) -> None:
        """Hand over the sessions without a room."""
        limit = asyncio.Semaphore(_SESSIONS_AT_ONCE)
        await asyncio.gather(*(self._send_on(session, limit) for session in list(self._lifecycle.registry)))

    async def _give_up(self, runner: RoomRunner, limit: asyncio.Semaphore) -> None:
        async with limit:
            for tries_left in reversed(range(_TRIES)):
                if self._rooms.get(runner.room.id) is not runner.room:
                    return  # it went with another one, or has ended
                life = self._node.next_owner(runner.room.id, runner.room.kind)
                if life is None or life == self._node.life:
                    return
                try:
                    await self._move(runner, life)
                except Refused as refusal:
                    if tries_left:
                        await asyncio.sleep(self._limits.move_rest_s)
                    else:
                        why = str(refusal)
                        log.warning(
                            "a room could not be handed over; it will be taken over", room=runner.room.id, why=why
                        )
                else:
                    return

    async def _send_on(self, session: Session, limit: asyncio.Semaphore) -> None:
        async with limit:
            life = self._node.next_taker(session.id)
            is_free = session.seat is None and session.place is None and session.codec is not None
            if life is None or life == self._node.life or not is_free or self._is_asking(session):
                return
            with suppress(Refused):
                await self._handovers.give(session, life, list)

    # Giving

    async def _move(self, runner: RoomRunner, life: str) -> None:
        group = self._together(runner)
        for each in group:
            if each.room.id in self._moving or each.is_closing:
                raise Throttled(f"room {each.room.id} is moving already, or ending")
        moving = _Moving(life, {each.room.id: each for each in group})
        self._moving |= dict.fromkeys(moving.rooms, moving)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._check_taker(life, group)
            await self._hand_over(moving)
        finally:
            self._tasks.discard(task)
            for room_id in moving.rooms:
                del self._moving[room_id]

    async def _check_taker(self, life: str, group: Sequence[RoomRunner]) -> None:
        try:
            await self._questions.ask(life, _MAY_TAKE, [each.room.kind for each in group], bool)
        except BusError:
            raise Throttled(f"the node {self._node.name_of(life)} does not answer; try again") from None

    def _together(self, runner: RoomRunner) -> list[RoomRunner]:
        """The room, and those whose players watch it, or which its players watch, if they can move."""
        if not isinstance(runner.persistence, StorePersistence):
            raise NotAllowed(
                f"room {runner.room.id} ({runner.room.kind}) is in memory only and cannot move: durable rooms can"
            )
        group = {runner.room.id: runner}
        for each in (waiting := [runner]):
            for session in _members(each):
                for seat in (session.seat, session.place):
                    if seat is not None and seat.room.is_saved and seat.room.id not in group:
                        other = self._rooms.runner(seat.room.id)
                        group[other.room.id] = other
                        waiting.append(other)
        return list(group.values())

    async def _hand_over(self, moving: "_Moving") -> None:
        began_at = self._clock.now()
        try:
            await self._come_to_rest(moving)
            await self._save(moving)
            moved = await self._offered(moving)
        except BaseException as error:
            self._go_on(moving)
            if isinstance(error, TimeoutError):
                raise Throttled("the store does not save at the moment; try again") from None
            raise
        pause_s = self._clock.now() - began_at
        self._gone(moving, pause_s)
        await self._follow(moving, moved)
        self.pauses_s.append(pause_s)

    # To rest

    async def _come_to_rest(self, moving: "_Moving") -> None:
        """Let every connection stand still, and every room take a last turn after what its clients have sent."""
        try:
            async with asyncio.timeout(self._limits.move_rest_s):
                while not await self._try_to_rest(moving):  # noqa: ASYNC110 - each try waits for a turn of the rooms
                    await asyncio.sleep(0)
        except TimeoutError:
            raise Throttled(
                f"room {next(iter(moving.rooms))} is busy: what its players asked for takes longer than"
                f" {self._limits.move_rest_s:g} s; try again"
            ) from None
        except RoomGone:
            raise NotFound("the room has ended") from None

    async def _try_to_rest(self, moving: "_Moving") -> bool:
        """Whether the rooms stand still; if not, somebody has come or gone meanwhile."""
        for runner in list(moving.rooms.values()):
            for each in self._together(runner):
                if each.room.id not in moving.rooms:
                    if each.room.id in self._moving or each.is_closing:
                        raise Throttled(f"room {each.room.id} is moving already, or ending")
                    moving.rooms[each.room.id] = each
                    self._moving[each.room.id] = moving
        for runner in moving.rooms.values():
            _part_from_memory(runner)
        self._stand_still(moving)
        await self._wait_for_requests(moving)
        await asyncio.gather(*(_rest(runner, moving) for runner in moving.rooms.values()))
        # Without a pause until the last of it is known.
        if any(runner.is_closing for runner in moving.rooms.values()):
            raise NotFound("the room has ended")
        group = {each.room.id for runner in moving.rooms.values() for each in self._together(runner)}
        if group == moving.rooms.keys() and all(self._is_at_rest(each, moving) for each in moving.rooms.values()):
            for runner, writer in moving.writers:
                runner.switching.stand_still()
                writer.is_leaving = True
                runner.turns.freeze()
            return True
        self._thaw(moving)
        return False

    def _stand_still(self, moving: "_Moving") -> None:
        for session in moving.members:
            connection, standing = session.connection, moving.standing.get(session)
            if standing is not None and standing.connection is not connection:
                del moving.standing[session]  # it dropped, or continues on a newer connection
                standing = None
            if standing is None and isinstance(connection, LiveConnection) and connection.is_open:
                moving.standing[session] = _Standing(session, connection, connection.stand_still())

    async def _wait_for_requests(self, moving: "_Moving") -> None:
        writers = [writer for _, writer in moving.writers]
        others = [each for writer in writers for each in (*writer.arriving, *writer.leaving, *writer.changing)]
        await asyncio.gather(*(self._answered(session) for session in dict.fromkeys([*moving.members, *others])))

    def _is_at_rest(self, runner: RoomRunner, moving: "_Moving") -> bool:
        if not isinstance(runner.persistence, StorePersistence) or not runner.persistence.writer.is_at_rest:
            return False
        return not any(self._is_asking(session) or _is_new(session, moving.standing) for session in _members(runner))

    def _thaw(self, moving: "_Moving") -> None:
        for _, writer in moving.writers:
            if not self._committer.is_failing:
                writer.turns.thaw()

    # What the other node reads

    async def _save(self, moving: "_Moving") -> None:
        moving.sessions = sessions = moving.members
        self._departures.begin(sessions)
        async with asyncio.timeout(self._limits.commit_timeout_s):
            await asyncio.gather(*(self._committer.saved(writer) for _, writer in moving.writers))
            await asyncio.gather(*(self._committer.settled(session) for session in sessions))
            await asyncio.gather(*(self._committer.at_rest(writer) for _, writer in moving.writers))
        self._committer.seal(sessions)
        for _, writer in moving.writers:
            writer.is_sealed = True
        for still in moving.standing.values():
            still.connection.write_rest()
        moving.effects = await self._outbox.pause(moving.rooms)

    async def _offered(self, moving: "_Moving") -> RoomsMoved:
        sessions = [
            SessionMove(
                session.id,
                {channel.number: channel.sent for channel in session.channels()},
                {channel.number: channel.acked for channel in session.channels()},
            )
            for session in moving.sessions
            if session in moving.standing
        ]
        revisions = {runner.room.id: writer.revision for runner, writer in moving.writers}
        effects = [key for key, _, _ in moving.effects]
        life, rooms = self._node.life, list(moving.rooms)
        waiting: dict[str, list[tuple[str, str]]] = {
            room_id: [(player_id, address) for player_id, address in runner.seats.waitlist.items()]
            for room_id, runner in moving.rooms.items()
            if runner.seats.waitlist
        }
        move = MoveRooms(f"{life}.{next(self._numbers)}", rooms, sessions, revisions, effects, life, waiting=waiting)
        return await self._handovers.offered(moving.life, _TAKE, move, RoomsMoved)

    # The outcome

    def _go_on(self, moving: "_Moving") -> None:
        """The rooms stay. If the other node has them too, the next commit shows which of the two has them."""
        for runner, writer in moving.writers:
            was_sealed, writer.is_sealed, writer.is_leaving = writer.is_sealed, False, False
            if was_sealed:
                self._committer.mark(writer)
            runner.switching.go_on(runner.dropped)
        self._committer.unseal(moving.sessions)
        for key, record, revision in moving.effects:
            self._outbox.start(key, record, revision)
        self._thaw(moving)
        self._departures.stay(moving.sessions)
        for still in moving.standing.values():
            still.connection.go_on(still.heard)

    def _must_resume(self, session: Session) -> bool:
        """Whether something that its client has sent waits until it has read, or it watches a search."""
        is_stalled = any(channel.accepted > channel.applied for channel in session.channels())
        return is_stalled or self._handovers.is_watching(session)

    def _gone(self, moving: "_Moving", pause_s: float) -> None:
        """The other node has them."""
        node = self._node.name_of(moving.life)
        moving.to_resume = {session for session in moving.sessions if self._must_resume(session)}
        for runner, writer in moving.writers:
            if runner.is_closing:
                self._tell_ended(moving.life, runner)
            for seat in runner.context.seats.occupied:
                if seat.session.codec is None:
                    # An agent has no connection that would tell it.
                    seat.outlet.finish(SeatLeft(Reason.MOVED, "another server has this room"))
            self._committer.remove(writer)
            room, info = runner.room, runner.entry.public_info()
            self._publish(RoomMoved(room=room.id, node=node, pause_s=round(pause_s, 4), info=info))
            self._publish(RoomReleased(room=room.id, reason=Reason.MOVED, info=info))
            runner.let_go()
        self._handovers.given += len(moving.standing)
        moving.ended = self._departures.gone(moving.sessions, moving.life)
        for session in moving.sessions:
            self._committer.sessions.forget(session)
            self._lifecycle.give_away(session, node)

    async def _follow(self, moving: "_Moving", moved: RoomsMoved) -> None:
        """Let the connections follow, except those that have to resume."""
        follows: list[Awaitable[None]] = []
        for each in moving.standing.values():
            key = moved.keys.get(each.session.id, b"")
            if each.session in moving.to_resume:
                each.connection.close(Reason.MOVED, "this room moves to another node; resume")
            else:
                ended = moving.ended.get(each.session)
                follows.append(self._handovers.follow_with(each.connection, each.heard, moving.life, key, ended=ended))
        await asyncio.gather(*follows)

    def _tell_ended(self, life: str, runner: RoomRunner) -> None:
        """The room was ended here while it was handed over."""
        task = self._clock.loop.create_task(self._end_there(life, runner.room.id, runner.context.listing.reason))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _end_there(self, life: str, room_id: str, reason: str) -> None:
        while self._node.may_live(life):
            with suppress(Refused):
                try:
                    await self._questions.ask(life, _END, RoomEnd(room_id, reason), bool)
                except BusError:
                    await asyncio.sleep(self._limits.probe_s)
                    continue
            return

    # Taking

    def _may_take(self, kinds: list[str]) -> bool:
        for kind in dict.fromkeys(kinds):
            if why := self._is_full(kind, len(kinds)):
                raise Throttled(why)
        return True

    async def _take(self, move: MoveRooms) -> RoomsMoved:
        if move.id in self._taken:
            return self._taken[move.id]
        if self._rooms.is_stopping:
            raise Throttled("this node is about to stop; try again")
        # The same question may come again while this is being done.
        try:
            await self._takeover.take_moved(move)
        except StoreError as error:
            raise Throttled(f"the store cannot be read here: {error}") from None
        missing = [room_id for room_id in move.rooms if self._rooms.get(room_id) is None]
        if missing:
            raise Throttled(f"room {missing[0]} could not be restored here; the log of this node says why")
        if move.id not in self._taken:
            for room_id, waiting in move.waiting.items():
                self._rooms.runner(room_id).reservations.waiting_came(waiting)
            self._taken[move.id] = RoomsMoved(
                {each.session: key for each in move.sessions if (key := self._key(each, move.source))}
            )
            self._clock.loop.call_later(3 * self._limits.handover_s, self._taken.pop, move.id, None)
        return self._taken[move.id]

    def _key(self, move: SessionMove, source: str) -> bytes:
        session = self._lifecycle.registry.get(move.session)
        if session is None or session.connection is not None:
            return b""
        self._rooms.session_switches(session, "expected")
        return self._handovers.expect(session, source, move.sent, move.acked)

    def _ended_meanwhile(self, asked: RoomEnd) -> bool:
        self._rooms.runner(asked.room).end(asked.reason)
        return True


async def _rest(runner: RoomRunner, moving: _Moving) -> None:
    """Freeze a room in a turn: those before it are over, and none follows."""
    is_wanted = True

    def freeze() -> None:
        if is_wanted:
            runner.turns.freeze()

    try:
        await runner.turns.call(freeze, (), lambda error: error)
    finally:
        is_wanted = False


def _part_from_memory(runner: RoomRunner) -> None:
    """A session is on one node: whoever also plays in, or watches, a room that cannot move loses one of the two."""
    message = "the two rooms are on different nodes now"
    for session in _members(runner):
        seat, place = session.seat, session.place
        if seat is not None and place is not None and seat.room.is_saved != place.room.is_saved:
            place.room.free(place, Reason.MOVED, message)


def _members(runner: RoomRunner) -> list[Session]:
    """The sessions with a seat in a room, and those that watch it; not those that the room has not heard of yet."""
    places = (*runner.context.seats.occupied, *(runner.context.spectators or ()))
    return [seat.session for seat in places if not seat.is_joining]


def _is_new(session: Session, standing: dict[Session, _Standing]) -> bool:
    """Whether it is connected, and its connection does not stand still."""
    connection = session.connection
    if not isinstance(connection, LiveConnection) or not connection.is_open:
        return False
    return session not in standing or standing[session].connection is not connection
