"""The game of the simulation: rooms that keep a log, number what they say, and tell the checker what they do.

Everything a room knows is in its state, so that it lasts as long as the room does. A room that is saved with every
commit does not tell what it wrote down: it counts once it is in the store, and the auditor tells (see `audit`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from math import inf
from random import Random
from typing import Any, ClassVar

from msgspec import Struct, field

from holdfast import Parts, Player, PlayerData, Reason, Refused, Room, RoomAgent, Session, Spectator, on
from holdfast.core.room import context_of
from holdfast.server.rooms.splitmix64 import SplitMix64
from holdfast.state import Hidden
from holdfast.testing.clock import Machine
from tests.simulation.checker import Checker, Op
from tests.simulation.mirrors import heard_of, image_of
from tests.simulation.options import Options
from tests.simulation.sketch import Pencil, Pocket, Sketch, own_word
from tests.simulation.view import IN_VAIN, Append, Done, Entered, Letter, Note, Shown, Told, Underlined, View
from tests.state.follow import plain

OWN = Op("", 0)
"""What a room writes down by itself."""
NEVER = "never"
"""The process of what was done in a turn that failed."""

# A timer rings while the server is up, or in a later life.
DELAYS_S = (0.2, 1.5, 6.0)
THINGS = 3
# A bell chimes a few times; one that is rung again begins anew.
BELLS = ("big bell", "small bell")
BELL_S = 0.7
# Every room has an agent, which writes down a word of its own for some of the others'.
SCRIBE = "scribe"
NOTED = 3
NAPS = 0.02
# The part of the ticks that say nothing, and of the players that a turn changes.
SILENT = 0.5
DRAWN = 0.3
NAP_S = 3.0
CHIMES = 4


# One group has everybody, and each of the others some.
EVERYBODY = "everybody"
TEAMS = ("red", "blue")


class Mark(PlayerData):
    """What a seat keeps: its number, and how often the room spoke to it alone."""

    seat: int = 0
    told: int = 0
    pocket: Pocket = field(default_factory=Pocket)


class Entry(Struct, array_like=True, frozen=True):
    """One line of the log. `what` is the wish of a player, or what the room did by itself."""

    process: str
    n: int
    player: str
    what: str
    draw: int

    @property
    def op(self) -> Op:
        return Op(self.process, self.n)


class Bell(Struct):
    """A repeated call: which one, since when, how often it was made, and in which of its periods for the last time."""

    number: str
    since: float
    chimes: int = 0
    period: int = 0

    def period_at(self, now: float) -> int:
        # A schedule that was saved and restored is a little off, by rounding.
        return int((now - self.since) / BELL_S + 1e-6)

    def is_overdue(self, now: float) -> bool:
        return self.period_at(now) > self.period + 1


class Board(Struct):
    """The state of a room."""

    dice: Hidden[int] = 0
    """Where the room's dice began."""
    log: Hidden[list[Entry]] = []
    armed: dict[str, float] = {}
    """The timers that have not rung yet, and when they are due."""
    bells: dict[str, Bell] = {}
    owners: dict[str, str] = {}
    teams: dict[str, list[str]] = {}
    """Who is in which group."""
    members: dict[str, int] = {}
    """The number of everybody's seat."""
    watchers: dict[str, int] = {}
    """The number of every spectator's place."""
    counts: Hidden[Parts[int]] = field(default_factory=Parts)
    """How often everybody wrote."""
    letters: dict[str, int] = {}
    """How many letters were sent to each session."""
    turn: int = 0
    """The number of the last turn."""
    sketch: Sketch = field(default_factory=Sketch)


class Game:
    """What the rooms of one world have in common, in all lives of its server."""

    recovered_as = "on_drop"
    """What players are, to the checker, in a room that was restored."""

    def __init__(self, checker: Checker, options: Options) -> None:
        self.checker = checker
        self.options = options
        self.numbers = count(1)
        self.turns = count(1)
        self.sketches = Random(f"{options.seed}/sketches")
        self.pace = Random(f"{options.seed}/pace")
        self.naps = Random(f"{options.seed}/naps")
        self.is_quiet = False
        self.life: Life | None = None
        """The present one."""
        self.lives: dict[Machine | None, Life] = {}
        """Of each server, by the machine that it runs on."""
        self.sessions: Callable[[], list[Session]] = list
        """Those on the present server."""
        self.rooms: dict[str, Ledger] = {}
        """Where each room is now: the last server that began it, or brought it back."""
        self.light: set[str] = set()
        """Sessions that have asked for a seat in a room in memory, or were given one: for as long as they have it, they
        are not saved, whatever they watch."""
        self.strays: set[str] = set()
        """Rooms of a server that was replaced before: the present one hears of them at its next start."""
        self.endings: dict[tuple[str, int], list[Entry]] = {}
        """The logs of rooms that are about to end, by the life they do it in: their last turns are in no record."""
        self.age_of: Callable[[str], float | None] = lambda _: None
        """How old a room's record is; None if nothing happened since, for its server stopped in order."""

    def is_present(self, life: "Life") -> bool:
        """Whether what a server sends to sessions now counts."""
        return life is self.life

    def is_elsewhere(self, room: "Ledger") -> bool:
        """Whether another server has this room by now."""
        return room.durability != "memory" and self.rooms.get(room.id) is not room

    def seat_number(self, room: "Ledger", number: int) -> int:
        """By which number the checker knows a seat of this room."""
        return number

    def dropped(self, room: "Ledger", player: Player[Mark]) -> None:
        """A room hears that a player has dropped."""

    def forget(self, life: "Life") -> None:
        """What was about to end in this life did not, or has."""
        self.endings = {key: log for key, log in self.endings.items() if key[1] != life.number}


class Life:
    """One run of the server. It is over when another server has taken its place, whether it knows or not."""

    def __init__(self, number: int, began_at: float = 0.0) -> None:
        self.number = number
        self.began_at = began_at
        self.ended_at = inf
        self.is_over = False

    def lasted_since(self, begin: float, now: float) -> float:
        """How much of the time from then to now it lived."""
        return min(now, self.ended_at) - max(begin, self.began_at)


class Ledger(Room[Mark]):
    """Writes down what players say, answers each, and repeats it to all. An agent of its own reads along."""

    # With the agent's.
    max_players = 4
    max_spectators = 2
    empty_ttl_s = 1.0
    state: Board
    game: ClassVar[Game]
    # Whether hooks come the moment that something happens, with no turns to wait for.
    is_prompt: ClassVar[bool] = True
    is_in_turn = False
    # In a transactional room: whether a turn has begun, or the last one has failed, and how all was before it.
    is_begun = has_failed = False
    before: tuple[Any, ...] | None = None
    # How often the agent was shown the state because it had missed something, in this life of the room.
    agent_resyncs = 0
    # Those who were given a seat while they were away, and have not had their `on_join`.
    promoted_away: list[Player[Mark]]
    # The last of each name that has had a seat, also if they have left it.
    known: dict[str, Player[Mark]]

    @cached_property
    def pencil(self) -> Pencil:
        """Each room has its own: what it has taken out of a list is put back into no other room."""
        return Pencil(self.game.sketches)

    @property
    def checker(self) -> Checker:
        return self.game.checker

    @cached_property
    def life(self) -> Life:
        """Of its server."""
        return self.game.lives[Machine.here()]

    @property
    def busy_s(self) -> float:
        """For how long its own code has kept the room busy until now."""
        return 0.0

    @property
    def is_ghost(self) -> bool:
        """Whether this room is elsewhere by now: what it does here counts for nothing."""
        return self.game.is_elsewhere(self)

    def on_create(self, config: dict[str, Any]) -> Any:
        self.checker.note("on_create", self.kind, self.id)
        self.game.rooms[self.id] = self
        if self.life.is_over:
            self.game.strays.add(self.id)
        self.state = Board(dice=self.random.position if isinstance(self.random, SplitMix64) else 0)
        self.promoted_away = []
        self.known = {}
        with self.turn():
            self.open_agent(SCRIBE, self.read_along)

    def on_recover(self) -> Any:
        self.promoted_away = []
        self.known = {player.id: player for player in self.players}
        with self.turn():
            self.check_recovered()
            self.open_agent(SCRIBE, self.read_along)

    def on_join(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_join")
            if player in self.promoted_away:
                self.promoted_away.remove(player)
                self.checker.was_away(self.game.seat_number(self, player.data.seat))
            self.state.members[player.id] = player.data.seat
            # They may have left again while this turn was under way.
            if player in self.players:
                self.group(EVERYBODY).add(player)
                self.change_team(player, TEAMS[player.data.seat % len(TEAMS)])
            self.checker.expect("P4", len(self.players) <= self.max_players, f"{self.id} has {self.players}")
            self.show(player)

    def on_drop(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_drop")
            self.game.dropped(self, player)

    def on_rejoin(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_rejoin")
            self.tell(player, Op("", View.NEWS))

    def on_spectate(self, spectator: Spectator) -> Any:
        with self.turn():
            self.state.watchers[spectator.id] = next(self.game.numbers)
            self.heard_of_spectator(spectator, "on_spectate")
            self.checker.expect("P4", len(self.spectators) <= self.max_spectators, f"{self.id} has {self.spectators}")
            self.show_all(spectator)

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> Any:
        with self.turn():
            self.heard_of_spectator(spectator, "on_unspectate", reason)
            del self.state.watchers[spectator.id]
            is_cause = reason is not Reason.DROPPED or self.disconnect == "hard"
            self.checker.expect("P3", is_cause, f"{spectator.id} lost a place by a drop, and the room is soft")

    def on_resync(self, player: Player[Mark] | Spectator) -> Any:
        with self.turn():
            if isinstance(player, Spectator):
                self.heard_of_spectator(player, "resync_spectator")
                self.show_all(player)
                return
            if player.is_agent:
                # Also without a drop: it did not read for a while.
                self.agent_resyncs += 1
            else:
                self.heard_of(player, "on_resync")
            self.show(player)

    def on_leave(self, player: Player[Mark], reason: Reason) -> Any:
        with self.turn():
            self.heard_of(player, "on_leave", reason)
            self.state.members.pop(player.id, None)
            for team in self.state.teams.values():
                team[:] = [each for each in team if each != player.id]
            for thing in player.owned:
                self.state.owners[thing] = ""
            is_cause = reason is not Reason.DROPPED or self.disconnect == "hard"
            self.checker.expect("P3", is_cause, f"{player.id} lost a seat by a drop, and the room is soft")

    def on_tick(self, dt_s: float) -> Any:
        if self.game.is_quiet:
            return
        with self.turn():
            # Some say nothing: what they have changed may wait.
            if not self.shares or self.game.pace.random() >= SILENT:
                self.enter(self.write(OWN, "", "tick"), OWN, "")

    def on_destroy(self) -> Any:
        self.game.endings[self.id, self.life.number] = list(self.state.log)

    @on(Append, spectators=True)
    def append(self, player: Player[Mark] | Spectator, message: Append) -> Any:
        with self.turn():
            return self.answer(player, message)

    @on(Note)
    def note(self, player: Player[Mark], note: Note) -> Any:
        with self.turn():
            self.noted(player)

    def noted(self, player: Player[Mark]) -> None:
        self.checker.count("notes of agents")
        self.checker.expect("P4", player.is_agent, f"{player.id} is no agent of {self.id}")
        self.enter(self.write(OWN, "", "note"), OWN, "")

    async def read_along(self, agent: RoomAgent[Mark]) -> None:
        """The agent: it sees every entry once, in order, and never misses one without being shown the state."""
        at: int | None = None
        resyncs = 0
        async for message in agent:
            match message:
                case Shown(_, now_at, _):
                    is_known = at in (None, now_at) or resyncs < self.agent_resyncs
                    self.checker.expect("I1", is_known, f"the agent of {self.id} was shown {now_at} at {at}")
                    at, resyncs = now_at, self.agent_resyncs
                case Entered(entered_at, by, number):
                    self.checker.expect(
                        "I1", at in (None, entered_at), f"the agent of {self.id} saw {entered_at} after {at}"
                    )
                    at = entered_at + 1
                    if by and number % NOTED == 0 and not self.game.is_quiet:
                        if number % 2:
                            agent.send(Note())
                        else:
                            # It reads on when its word has had its turn.
                            done = await agent.ask(Note(), timeout_s=inf)
                            self.checker.expect("I3", done is None, f"the agent of {self.id} was answered {done}")
                    if self.game.naps.random() < NAPS:
                        # Longer than its inbox lasts.
                        await asyncio.sleep(NAP_S)
                case _:
                    pass

    def answer(self, player: Player[Mark] | Spectator, message: Append) -> Done:
        op = Op(message.process, message.n)
        if message.is_refused:
            if self.transactional:
                self.do_in_vain(player)
            raise Refused(f"{op.process} {op.n}")
        at = self.write(op, player.id, message.wish)
        if isinstance(player, Spectator):
            self.enter(at, op, message.ballast)
            if message.wish == "promote":
                self.raise_up(player)
            return Done(self.id, at, *op)
        self.tell(player, op, at)
        self.enter(at, op, message.ballast)
        self.grant(player, op, message.wish)
        self.post(player, op, at)
        return Done(self.id, at, *op)

    def do_in_vain(self, player: Player[Mark] | Spectator) -> None:
        """Do something of everything: the turn is about to fail, and nobody may ever hear of it."""
        self.checker.count("turns undone")
        state, op = self.state, Op(NEVER, 1)
        state.log.append(Entry(*op, player.id, "", self.random.getrandbits(32)))
        state.counts[player.id] = state.counts.get(player.id, 0) + 1
        state.sketch = Sketch()
        state.armed[NEVER] = 0.0
        self.after(DELAYS_S[0], self.ring, NEVER)
        for name in BELLS:
            self.cancel(name)
            state.bells[name] = Bell(NEVER, 0.0)
        self.every(BELL_S, self.chime, BELLS[0], NEVER, name=BELLS[0])
        if self.game.options.store is not None:
            self.effect("pay", [self.id, *op])
        self.properties["vain"] = True
        player.send(Told(IN_VAIN, self.id, IN_VAIN, *op, state.turn))
        self.broadcast(Entered(IN_VAIN, *op, "", state.turn))
        self.broadcast(Underlined(IN_VAIN))
        self.group(EVERYBODY).send(Entered(IN_VAIN, *op, "", state.turn))
        player.session.send(Letter(IN_VAIN, self.id, IN_VAIN, *op))
        for other in self.players:
            other.data.told += 1
            self.pencil.draw(other.data.pocket)
        if isinstance(player, Player) and player in self.players:
            self.own(player, "thing 0")
            state.owners["thing 0"] = player.id
            self.change_team(player, TEAMS[0])
            player.kick("in vain")
        elif isinstance(player, Spectator):
            with suppress(Refused):
                self.promote(player)

    def as_it_is(self) -> tuple[Any, ...]:
        """What a failed turn leaves as it was."""
        board = {name: getattr(self.state, name) for name in self.state.__struct_fields__}
        state = plain({**board, "counts": dict(self.state.counts)})
        marks = {player.id: plain(player.data) for player in self.players}
        bells = [name for name in BELLS if self.remaining(name) is not None]
        owners = {thing: owner.id if (owner := self.owner_of(thing)) else "" for thing in self.state.owners}
        return state, self.random.getstate(), dict(self.properties), bells, owners, marks, teams_of(self)

    def raise_up(self, spectator: Spectator) -> None:
        """Give a spectator a seat, if there is one; they may be away by now."""
        is_away = not spectator.connected
        with suppress(Refused):
            if self.durability == "memory":
                self.game.light.add(spectator.session.id)
            player = self.promote(spectator)
            self.checker.count("spectators promoted")
            if is_away:
                self.checker.count("spectators promoted while away")
                self.promoted_away.append(player)

    def post(self, player: Player[Mark], op: Op, at: int) -> None:
        """Send letters of some entries: to the session of the player, and to one of any other, wherever it is."""
        if self.is_ghost or not self.game.is_present(self.life) or self.game.options.has_robberies:
            return
        sessions = [player.session] if op.n % 3 == 0 else []
        others = self.game.sessions() if op.n % 4 == 0 else []
        if others:
            sessions.append(others[op.n % len(others)])
        for session in sessions:
            number = self.state.letters.get(session.id, 0)
            if session.send(Letter(number, self.id, at, op.process, op.n)):
                self.state.letters[session.id] = number + 1

    def write(self, op: Op, player_id: str, what: str) -> int:
        """Put a line into the log: its number."""
        self.state.log.append(Entry(op.process, op.n, player_id, what, self.random.getrandbits(32)))
        if player_id:
            self.state.counts[player_id] = self.state.counts.get(player_id, 0) + 1
        if self.durability != "commit":
            if not self.is_ghost:
                self.checker.wrote(self.id, player_id, op)
            elif player_id:
                self.checker.lost(op)
        return len(self.state.log) - 1

    def grant(self, player: Player[Mark], op: Op, wish: str) -> None:
        match wish:
            case "timer":
                delay_s = DELAYS_S[op.n % len(DELAYS_S)]
                number = f"{op.process}/{op.n}"
                self.state.armed[number] = asyncio.get_running_loop().time() + delay_s
                self.after(delay_s, self.ring, number)
            case "bell":
                name, number = BELLS[op.n % len(BELLS)], f"{op.process}/{op.n}"
                self.state.bells[name] = Bell(number, asyncio.get_running_loop().time())
                self.every(BELL_S, self.chime, name, number, name=name)
            case "effect":
                self.effect("pay", [self.id, op.process, op.n])
            case "own" if player in self.players:
                thing = f"thing {op.n % THINGS}"
                self.own(player, thing)
                self.state.owners[thing] = player.id
            case "team" if player in self.players:
                self.change_team(player, TEAMS[op.n % len(TEAMS)])
            case "close":
                self.close()
            case _:
                pass

    def ring(self, number: str) -> Any:
        with self.turn():
            self.rang(number)

    def rang(self, number: str) -> None:
        is_armed = self.state.armed.pop(number, None) is not None
        self.checker.expect("TIMER", is_armed or self.is_ghost, f"timer {number} of {self.id} rang twice")
        self.enter(self.write(OWN, "", f"ring {number}"), OWN, "")

    def chime(self, name: str, number: str) -> Any:
        with self.turn():
            self.chimed(name, number, asyncio.get_running_loop().time())

    def chimed(self, name: str, number: str, now: float) -> None:
        bell = self.state.bells.get(name)
        is_right = bell is not None and bell.number == number
        self.checker.expect("TIMER", is_right or self.is_ghost, f"{name} {number} of {self.id} chimed after its end")
        if bell is None:
            return
        period = bell.period_at(now)
        is_new = period > bell.period
        self.checker.expect("TIMER", is_new or self.is_ghost, f"{name} {number} of {self.id} chimed twice in {period}")
        bell.period = period
        bell.chimes += 1
        self.enter(self.write(OWN, "", f"chime {number} in {period}"), OWN, "")
        if bell.chimes == CHIMES:
            self.cancel(name)
            del self.state.bells[name]

    def change_team(self, player: Player[Mark], name: str) -> None:
        for team in TEAMS:
            self.group(team).remove(player)
        self.group(name).add(player)
        self.state.teams = teams_of(self)

    def enter(self, at: int, op: Op, ballast: str) -> None:
        entered = Entered(at, op.process, op.n, ballast, self.state.turn)
        if at % 2:
            # One block for each client.
            self.broadcast(entered)
            self.broadcast(Underlined(at))
        else:
            self.group(EVERYBODY).send(entered)
            # Those who have a seat, but not their turn of `on_join` yet.
            self.broadcast(entered, where=lambda player: player.id not in self.state.members)
            self.broadcast(entered, to=self.spectators)

    def tell(self, player: Player[Mark], op: Op, at: int | None = None) -> None:
        next_at = len(self.state.log) if at is None else at
        player.send(Told(player.data.told, self.id, next_at, op.process, op.n, self.state.turn))
        player.data.told += 1

    def show(self, player: Player[Mark]) -> None:
        player.send(Shown(self.id, len(self.state.log), player.data.told, self.state.turn))

    def show_all(self, spectator: Spectator) -> None:
        spectator.send(Shown(self.id, len(self.state.log), 0, self.state.turn))

    def heard_of_spectator(self, spectator: Spectator, name: str, reason: str = "") -> None:
        if not self.is_ghost:
            self.checker.note(spectator.id, reason)
            number = self.game.seat_number(self, self.state.watchers[spectator.id])
            self.checker.hook(name, spectator.id, number)

    def heard_of(self, player: Player[Mark], name: str, reason: str = "") -> None:
        if name == "on_join":
            self.known[player.id] = player
        if not player.data.seat:
            player.data.seat = next(self.game.numbers)
            player.data.pocket.own_word = own_word(player.id)
        grace_s = self.grace_s if self.is_prompt else 0.0
        if not self.is_ghost:
            number = self.game.seat_number(self, player.data.seat)
            self.checker.hook(name, player.id, number, reason=reason, grace_s=grace_s)

    def check_recovered(self) -> None:
        """Whatever the room had with the commit that it came back from, it has still."""
        checker, state = self.checker, self.state
        checker.note("on_recover", self.id, len(state.log))
        checker.count("rooms recovered")
        # Not of those who came while the store did not save: their hooks follow.
        restored = [seat.member for seat in context_of(self).everybody if not seat.is_joining]
        seats = {player.id: player.data.seat for player in restored if isinstance(player, Player)}
        checker.expect("I2", seats == state.members, f"{self.id} came back with {seats}, not {state.members}")
        places = {spectator.id for spectator in restored if isinstance(spectator, Spectator)}
        checker.expect("I2", places == state.watchers.keys(), f"{self.id} is watched by {places}, not {state.watchers}")
        checker.watched(self.game.seat_number(self, number) for number in state.watchers.values())
        teams = {name: team for name, team in state.teams.items() if team}
        checker.expect("I2", teams_of(self) == teams, f"{self.id} came back with {teams_of(self)}, not {teams}")
        bells = {name for name in BELLS if self.remaining(name) is not None}
        checker.expect("I2", bells == state.bells.keys(), f"{self.id} came back with {bells}, not {state.bells}")
        owners = {thing: owner.id if (owner := self.owner_of(thing)) else "" for thing in state.owners}
        checker.expect("I2", owners == state.owners, f"in {self.id} owns {owners}, not {state.owners}")
        counts = Counter(entry.player for entry in state.log if entry.player)
        checker.expect("I2", dict(state.counts) == counts, f"{self.id} counts {state.counts}, not {counts}")
        if self.life.is_over:
            return
        self.game.rooms[self.id] = self
        if self.game.age_of(self.id) is not None and self.durability == "checkpoint":
            checker.rewound(self.id, [entry.op for entry in state.log])
        numbers = [self.game.seat_number(self, number) for number in seats.values()]
        checker.held(numbers, grace_s=self.grace_s, state=self.game.recovered_as)

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.checker.expect("P6", not self.is_in_turn, f"two turns of {self.id} at once")
        self.is_in_turn = True
        self.look_around()
        self.state.turn = next(self.game.turns)
        try:
            yield
        except Refused:
            self.has_failed = self.transactional
            raise
        finally:
            self.is_in_turn = False
            self.is_begun = False
            if self.has_failed:
                # There is no such turn.
                self.draw()
            elif self.shares:
                self.draw()
                self.checker.images[self.state.turn] = image_of(self, self.known.values())

    def look_around(self) -> None:
        """A turn begins. Note who has come or gone since the last one, and that one that failed never was."""
        if self.transactional and not self.is_begun:
            self.is_begun = True
            before, self.before = self.before, self.as_it_is()
            if self.has_failed and before is not None:
                self.check_undone(before, self.before)
            self.has_failed = False
        image = self.checker.images.get(self.state.turn)
        if image is not None:
            image.present.add(heard_of(self))

    def check_undone(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Between the two there was only a turn that has failed, and players may have come and gone."""
        names = ("state", "random", "properties", "bells", "owners", "data", "teams")
        others = {name: (was, now) for name, was, now in zip(names, before, after, strict=True) if was != now}
        if (was_there := others.get("data")) is not None and was_there[0].keys() != was_there[1].keys():
            # What they owned is nobody's, or another's, and they are in no group any more.
            del others["data"]
            others.pop("owners", None)
            others.pop("teams", None)
        self.checker.expect("P9", not others, f"a failed turn of {self.id} has left something: {others}")

    def fresh(self) -> Mark:
        """What somebody has who takes a seat."""
        return Mark()

    def draw(self) -> None:
        """Change something of what is shared."""
        if self.game.is_quiet:
            return
        self.pencil.draw(self.state.sketch)
        for player in self.players:
            if self.pencil.random.random() < DRAWN:
                self.pencil.draw(player.data.pocket)


class SlowLedger(Ledger):
    """The same with `async def` everywhere: other things happen in the middle of its turns."""

    is_prompt = False
    # Turns follow each other without a pause since the one time, and the last of them ended at the other.
    busy_since = busy_until = 0.0

    @property
    def busy_s(self) -> float:
        now = asyncio.get_running_loop().time()
        return now - self.busy_since if now <= self.busy_until else 0.0

    def on_recover(self) -> Any:
        # What came back is looked at before anything else can happen to it.
        super().on_recover()
        return self.wait()

    async def admit(self, player: Player[Mark]) -> None:
        # Beside the turns.
        await asyncio.sleep(self.pause_s())

    async def on_join(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_join(player)

    async def on_drop(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_drop(player)

    async def on_rejoin(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_rejoin(player)

    async def on_resync(self, player: Player[Mark] | Spectator) -> None:
        await self.linger()
        super().on_resync(player)

    async def on_leave(self, player: Player[Mark], reason: Reason) -> None:
        await self.linger()
        super().on_leave(player, reason)

    async def on_spectate(self, spectator: Spectator) -> None:
        await self.linger()
        super().on_spectate(spectator)

    async def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        await self.linger()
        super().on_unspectate(spectator, reason)

    @on(Append, spectators=True)
    async def append(self, player: Player[Mark] | Spectator, message: Append) -> Done:
        await self.linger()
        with self.turn():
            return self.answer(player, message)

    @on(Note)
    async def note(self, player: Player[Mark], note: Note) -> None:
        await self.linger()
        with self.turn():
            self.noted(player)

    async def ring(self, number: str) -> None:
        await self.linger()
        with self.turn():
            self.rang(number)

    async def chime(self, name: str, number: str) -> None:
        now = asyncio.get_running_loop().time()
        await self.linger()
        with self.turn():
            self.chimed(name, number, now)

    async def linger(self) -> None:
        self.look_around()
        if self.shares:
            # What a turn has changed is seen at its end, not when it waits.
            self.draw()
        await self.wait()

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time
        if now() > self.busy_until:
            self.busy_since = now()
        self.busy_until = inf
        try:
            await asyncio.sleep(self.pause_s())
        finally:
            self.busy_until = now()

    def pause_s(self) -> float:
        return self.game.pace.random() * self.game.options.handler_s


def teams_of(room: Room[Any]) -> dict[str, list[str]]:
    return {name: [player.id for player in group] for name, group in room.groups.items() if name in TEAMS}


KINDS: tuple[tuple[str, type[Ledger], str], ...] = (
    ("Soft", Ledger, "soft"),
    ("SlowSoft", SlowLedger, "soft"),
    ("Hard", Ledger, "hard"),
    ("SlowHard", SlowLedger, "hard"),
)


def rooms(game: Game) -> list[type[Ledger]]:
    """The kinds of rooms of one world, in all lives of its server: to check a new class takes a server long."""
    options = game.options
    shared = {"game": game, "grace_s": options.grace_s, "tick_hz": options.tick_hz}
    if options.store is not None:
        # A store that refuses makes rooms stand still: nothing is prompt then.
        shared |= {"checkpoint_s": options.store.checkpoint_s, "is_prompt": False}
    return [
        type(
            name,
            (base,),
            {
                **shared,
                "disconnect": disconnect,
                "durability": options.durability[number],
                "shares": ("state", "players") if options.shares[number] else (),
                "sync_hz": options.sync_hz,
                "transactional": options.transactional[number],
                "record_s": options.record_s[number],
            },
        )
        for number, (name, base, disconnect) in enumerate(KINDS)
    ]
