"""`Room`: what a game subclasses. Everything here is the game's; the engine's half is the `RoomContext` behind it."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin, overload

from msgspec import Struct

from holdfast.core.groups import Group, Groups
from holdfast.core.handlers import Handler, check_room_class, handlers_of
from holdfast.core.messages import Message, PlayerData, check_message, snake_case
from holdfast.core.ownership import Objects, Orphans
from holdfast.core.reasons import Reason
from holdfast.core.recipients import choose, send_latest_to
from holdfast.core.room_context import EVERY_S_MIN, Phase, RoomContext, Timer
from holdfast.core.session import Member, Player, PlayerId, Spectator
from holdfast.schemas.requests import Update

if TYPE_CHECKING:
    from random import Random

D = TypeVar("D", bound=PlayerData)
M = TypeVar("M", bound=Message)

Durability = Literal["memory", "checkpoint", "commit"]
Disconnect = Literal["soft", "hard"]
DuplicatePolicy = Literal["takeover", "reject", "allow"]
OtherVersionPolicy = Literal["refuse", "warn"]
Recorded = Literal["off", "game"]
Election = Literal["none", "oldest", "latency"]
"""none: no host unless the game names one. oldest: the first to join. latency: the shortest round trip."""

CHOICES: dict[str, tuple[str, ...]] = {
    "durability": get_args(Durability),
    "disconnect": get_args(Disconnect),
    "duplicate": get_args(DuplicatePolicy),
    "orphans": get_args(Orphans),
    "election": get_args(Election),
    "other_version": get_args(OtherVersionPolicy),
    "record": get_args(Recorded),
}
"""The settings of a room that are a choice of words."""


class Room(Generic[D]):
    """One running game. Set the class attributes, write the hooks you need, mark handlers with `@on`."""

    kind: ClassVar[str]
    """The room's name for clients: the class's name in snake case, or that of `class Arena(Room, kind="duel")`."""

    max_players: int = 16
    """Seats. Reserved and held ones count."""
    max_spectators: int = 0
    """How many may watch without a seat; 0: nobody."""
    grace_s: float = 30.0
    """How long a dropped player's seat is held."""
    durability: Durability = "memory"
    """memory: dies with the process. checkpoint: saved every `checkpoint_s`. commit: nothing acknowledged is lost."""
    checkpoint_s: float = 10.0
    """How much a checkpoint room may lose in a crash."""
    disconnect: Disconnect = "soft"
    """soft: `on_drop` now, `on_leave` when the grace ends. hard: `on_leave` now, the session lives on."""
    duplicate: DuplicatePolicy = "takeover"
    """The same player joins again: the newest takes the seat over, is refused, or gets a second seat."""
    keep_before_start: bool = True
    """Whether a drop in the lobby keeps the seat; False forgets the player, as many lobbies want."""
    keep_after_end: bool = False
    """Whether players who are away when a round ends stay for the next; False frees their seats."""
    empty_ttl_s: float = 60.0
    """An empty room ends after this; 0: with its last player. `on_destroy` may refuse."""
    tick_hz: float = 0.0
    """Calls of `on_tick` per second; 0: none."""
    save_s: float = 0.0
    """How often `save` is called for every player; 0: when they drop or leave."""
    orphans: Orphans = "destroy"
    """The next owner of objects whose player left for good: nobody (they are forgotten), the server, or the heir."""
    election: Election = "none"
    """The next host when the room has none: nobody, the player who joined first, or the one with the lowest latency."""
    reservation_s: float = 60.0
    """How long a reserved seat waits for its player, unless the reservation says otherwise."""
    waiting_max: int = 0
    """How many players may wait for a seat in a full room; 0: there is no waitlist."""
    unique_names: bool = False
    """Whether two rooms of this kind may not have the same name."""
    create_role: str = ""
    """The role that a player needs to create one; empty: none. The server itself and operators need none."""
    join_role: str = ""
    """The role that a player needs to join, to reserve seats or to wait for one; empty: none."""
    other_version: OtherVersionPolicy = "refuse"
    """A client that was built for other messages than the room's is refused, or let in with a warning in the log."""
    join_options: ClassVar[type[Struct] | None] = None
    """What a player joins with, as in `join_options = Loadout`: `player.options`; None: nothing."""
    shares: ClassVar[Sequence[str]] = ()
    """What clients have a copy of, as in `shares = ("state", "players")`: the room's state, the players' data."""
    sync_hz: float = 0.0
    """How often a second what has changed is sent to clients, at most; 0: after every turn."""
    transactional: bool = False
    """Whether a turn that raises leaves nothing behind: state, data, timers and messages are as they were before it."""
    record: Recorded = "off"
    """game: every turn is recorded, from the room's creation to its end. off: none, but see `record_s`."""
    record_s: float = 0.0
    """The turns of the last so many seconds are recorded; 0: none. Recordings are for operators: see the guide."""
    sends: ClassVar[Sequence[type[Message]] | None] = None
    """The messages it sends, for `holdfast types`; None: those of the project that no room's handler takes."""

    state: Any
    """The game's own. A durable room says of which type it is, as in `state: Board`: it is saved with the room."""

    # The engine's. No other name of a room is.
    _holdfast_handlers: ClassVar[dict[str, Handler]] = {}
    _holdfast_data_type: ClassVar[type[PlayerData]] = PlayerData
    _holdfast_context: RoomContext

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_room_class(cls, Room)
        cls._holdfast_handlers = handlers_of(cls)
        if kind is not None:
            cls.kind = kind
        elif "kind" not in cls.__dict__:
            cls.kind = snake_case(cls.__name__)
        for base in getattr(cls, "__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            if isinstance(origin, type) and issubclass(origin, Room) and _is_data(arguments[0]):
                cls._holdfast_data_type = arguments[0]

    def __init__(self, context: RoomContext) -> None:
        """Called by the server; a game sets itself up in `on_create`."""
        self._holdfast_context = context
        self.state = None

    # What a game may do

    @property
    def id(self) -> str:
        """The room's id: text that no other room has."""
        return self._holdfast_context.room_id

    @property
    def name(self) -> str:
        """The room's name in the directory; change it with `update`."""
        return self._holdfast_context.listing.name

    @property
    def properties(self) -> dict[str, Any]:
        """What searches find and everybody can see: text, numbers, booleans and lists of them."""
        return self._holdfast_context.properties

    @properties.setter
    def properties(self, values: Mapping[str, Any]) -> None:
        # A copy: they may be the same.
        self._holdfast_context.properties.replace(dict(values))

    @property
    def phase(self) -> Phase:
        """ "lobby", or "playing" from `start` to `end`."""
        return self._holdfast_context.phase

    @property
    def is_locked(self) -> bool:
        """Whether the room accepts no new players: see `lock`."""
        return self._holdfast_context.is_locked

    @property
    def random(self) -> "Random":
        """Random numbers; a durable room saves their state, and they continue after a crash."""
        return self._holdfast_context.random

    @property
    def players(self) -> tuple[Player[D], ...]:
        """The players in the room, connected or held, in the order in which they joined."""
        return self._holdfast_context.seats.players

    def player(self, player_id: str) -> Player[D] | None:
        """The player with this id, if they are in the room."""
        seat = self._holdfast_context.seats.occupied_by(player_id)
        return seat.player if seat is not None else None

    @property
    def spectators(self) -> tuple[Spectator, ...]:
        """Those who watch without a seat, connected or held, in the order in which they came."""
        places = self._holdfast_context.spectators
        return places.members if places is not None else ()

    @property
    def host(self) -> Player[D] | None:
        """The player with the host's role, if there is one; theirs until they leave for good. See `name_host`."""
        return self._holdfast_context.host

    @property
    def successor(self) -> str:
        """The id of the player who is to be the next host, if the game has named one."""
        return self._holdfast_context.successor

    @successor.setter
    def successor(self, player_id: str) -> None:
        self._holdfast_context.set("successor", player_id)

    @property
    def objects(self) -> Objects[D]:
        """The objects of the room and their owners; see `own`."""
        return Objects(self._holdfast_context.objects.owners)

    def group(self, name: str) -> Group[D]:
        """The group with this name: it begins when its first player is added, and ends when its last one is gone."""
        if not isinstance(name, str):
            raise TypeError(f"groups are named by text; got {name!r}")
        return Group(self._holdfast_context, name)

    @property
    def groups(self) -> Groups[D]:
        """The groups that have players, by name; see `group`."""
        return Groups(self._holdfast_context)

    def broadcast(
        self,
        message: Message,
        exclude: Iterable[Player[D] | Spectator] = (),
        *,
        to: Iterable[Player[D] | Spectator] | None = None,
        where: Callable[[Player[D]], object] | None = None,
        role: str = "",
        spectators: bool = True,
    ) -> None:
        """Send reliably to every player of the room, also to those whose seat is held, and to its spectators; or to
        some of them.

        Only to these players and spectators (`to`), players for whom a function is true (`where`), and those with a
        role (`role`). If several are given, all of them must be fulfilled.
        """
        context = self._holdfast_context
        some = context.everybody if spectators else context.seats.occupied
        if exclude or role or to is not None or where is not None:
            some = choose(context, exclude, to=to, where=where, role=role, spectators=spectators)
        context.broadcasts.say(some, message)

    def broadcast_latest(
        self,
        message: Message,
        key: str = "",
        exclude: Iterable[Player[D] | Spectator] = (),
        *,
        to: Iterable[Player[D] | Spectator] | None = None,
        where: Callable[[Player[D]], object] | None = None,
        role: str = "",
        spectators: bool = True,
    ) -> None:
        """Send unreliably to players and spectators, who are chosen as by `broadcast`: see `Player.send_latest`."""
        context = self._holdfast_context
        some = context.everybody if spectators else context.seats.occupied
        if exclude or role or to is not None or where is not None:
            some = choose(context, exclude, to=to, where=where, role=role, spectators=spectators)
        send_latest_to(some, message, key)

    def start(self) -> None:
        """Begin a round: from now on dropped players keep their seats, whatever `keep_before_start` says."""
        context = self._holdfast_context
        if context.phase == "lobby":
            context.set("phase", "playing")
            context.later(context.commands.started)
            context.show()
            context.later(context.commands.follow, self.on_start)

    def end(self) -> None:
        """End the round: data is reset, and players who are away lose their seat, unless `keep_after_end` is set."""
        context = self._holdfast_context
        if context.phase != "playing":
            return
        context.set("phase", "lobby")
        context.show()
        failures: list[Exception] = []
        for seat in context.seats.occupied:
            if not (seat.is_connected or self.keep_after_end):
                context.later(context.commands.free, seat, Reason.ROUND_ENDED, "")
                continue
            try:
                _reset(seat.player, self._holdfast_data_type)
            except Exception as failure:  # noqa: BLE001 - one player's data must not keep the others from their reset
                failures.append(failure)
        context.later(context.commands.follow, self.on_end)
        if failures:
            raise ExceptionGroup("the round ended, but reset() raised", failures)

    def close(self) -> None:
        """End the room: everybody leaves, then it is gone."""
        context = self._holdfast_context
        context.later(context.commands.close)

    def lock(self) -> None:
        """Accept no new players; those who have a seat may still return to it."""
        self._holdfast_context.set("is_locked", True)
        self._holdfast_context.entry_changed()

    def unlock(self) -> None:
        """Accept new players again."""
        self._holdfast_context.set("is_locked", False)
        self._holdfast_context.entry_changed()

    def update(
        self,
        *,
        name: str | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as it is called on the wire
        remove: Iterable[str] = (),
        max_players: int | None = None,
    ) -> None:
        """Change the room's entry in the directory after this turn: its players and who watches it are told."""
        self._holdfast_context.commands.update(
            Update(self.id, name=name, set=dict(set or {}), remove=list(remove), max_players=max_players)
        )

    def name_host(self, player: Player[D] | None) -> None:
        """Make a player the host from now on (None: nobody, until the next election)."""
        self._holdfast_context.commands.name_host(player)

    def promote(self, spectator: Spectator, *, options: Struct | Mapping[str, Any] | None = None) -> Player[D]:
        """Give a spectator a seat: `on_unspectate` and `on_join` follow this turn, and their client is told.

        `options` is what they join with; without it, what is kept with their reservation, or the defaults.
        A locked room may promote; `RoomFull` if all seats are taken, held or reserved, `NotFound` if the spectator has
        just left. While the spectator is away, the seat is held for them as the place was.
        """
        if not isinstance(spectator, Member):
            raise TypeError(f"promote() takes one of self.spectators; got {spectator!r}")
        return self._holdfast_context.commands.promote(spectator, options)

    def own(self, player: Player[D] | None, object_id: str) -> None:
        """Make the player the owner of an object (None: the server). `Throttled` if they have too many."""
        context = self._holdfast_context
        context.note(context.objects)
        context.objects.own(player, object_id)

    def disown(self, object_id: str) -> None:
        """The object is gone, or nobody's any more: the room forgets it."""
        context = self._holdfast_context
        context.note(context.objects)
        context.objects.destroy(object_id)

    def owner_of(self, object_id: str) -> Player[D] | None:
        """The owner of an object; None for the server's and for unknown ones."""
        return self._holdfast_context.objects.owners.get(object_id)

    def after(self, seconds: float, method: Callable[..., Any], *args: Any, name: str = "") -> Timer:
        """Call one of this room's methods later, as a turn of its own. A named timer replaces the one of that name."""
        if not _is_method_of(self, method):
            raise TypeError("after() takes a method of this room, as in self.after(5, self.explode, bomb_id)")
        if not isfinite(seconds):
            raise ValueError(f"after() takes a number of seconds; got {seconds!r}")
        return self._holdfast_context.commands.set_timer(seconds, method, args, name, 0.0)

    def every(self, seconds: float, method: Callable[..., Any], *args: Any, name: str = "") -> Timer:
        """Call one of this room's methods every so many seconds, each time as a turn of its own; first after that time.

        Calls are never made up for: after a pause there is one, late, and the next one is on schedule.
        """
        if not _is_method_of(self, method):
            raise TypeError("every() takes a method of this room, as in self.every(5, self.send_wave)")
        if not EVERY_S_MIN <= seconds < inf:
            raise ValueError(f"every() takes {EVERY_S_MIN} seconds or more; got {seconds!r}")
        return self._holdfast_context.commands.set_timer(seconds, method, args, name, seconds)

    def cancel(self, name: str) -> bool:
        """Cancel the timer with this name; False if there is none."""
        timer = self._holdfast_context.commands.timer_named(name)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def remaining(self, name: str) -> float | None:
        """The seconds until the timer with this name calls its method; None if there is none."""
        commands = self._holdfast_context.commands
        timer = commands.timer_named(name)
        return max(0.0, timer.due_at - commands.now()) if timer is not None else None

    def effect(self, name: str, payload: Any = None) -> None:
        """Have something done outside (a payment, a web hook) once this turn is saved; retried until it succeeds.

        The server has the function that does it: `Server(effects={"pay": pay})`.
        """
        self._holdfast_context.commands.effect(name, payload)

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None = None) -> None:
        """Do outside work beside the room; `then` gets its result as a turn. Cancelled with the room."""
        self._holdfast_context.commands.spawn(work, then)

    def open_agent(
        self,
        name: str,
        brain: "Callable[[RoomAgent[D]], Coroutine[Any, Any, None]]",
        *,
        roles: Iterable[str] = (),
        options: Struct | Mapping[str, Any] | None = None,
    ) -> Player[D]:
        """Seat a bot or NPC, played by `async def brain(agent)`, which starts after `on_join`; its id is "agent:name".

        `options` is what it joins with. A seat that is held for it, as after a recovery, is its again: then
        `on_resync` and `on_rejoin` are called.
        `RoomFull` without a free seat, `Duplicate` if it is here already.
        """
        if not _is_async(brain):
            raise TypeError("open_agent() takes an async function, as in self.open_agent('bot', play): async def play")
        if isinstance(roles, str):
            raise TypeError(f'roles= takes several roles: write roles=["{roles}"]')
        return self._holdfast_context.commands.open_agent(name, brain, frozenset(roles), options)

    # What a game may write. All hooks but `heir`, `snapshot`, `restore`, `view`, `area` and `sees` may be `async def`.

    def on_create(self, config: dict[str, Any]) -> Any:
        """The room begins; raise `Refused` to say no.

        `config` is what its creator gave it, and nobody else sees it. What everybody sees is in `properties` already.
        """

    def on_created(self) -> Any:
        """The room is open to players."""

    def admit(self, player: Player[D]) -> Any:
        """Whether this player may join: raise `Refused` if not. Runs beside the room's turns: decide, do not act."""

    def on_join(self, player: Player[D]) -> Any:
        """A player took a seat; a broadcast reaches them too."""

    def on_rename(self, player: Player[D], old_name: str) -> Any:
        """A player has another name: `player.name`."""

    def on_drop(self, player: Player[D]) -> Any:
        """A player's connection is gone; the seat is held."""

    def on_rejoin(self, player: Player[D]) -> Any:
        """A dropped player is back, with the same data and objects."""

    def on_resync(self, player: Player[D] | Any) -> Any:
        """Messages to this player could not be kept: send them the current state. It arrives before anything else.

        Also called for a spectator, with a `Spectator`.
        """

    def on_leave(self, player: Player[D], reason: Reason) -> Any:
        """A player is gone for good and in `players` no more; their objects are still theirs in here."""

    def on_spectate(self, spectator: Spectator) -> Any:
        """Somebody begins to watch: send them the state. Raise `Refused` to say no."""

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> Any:
        """A spectator watches no more, or has a seat now (`Reason.SEATED`)."""

    def heir(self, player: Player[D], object_id: str) -> Player[D] | None:
        """The next owner of an object whose player left, when `orphans` is "heir"; None: it is forgotten."""
        return None

    def on_start(self) -> Any:
        """A round began."""

    def on_end(self) -> Any:
        """A round ended."""

    def on_tick(self, dt_s: float) -> Any:
        """Called `tick_hz` times a second with the time since the last call."""

    def on_recover(self) -> Any:
        """The room was restored, by its server or another one, or has moved here.

        Every player is in `players`, and `player.connected` says who is connected. After a crash nobody is: they return
        one by one, each with an `on_rejoin`. After a move everybody is who was before it.
        """

    def snapshot(self) -> Any:
        """What is saved as the room's state: a Struct or plain data. Called often, between two turns."""
        return self.state

    def restore(self, saved: Any) -> None:
        """Go on from a snapshot, which has the type that `state` is annotated with (plain data without one)."""
        self.state = saved

    def view(self, player: Player[D] | None) -> Any:
        """What this player sees as `state` in a room that shares it; None stands for all spectators.

        Its return annotation says of which type it is. Called when changes are sent, for each client: only look.
        """
        return self.state

    def area(self, entity: Any) -> str:
        """In which area an entry of a field that is `Areas` is. Only look."""
        raise NotImplementedError

    def sees(self, player: Player[D] | None) -> Iterable[str]:
        """The areas whose entries this player sees; None stands for all spectators. Only look."""
        raise NotImplementedError

    def save(self, player_id: str, data: D) -> Any:
        """Save a player's data where the game keeps its accounts; runs beside the room, with a copy of the data."""

    def on_update(self) -> Any:
        """The room's directory entry (name, properties, policy) was changed from outside."""

    def on_host_changed(self, old: Player[D] | None, new: Player[D] | None) -> Any:
        """The room has another host; the old one may have left."""

    def on_health_check(self) -> Any:
        """Called now and then: return False if the room is broken. It ends, with the reason "unhealthy"."""
        return True

    def on_stopping(self, deadline_s: float) -> Any:
        """The server stops within this many seconds: end the round, or tell the players."""

    def on_destroy(self) -> Any:
        """The room is about to end; everybody has left. Raise `Refused` to keep one that ends because it is empty."""

    def on_destroyed(self) -> Any:
        """The room has ended; nothing can be sent any more."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.phase} {self._holdfast_context.seats.used}/{self.max_players}>"


def _is_method_of(room: Room[Any], method: Callable[..., Any]) -> bool:
    owner: object = getattr(method, "__self__", None)
    return owner is room


class RoomAgent(Generic[D]):
    """An agent as its brain sees it: a player of this room, played by code. See `Room.open_agent`.

    The brain runs beside the room's turns. It is cancelled when the agent loses its seat, or the room ends; when it
    returns, the agent leaves.
    """

    __slots__ = ("_ask", "_receive", "_send", "_until", "player", "room")

    def __init__(
        self,
        room: Room[D],
        player: Player[D],
        *,
        send: Callable[[Message], None],
        receive: Callable[[type[Message]], Awaitable[Any]],
        ask: Callable[[Message, float | None], Awaitable[Any]],
        until: Callable[[Callable[[], object]], Awaitable[None]],
    ) -> None:
        """Called by the server."""
        self.room = room
        """The room: look at it, and change it only by messages."""
        self.player = player
        """The agent as the room sees it."""
        self._send = send
        self._receive = receive
        self._ask = ask
        self._until = until

    @property
    def id(self) -> PlayerId:
        """The agent's player id: "agent:" and its name."""
        return self.player.id

    @property
    def data(self) -> D:
        """What the agent keeps as a player of the room."""
        return self.player.data

    def send(self, message: Message) -> None:
        """Send a message to the room, as a client does: its handler runs now, or when it is its turn."""
        check_message(message)
        self._send(message)

    def ask(self, message: Message, *, timeout_s: float | None = None) -> Awaitable[Any]:
        """Send a message and wait for the answer: the message that its handler returns, or None.

        A refusal is raised. `TimeoutError` after `timeout_s` seconds (`Limits.ask_s` without it): the message is not
        taken back. Never wait for it within a turn of the room.
        """
        check_message(message)
        return self._ask(message, timeout_s)

    @overload
    def receive(self) -> Awaitable[Message]: ...

    @overload
    def receive(self, kind: type[M]) -> Awaitable[M]: ...

    def receive(self, kind: type[Message] = Message) -> Awaitable[Any]:
        """The next message, or the next of this type: others before it are skipped. Messages are read-only."""
        return self._receive(kind)

    def until(self, holds: Callable[[], object]) -> Awaitable[None]:
        """Wait until something is true: `await agent.until(lambda: agent.room.state.turn == agent.id)`.

        A plain function, which is called now and after every turn of the room. Messages wait meanwhile.
        """
        if _is_async(holds):
            raise TypeError("until() takes a plain function, as in agent.until(lambda: agent.data.gold > 3)")
        return self._until(holds)

    def __aiter__(self) -> "RoomAgent[D]":
        return self

    def __anext__(self) -> Awaitable[Message]:
        return self.receive()

    def __repr__(self) -> str:
        return f"<RoomAgent {self.id} in {self.room.id}>"


def _is_async(function: Any) -> bool:
    """Whether this is an `async def`, or an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _is_data(argument: Any) -> bool:
    """Whether this is a type of player data: `Any` is not, though it is a class in some Pythons."""
    return isinstance(argument, type) and issubclass(argument, PlayerData)


def context_of(room: Room[Any]) -> RoomContext:
    """The engine's half of a room."""
    return room._holdfast_context  # noqa: SLF001 - the one way from the game's half to the engine's


def room_handlers(room_type: type[Room[Any]]) -> dict[str, Handler]:
    """The handlers of a room class, by the wire name of their message."""
    return room_type._holdfast_handlers  # noqa: SLF001 - as above


def _reset(player: Player[Any], data_type: type[PlayerData]) -> None:
    """What becomes of a player's data at the end of a round: changed in place, or replaced."""
    fresh = player.data.reset()
    if isinstance(fresh, data_type):
        player.data = fresh
    elif fresh is not None:
        wanted = f"a {data_type.__name__}, or None if it was changed in place"
        raise TypeError(f"reset() returned {fresh!r}: return {wanted}")


def player_data_type(room_type: type[Room[Any]]) -> type[PlayerData]:
    """The class of what the players of a room class keep."""
    return room_type._holdfast_data_type  # noqa: SLF001 - as above
