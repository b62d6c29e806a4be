"""One run of a client program: a session, a seat, a reader, and what it would remember after a crash."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from holdfast import (
    AlreadySeated,
    ClientRoom,
    ClientSession,
    Drop,
    Message,
    NotSeated,
    Outcome,
    Refused,
    Reset,
    Resynced,
    SessionEnded,
)
from tests.saved_sessions import storage_of, suspended
from tests.simulation.checker import Op, Stream
from tests.simulation.mirrors import Looker
from tests.simulation.view import MESSAGES, Append, Done, Entered, Mail, Shown, Told, View

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Memory:
    """What a program wrote to its disk: the library's state and its own, of the same moment."""

    state: bytes
    # By the session and the channel of the seat.
    sittings: dict[tuple[str, int], tuple[View, Stream, int]]
    is_away_since: float
    session: str
    # How often the server had fallen by then, and whether the last one need not have known us.
    falls: int
    may_be_forgotten: bool
    # How often its store had been rolled back.
    rollbacks: int
    mail: Mail


@dataclass(slots=True, eq=False)
class Sitting:
    """A seat as its client has it."""

    key: tuple[str, int]
    room: ClientRoom
    view: View
    stream: Stream
    reader: asyncio.Task[None] | None = None
    # What was read and is not dealt with yet: to the library it counts as processed when the next is asked for.
    in_hand: Message | None = None
    is_over: bool = False
    # How often its stream had begun anew when we last came back.
    generation: int = 1
    # Whether we have left: what was not read is dropped, also if the next process hears of the seat once more.
    has_left: bool = False
    # In a room that shares its state.
    looker: Looker | None = None
    # How often its room had come back from a checkpoint when we last heard of it.
    rewinds: int = 0
    # How many gaps its reader was told of.
    resyncs: int = 0


@dataclass(frozen=True, slots=True)
class Asking:
    """An ask that waits: where it was sent from, and the number of its message."""

    task: asyncio.Task[None]
    sitting: Sitting
    number: int


def is_present(sitting: Sitting | None) -> bool:
    """Whether there is such a seat, and it is not lost."""
    return sitting is not None and not sitting.is_over and sitting.room.left is None


def _key(sitting: Sitting) -> tuple[str, str]:
    return sitting.key[0], "spectator" if sitting.room.is_spectator else "seat"


class Process:
    """It reads what its room says, sends what it is told to, and saves its memory after every resume."""

    def __init__(self, world: "World", player: str, memory: Memory | None = None) -> None:
        self.world = world
        self.checker = world.checker
        self.player = player
        self.label = world.next_label(player)
        self.dialer = world.network.dialer(self.label)
        self._codec = world.next_codec()
        self._session: ClientSession | None = None
        self.started_at = world.now()
        self.sitting: Sitting | None = None
        self.pause_s = 0.0
        self.is_dead = False
        self.is_moving_to_memory = False
        """Whether it asks for a seat in a room that is not saved: then its session is not saved either."""
        self._is_suspending = False
        self._has_ended = False
        self.excuses: set[str] = set()
        """Reasons for which this session may end, because the simulation did something that must end it."""
        self.resumes = 0
        self.dropped_at: list[float] = []
        self._session_ids: set[str] = set()
        self._resyncs = 0
        self._ops = 0
        self._ops_before = 0
        self.asking: dict[Op, Asking] = {}
        """What was asked and has no answer yet."""
        # How often messages may have been lost, and we were told so.
        self._gaps = 0
        self._saved = memory.sittings if memory is not None else {}
        self._is_away_since = memory.is_away_since if memory is not None else world.now()
        # Since when its server is not the present one.
        self._unserved_since = inf
        self._retiring: Memory | None = None
        # The server fell, and need not remember us: we had no seat that it must have saved.
        self.memory = memory
        self._may_be_forgotten = memory is not None and (
            memory.may_be_forgotten
            or memory.rollbacks < world.checker.rollbacks
            or (memory.falls < world.falls and not self._has_saved_seat())
        )
        self.retired: list[Memory] = []
        self.mail = memory.mail.copy(self.label) if memory is not None else Mail(self.label)
        self._mail_reader: asyncio.Task[None] | None = None
        self._mail_in_hand: Message | None = None
        world.processes.append(self)

    @property
    def is_over(self) -> bool:
        """Whether nothing can come of it any more."""
        return self.is_dead or self._session is None or self._has_ended

    @property
    def session(self) -> ClientSession:
        """What the library gave us."""
        assert self._session is not None
        return self._session

    def has_been(self, session_id: str) -> bool:
        """Whether it has, or had, this session."""
        return session_id in self._session_ids

    async def open(self) -> None:
        """Sign in, or go on from what was remembered."""
        state = self.memory.state if self.memory is not None else None
        session = await self.world.connect(
            self.player,
            dial=self.dialer,
            codec=self._codec,
            messages=MESSAGES,
            saved=storage_of(state),
            give_up_s=float("inf"),
        )
        self._session = session
        session.on_drop(self._dropped)
        session.on_resume(self._resumed)
        assert session.outcome is not None
        self.checker.note(self.label, "is", session.id)
        self._resumed(session.outcome)
        self._mail_reader = self.world.start(self._read_mail(session))
        self.sit()
        self._forget_lost()

    def _forget_lost(self) -> None:
        """What was lost while nobody was there to hear of it."""
        for key in [key for key in self.world.seats if key[0] == self.session.id]:
            if not any(key == _key(each) and is_present(each) for each in self.sittings()):
                del self.world.seats[key]

    async def _read_mail(self, session: ClientSession) -> None:
        try:
            while True:
                self._deal_with_mail()
                self._mail_in_hand = await session.receive()
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        except SessionEnded as error:
            self.ended(error)

    def _deal_with_mail(self) -> None:
        message, self._mail_in_hand = self._mail_in_hand, None
        if message is not None:
            self.mail.heard(message, self.session.id, self.checker)

    def ended(self, error: SessionEnded) -> None:
        """The session is over: there must be a cause."""
        if self._has_ended:
            return
        self._has_ended = True
        self.checker.note(self.label, "ended", error.reason)
        self.checker.count(f"ended: {error.reason}")
        is_caused = self.is_dead or error.reason in self.excuses
        self.checker.expect("P3", is_caused, f"the session of {self.label} ended: {error.reason}")

    def kill(self, *, silently: bool) -> None:
        """The program dies; silently: its machine does, and nobody closes its connection."""
        self.checker.note(self.label, "is killed")
        self.is_dead = self.dialer.is_dead = True
        for each in self.asking.values():
            each.task.cancel()
        self._stop_reading()
        if self._mail_reader is not None:
            self._mail_reader.cancel()
        for link in self.dialer.links:
            if not link.is_open:
                continue
            if silently:
                link.half_open("server")
            else:
                link.cut()

    def server_falls(self) -> None:
        """What this session may expect of the next server, and what that may have forgotten of it."""
        self._unserved_since = min(self._unserved_since, self.world.now())
        self._may_be_forgotten = self._may_be_forgotten or not self._has_saved_seat()
        if self.sitting is None or self.world.durability[self.sitting.room.kind] != "commit":
            # What we said was not saved, and neither was that the token before it is used up.
            self.retired.clear()
            self._retiring = None

    def store_rolled_back(self) -> None:
        """The next server may know nothing of us, or not our token, and tokens that were used up are good again."""
        self._may_be_forgotten = True
        self.retired.clear()
        self._retiring = None

    def _has_saved_seat(self) -> bool:
        """Whether somebody was told of a seat of our session in a room that lasts: then the session does, too."""
        if self.is_moving_to_memory:
            return False
        memory, session = self.memory, self._session
        session_id = session.id if session is not None else memory.session if memory is not None else ""
        # With a seat that ends with its server the session does not outlive it either, whatever it watches.
        seats = self.world.seats
        view = seats.get((session_id, "seat")) or seats.get((session_id, "spectator"))
        return view is not None and view.is_saved and view.room not in self.world.game.strays

    async def suspend(self) -> Memory:
        """Go away in order: what was read counts as processed, so it is dealt with before."""
        self._stop_reading()
        for sitting in self.sittings():
            self._deal_with(sitting)
        if self._mail_reader is not None:
            self._mail_reader.cancel()
            self._deal_with_mail()
        memory = self.remember()
        self._is_suspending = True
        state = await suspended(self.session)
        self.kill(silently=False)
        return replace(memory, state=state, is_away_since=self.world.now())

    # The seat

    def sittings(self) -> list[Sitting]:
        """All that it reads, or has read last."""
        return [self.sitting] if self.sitting is not None else []

    def _stop_reading(self) -> None:
        for sitting in self.sittings():
            if sitting.reader is not None:
                sitting.reader.cancel()

    def sit(self) -> Sitting | None:
        """Begin to read the room that the session has a seat in, if it is a new one."""
        self.sitting = self._sitting_in(self._room(), self.sitting)
        return self.sitting if is_present(self.sitting) else None

    def _sitting_in(self, room: ClientRoom | None, sitting: Sitting | None) -> Sitting | None:
        if room is not None and (sitting is None or sitting.room is not room):
            key = (self.session.id, room.channel)
            saved = self._saved.pop(key, None)
            # The number of a channel that never was, since the store is older, may be another's.
            if saved is not None and saved[0].room in {"", room.id}:
                view, before, count = saved
                view = view.copy(process=self.label, has_past=True)
                stream = Stream(self.player, after=before, after_count=count)
            else:
                is_saved = self.world.durability[room.kind] != "memory"
                view = View(self.label, has_past=bool(self.memory), room=room.id, is_saved=is_saved)
                view.is_spectator = room.is_spectator
                # An earlier process has read of a seat that it did not have any more when it wrote to its disk.
                view.is_blind = not room.received
                stream = Stream(self.player)
            self.checker.note(self.label, "sits on", room.channel, "in", room.id, "known" if saved else "new")
            sitting = Sitting(key, room, view, stream, generation=self._generation(room))
            sitting.rewinds = self.checker.rewinds.get(room.id, 0)
            self.world.seats[_key(sitting)] = view
            if room.kind in self.world.sharing:
                sitting.looker = Looker(self.label, room, self.player, self.checker, may_be_lost=view.has_past)
            sitting.reader = self.world.start(self._read(sitting))
        return sitting

    def _generation(self, room: ClientRoom) -> int:
        """0 once the channel is gone: with it, what came after a resync is gone too."""
        channel = self.session.protocol.channels.get(room.channel)
        return channel.generation if channel is not None else 0

    def _stream(self, room: ClientRoom) -> tuple[object, int]:
        """What is another one once the stream has begun anew, be it with a new session."""
        return self.session.protocol.channels.get(room.channel), self._generation(room)

    def _room(self) -> ClientRoom | None:
        return self.session.room

    async def _join(self, kind: str, room_id: str | None) -> None:
        if room_id is not None:
            await self.session.join(room_id)
        else:
            await self.session.join_or_create(kind)

    async def join(self, kind: str, room_id: str | None = None) -> Sitting | None:
        """Take a seat, if there is one."""
        try:
            await self._join(kind, room_id)
        except AlreadySeated:
            self.checker.note(self.label, "has a seat")
        except Refused as refusal:
            self.checker.note(self.label, "may not join:", refusal.code, refusal)
            self.checker.expect("BUG", refusal.code != "internal", f"{self.label} could not join: {refusal}")
        except Reset as reset:
            self.checker.note(self.label, "does not know whether it joined:", reset)
        return self.sit()

    async def _read(self, sitting: Sitting) -> None:
        try:
            while True:
                self._deal_with(sitting)
                sitting.in_hand = await sitting.room.receive()
                self._look(sitting, "with a message")
                if self.pause_s:
                    stream = self._stream(sitting.room)
                    await asyncio.sleep(self.pause_s)
                    # Whoever suspends a session counts what was read as dealt with.
                    is_over = self.is_dead or self._is_suspending
                    if stream == self._stream(sitting.room) and not is_over:
                        self._look(sitting, "still with a message")
        except NotSeated as error:
            self.checker.note(self.label, "left", error)
        except SessionEnded as error:
            self.ended(error)
        finally:
            sitting.is_over = True
            if not self.is_dead and self.world.seats.get(_key(sitting)) is sitting.view:
                del self.world.seats[_key(sitting)]

    def _look(self, sitting: Sitting, when: str) -> None:
        """Whether the state is that of the turn whose message we have."""
        message = sitting.in_hand
        if sitting.looker is None or sitting.is_over:
            return
        if isinstance(message, Entered | Told | Shown):
            sitting.looker.look(message.turn, when)

    def _deal_with(self, sitting: Sitting) -> None:
        if isinstance(sitting.in_hand, Resynced) and not sitting.view.has_past:
            sitting.resyncs += 1
            is_told = sitting.resyncs <= self._resyncs
            self.checker.expect("I12", is_told, f"{self.label} was resynced, but no outcome said so")
        if sitting.in_hand is not None:
            sitting.view.heard(sitting.in_hand, self.checker)
            sitting.in_hand = None

    async def send(
        self, *, is_refused: bool, ballast: int, wish: str = "", sitting: Sitting | None = None
    ) -> Op | None:
        """Send one operation, from this seat if it is given; None if there is no seat any more."""
        sitting = sitting or self.sit()
        if sitting is None:
            return None
        self._ops += 1
        op = Op(self.label, self._ops)
        try:
            await sitting.room.send(Append(op.process, op.n, is_refused, "x" * ballast, wish))
        except NotSeated:
            return None
        sitting.view.awaited.append(op)
        self.checker.sent(op, sitting.stream, is_refused=is_refused)
        return op

    async def ask(self, *, is_refused: bool, ballast: int, wish: str = "") -> Op | None:
        """The same, with an answer for this process alone."""
        sitting = self.sit()
        if sitting is None:
            return None
        self._ops += 1
        op = Op(self.label, self._ops)
        room, is_full = sitting.room, self.session.protocol.is_full
        try:
            # What is sent later must not be first.
            while not self._has_ended and is_full(room.channel):  # noqa: ASYNC110 - costs nothing in virtual time
                await asyncio.sleep(0.01)
        except NotSeated:
            return None
        if self._has_ended:
            return None
        sent = room.sent
        work = self._ask(room, op, Append(op.process, op.n, is_refused, "x" * ballast, wish))
        self.asking[op] = Asking(self.world.start(work), sitting, sent + 1)
        await asyncio.sleep(0)
        if room.sent == sent:
            return None
        if not is_refused:
            # A refusal is raised, and no message of the stream.
            sitting.view.awaited.append(op)
        self.checker.sent(op, sitting.stream, is_refused=is_refused)
        return op

    async def _ask(self, room: ClientRoom, op: Op, message: Append) -> None:
        gaps = self._gaps
        try:
            with suppress(NotSeated):
                done = await room.ask(message, timeout_s=inf)
                is_ours = isinstance(done, Done) and (done.process, done.n) == op
                self.checker.expect("I3", is_ours, f"{op} was answered with {done!r}")
                self.checker.answered(op, done.room, done.at)
                self.checker.count("asks answered")
        except Refused as refusal:
            self.checker.expect("I4", refusal.code == "refused", f"{op} was refused: {refusal.code} {refusal}")
            self.checker.refused(op)
            self.checker.count("asks refused")
        except Reset as reset:
            self.checker.expect(
                "I12", self._gaps > gaps, f"the answer to {op} was lost, and no outcome said so: {reset}"
            )
            self.checker.count("asks reset")
        except SessionEnded as error:
            self.ended(error)
        finally:
            self.asking.pop(op, None)

    async def flush(self, ops: list[Op]) -> bool:
        """Wait until what was sent has been applied; False if the seat was gone before."""
        sitting, resumes = self.sitting, self.resumes
        if sitting is None:
            return False
        try:
            await sitting.room.flush()
        except NotSeated:
            return False
        if self.sit() is not sitting:
            return False
        # What was sent from a seat that never was, since the store is older, is gone with it.
        self.checker.acked([op for op in ops if self.checker.is_of(op, sitting.stream)])
        is_heard = any(op.n > self._ops_before for op in ops) and resumes == self.resumes
        if is_heard and self._retiring is not None:
            # The server has heard us since the last resume: what we held before it is used up.
            self.retired.append(self._retiring)
            self._retiring = None
        return True

    # The memory

    def remember(self) -> Memory:
        """Write to disk."""
        sittings = dict(self._saved)
        for sitting in self.sittings():
            if not sitting.is_over and not sitting.has_left:
                sittings[sitting.key] = (sitting.view.copy(), sitting.stream, len(sitting.stream.ops))
        self.memory = Memory(
            self.session.protocol.save(),
            sittings,
            self.world.now(),
            self.session.id,
            self.world.falls,
            self._may_be_forgotten,
            self.checker.rollbacks,
            self.mail.copy(),
        )
        return self.memory

    def _dropped(self, _: Drop) -> None:
        # For the next server somebody was away who was still connected to the one before.
        self._is_away_since = min(self.world.now(), self._unserved_since)
        self.dropped_at.append(self.world.now())
        self.checker.note(self.label, "dropped")
        self.checker.count("drops")

    def _resumed(self, outcome: Outcome) -> None:
        if self.is_dead:
            return
        self._session_ids.add(self.session.id)
        self.checker.note(self.label, outcome)
        self.checker.count(outcome.kind)
        self.checker.count("rewound clients", outcome.reason == "rolled_back")
        self.checker.welcomed(self.label)
        self.resumes += 1
        self._resyncs += outcome.kind == "resynced"
        self._gaps += outcome.kind in {"resynced", "reset"}
        self._retiring = self.memory
        self._ops_before = self._ops
        if outcome.kind == "reset":
            self._check_reset(outcome.reason)
        # Not only the messages to the session itself.
        restarted = [sitting for sitting in self.sittings() if self._restarted(sitting)]
        if outcome.kind == "reset" or outcome.reason == "rolled_back":
            # The messages to this session are others, or there may be fewer than were read; in hand is one of before.
            self._deal_with_mail()
            self.mail.lost()
            # An older store may not know of a seat; its channel's number is given to another one.
            channels = self.session.protocol.channels
            self._saved = {key: view for key, view in self._saved.items() if channels.get(key[1]) is not None}
        # A server that was replaced and does not know it welcomes whom the present one knows nothing of.
        is_present = self.world.is_present(self.dialer.link.server)
        self._may_be_forgotten = not is_present
        if is_present:
            self._unserved_since = inf
        self._check_age(outcome, restarted)
        self.remember()

    def _restarted(self, sitting: Sitting) -> bool:
        """Whether the seat's stream began anew: what was applied before has lost its answer, and hears so at once."""
        channel = self.session.protocol.channels.get(sitting.room.channel)
        if channel is None or channel.generation == sitting.generation:
            return False
        sitting.generation = channel.generation
        done = [op for op, ask in self.asking.items() if ask.sitting is sitting and ask.number <= channel.acked]
        self.world.start(self._check_told(done))
        return True

    async def _check_told(self, ops: list[Op]) -> None:
        await asyncio.sleep(0.001)
        deaf = [op for op in ops if op in self.asking and not self.is_dead]
        self.checker.expect("I12", not deaf, f"the answers to {deaf} are lost, and {self.label} was not told")

    def _check_reset(self, reason: str) -> None:
        options = self.world.options
        away_s = self.world.now() - self._is_away_since
        # The server may have noticed the loss as much as the silence before us.
        away_at = self._is_away_since - options.limits.silence_s - 1.0
        # A server that comes back waits anew.
        was_long = any(life.lasted_since(away_at, self.world.now()) >= options.grace_s for life in self.world.lives)
        is_pardoned = "reset" in self.excuses or self._may_be_forgotten
        is_pardoned = is_pardoned or (self.world.may_forget and not self._has_saved_seat())
        is_caused = reason in self.excuses or (reason == "expired" and (is_pardoned or was_long))
        is_caused = is_caused or (reason == "rolled_back" and self.checker.rollbacks > 0)
        self.checker.expect("P3", is_caused, f"{self.label} lost its session after {away_s:.3f} s: {reason}")

    def _check_age(self, outcome: Outcome, restarted: list[Sitting]) -> None:
        """Who comes back to a room that came back from a checkpoint is told how old that is."""
        sittings = [each for each in self.sittings() if is_present(each)]
        if not sittings or outcome.kind == "reset":
            return
        rewound = [each for each in sittings if self._is_rewound(each) and each in restarted]
        # A server that was replaced, and does not know it, knows nothing of its room's return either.
        is_present_server = self.world.is_present(self.dialer.link.server)
        is_rewound = bool(rewound) and outcome.kind == "resynced" and is_present_server
        # Also again, if the server does not know whether we heard it.
        if is_rewound or outcome.reason == "rolled_back":
            # Of the oldest, if there are two.
            rooms = self._rooms_at_either_end()
            # One that both ends knew when they were saved may have been closed since.
            known = {*rooms, *self.world.auditor.rooms_of.get(self.session.id, ())}
            ages = {room_id: self.checker.ages.get(room_id, []) for room_id in known}
            told_of = [room_id for room_id in known if outcome.age_s is not None and _has(ages[room_id], outcome.age_s)]
            self.checker.expect(
                "I12", bool(told_of), f"{self.label} was told {outcome}, the rooms' states were {ages} old"
            )
            # The seat in it may be gone, if we came back twice before the server knew that we had heard it.
            durabilities = {*map(self._durability_of, told_of), *rooms.values()}
            is_caused = "checkpoint" in durabilities or self.checker.rollbacks > 0
            self.checker.expect("P3", is_caused, f"{self.label} was told {outcome}, and its store is not older")

    def _rooms_at_either_end(self) -> dict[str, str]:
        """The ids of the session's rooms, with their durability.

        One that we know may have been closed, and one that we were given a seat in may be news to us.
        """
        rooms = {each.room.id: each.room.kind for each in self.sittings() if not each.is_over}
        session = self.world.session(self.session.id)
        for seat in (session.seat, session.place) if session is not None else ():
            if seat is not None:
                rooms[seat.room.id] = seat.room.kind
        return {room_id: self.world.durability[kind] for room_id, kind in rooms.items()}

    def _durability_of(self, room_id: str) -> str:
        book = self.world.auditor.books.get(room_id)
        return self.world.durability[book.kind] if book is not None else ""

    def _is_rewound(self, sitting: Sitting) -> bool:
        """Whether its room came back from a checkpoint since we last asked."""
        before, sitting.rewinds = sitting.rewinds, self.checker.rewinds.get(sitting.room.id, 0)
        return sitting.rewinds > before and self._is_checkpointed(sitting)

    def _is_checkpointed(self, sitting: Sitting) -> bool:
        return self.world.durability[sitting.room.kind] == "checkpoint"


def _has(ages: list[float], age_s: float) -> bool:
    return any(abs(each - age_s) <= 0.001 for each in ages)
