"""The engine's half of a room: its state that is not the game's, and the commands that the server carries out."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from holdfast.core.broadcasts import Broadcasts
from holdfast.core.by_player import ByPlayer
from holdfast.core.grouping import Grouping
from holdfast.core.limits import Limits
from holdfast.core.names import NamesInRoom
from holdfast.core.ownership import Ownership
from holdfast.core.reasons import Reason
from holdfast.core.room_listing import PropertyDict, RoomListing, RoomStatus
from holdfast.core.session import Player, PlayerId, Seat, SeatState, Spectator
from holdfast.core.transaction import Transaction, current_transaction
from holdfast.schemas.requests import Update

if TYPE_CHECKING:
    from random import Random

Phase = Literal["lobby", "playing"]

EVERY_S_MIN = 0.001
"""The shortest time between two calls of `Room.every`: clocks of event loops tick in milliseconds."""


class Timer:
    """A call that a room makes later (`Room.after`), or again and again (`Room.every`)."""

    __slots__ = ("_cancelled", "arguments", "due_at", "every_s", "is_cancelled", "method", "name", "number")

    def __init__(
        self,
        number: int,
        due_at: float,
        method: str,
        cancelled: Callable[["Timer"], None],
        *,
        name: str = "",
        every_s: float = 0.0,
    ) -> None:
        self.number = number
        """Timers of a room are numbered as they are set."""
        self.due_at = due_at
        """On the server's clock; for a repeated call, the next one."""
        self.method = method
        self.name = name
        self.every_s = every_s
        """The time between two calls; 0: there is only one."""
        self.arguments: list[tuple[str, Any]] = []
        """Those of the call, as they are saved with a durable room."""
        self.is_cancelled = False
        self._cancelled = cancelled

    def cancel(self) -> None:
        """Do not call the method any more, even if the time is up and the call waits for its turn."""
        self.is_cancelled = True
        self._cancelled(self)


def next_due(due_at: float, every_s: float, now: float) -> float:
    """A repeated call that was due is made now: the first time of its schedule that is not over."""
    missed = int(max(0.0, now - due_at) / every_s)
    following = due_at + (missed + 1) * every_s
    # At most once: the division was rounded.
    return following if following > now else following + every_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomCommands:
    """What the calls of a game do: filled by the server that runs the room."""

    follow: Callable[..., None]
    """Run a hook as a turn of its own, right after the current one."""
    free: Callable[[Seat, Reason, str], None]
    """Free a seat, with all that follows."""
    set_timer: Callable[[float, Callable[..., Any], tuple[Any, ...], str, float], Timer]
    """After how long which method is called, with which arguments; the timer's name, and the time between two calls."""
    timer_named: Callable[[str], Timer | None]
    now: Callable[[], float]
    """The time by the timers' clock."""
    spawn: Callable[[Coroutine[Any, Any, Any], Callable[[Any], Any] | None], None]
    effect: Callable[[str, Any], None]
    started: Callable[[], None]
    """A round has begun."""
    close: Callable[[], None]
    update: Callable[[Update], None]
    name_host: Callable[[Player[Any] | None], None]
    open_agent: Callable[[str, Callable[..., Any], frozenset[str], Any], Player[Any]]
    promote: Callable[[Spectator, Any], Player[Any]]


class Reservation(NamedTuple):
    """One seat that is kept for a player who has not joined yet."""

    until: float
    by: str = ""
    """The player who reserved it; empty for an operator."""
    is_placed: bool = False
    """Whether a placement reserved it in that player's name: it outlives their session."""
    options: bytes | None = None
    """What the player joins with, unless they say otherwise."""

    @property
    def needs_maker(self) -> bool:
        """Whether it ends with the session of the player who made it."""
        return bool(self.by) and not self.is_placed


class SeatRegistry:
    """Seats of one room in the order they were given, or spectators' places; found by player in constant time."""

    __slots__ = ("_changed", "_last_number", "_members", "_occupied", "_of_player", "_seats", "beside", "names")

    def __init__(self, changed: Callable[[], None], seats: "SeatRegistry | None" = None) -> None:
        """`changed` is called when there is one seat more or less. Places share the names of the room's `seats`."""
        self._changed = changed
        self.beside = seats
        if seats is not None:
            seats.beside = self
        # In the order they were given.
        self._seats: dict[Seat, None] = {}
        # Several for a player in a room that allows it.
        self._of_player: ByPlayer[Seat] = ByPlayer()
        self._last_number = 0
        self._occupied: tuple[Seat, ...] | None = None
        # None while nobody in the room has chosen a name.
        self.names: NamesInRoom | None = seats.names if seats is not None else None
        self._members: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[Seat]:
        """A copy: seats may be freed while you look at them."""
        return iter(tuple(self._seats))

    def __contains__(self, seat: object) -> bool:
        return seat in self._seats

    @property
    def occupied(self) -> tuple[Seat, ...]:
        """The seats that are taken or held, in the order the players joined."""
        if self._occupied is None:
            self._occupied = tuple(seat for seat in self._seats if seat.state is not SeatState.RESERVED)
        return self._occupied

    @property
    def members(self) -> tuple[Any, ...]:
        """The players on the seats, or the spectators, connected or not, in the order in which they joined."""
        if self._members is None:
            self._members = tuple(seat.member for seat in self.occupied)
        return self._members

    def of(self, player_id: str) -> Seat | None:
        """The player's seat in any state, the oldest if they have several."""
        return self._of_player.first(player_id)

    def all_of(self, player_id: str) -> tuple[Seat, ...]:
        """All seats of a player, in any state."""
        return self._of_player.all(player_id)

    def occupied_by(self, player_id: str) -> Seat | None:
        """The player's seat that is taken or held."""
        seats = self._of_player.all(player_id)
        return next((seat for seat in seats if seat.state is not SeatState.RESERVED), None)

    def add(self, seat: Seat) -> None:
        """A seat is given to a newcomer: it counts from now on. A restored one has its number already."""
        seat.number = seat.number or self._last_number + 1
        self._last_number = max(self._last_number, seat.number)
        self._seats[seat] = None
        self._of_player.add(seat.player_id, seat)
        self._take_name(seat)
        self.occupation_changed()
        self._changed()

    def occupation_changed(self) -> None:
        """A newcomer's seat was taken: they are a player now."""
        self._occupied = self._members = None

    # Names

    def _take_name(self, seat: Seat) -> None:
        """Decide what the player is called here; a restored seat knows it already."""
        names = self.names
        if names is None:
            if not seat.session.name and not seat.shown_name:
                return
            names = NamesInRoom()
            self._share_names(names)
            for each in (*self._seats, *(self.beside or ())):
                if each is not seat:
                    each.shown_name = names.take(each.player_id, each.member.name)
        if seat.shown_name:
            names.keep(seat.player_id, seat.shown_name)
        else:
            seat.shown_name = names.take(seat.player_id, seat.member.name)

    def _share_names(self, names: NamesInRoom | None) -> None:
        self.names = names
        if self.beside is not None:
            self.beside.names = names

    def renamed(self, seat: Seat) -> None:
        """The player has another name, or another session with another name."""
        self._give_name_back(seat)
        seat.shown_name = ""
        self._take_name(seat)

    def _give_name_back(self, seat: Seat) -> None:
        if self.names is not None:
            self.names.give_back(seat.player_id, seat.shown_name)
            if not self._seats and not self.beside:
                self._share_names(None)

    def remove(self, seat: Seat) -> None:
        if seat in self._seats:
            del self._seats[seat]
            self._give_name_back(seat)
        self._of_player.remove(seat.player_id, seat)
        self.occupation_changed()
        self._changed()


class Seats(SeatRegistry):
    """All seats of one room, whatever state they are in. Every seat and every open reservation counts as occupied.

    A reservation in use has become a seat of its own, and does not expire. It is remembered until the room has heard of
    its player: before that they may be turned away, or the server may crash.
    """

    __slots__ = ("_in_use", "agents", "reservations", "waitlist")

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self.agents = 0
        """How many seats have an agent that the room itself opened."""
        self.reservations: dict[PlayerId, Reservation] = {}
        """Those in use included; changed by `reserve` and `unreserve`."""
        self._in_use: set[PlayerId] = set()
        self.waitlist: dict[PlayerId, str] = {}
        """Players who wait for a seat, first come first served, with their addresses."""

    def add(self, seat: Seat) -> None:
        self.agents += bool(seat.agent)
        super().add(seat)

    def remove(self, seat: Seat) -> None:
        self.agents -= bool(seat.agent) and seat in self
        super().remove(seat)

    def forget(self, seat: Seat) -> None:
        """The turn that gave this seat is undone: its number was never used, and its reservation waits as before."""
        if seat.was_reserved:
            self.put_back(seat.player_id)
        self.remove(seat)
        if seat.number == self._last_number:
            self._last_number -= 1

    @property
    def used(self) -> int:
        """Seats and reservations that count against `max_players`."""
        return len(self._seats) + self.reservations_open

    @property
    def keeping(self) -> int:
        """Those that keep the room alive: all but the seats of its own agents."""
        return self.used - self.agents

    @property
    def players(self) -> tuple[Player[Any], ...]:
        """The players in the room, connected or not, in the order in which they joined."""
        return self.members

    # Reservations

    @property
    def reservations_open(self) -> int:
        """How many reservations wait for their player; one in use has a seat, which counts already."""
        return len(self.reservations) - len(self._in_use)

    def is_awaited(self, player_id: str) -> bool:
        """Whether a seat is kept for a player, and not in use."""
        return player_id in self.reservations and player_id not in self._in_use

    @property
    def is_room_needed(self) -> bool:
        """Whether a room that nobody has joined waits for players that an operator or a placement promised a seat."""
        return any(not kept.needs_maker for _, kept in self._open())

    def reserve(self, player_id: PlayerId, kept: Reservation) -> None:
        """Keep a seat; a player who has one already keeps it for longer, never for less."""
        known = self.reservations.get(player_id) or kept
        self.reservations[player_id] = known._replace(until=max(kept.until, known.until), options=kept.options)

    def use(self, player_id: PlayerId) -> bool:
        """The player takes the reserved seat; False if none waits for them."""
        if not self.is_awaited(player_id):
            return False
        self._in_use.add(player_id)
        return True

    def put_back(self, player_id: PlayerId) -> None:
        """The player did not get in: the seat waits for them again, for as long as it would have."""
        self._in_use.discard(player_id)

    def unreserve(self, player_id: PlayerId) -> Reservation | None:
        """The player has come, or the seat is given back; what was kept."""
        self._in_use.discard(player_id)
        return self.reservations.pop(player_id, None)

    def reserved_by(self, maker: str) -> list[PlayerId]:
        """For whom this player has reserved seats that wait, and end with the player's session."""
        return [player_id for player_id, kept in self._open() if kept.by == maker and kept.needs_maker]

    def makers(self) -> set[str]:
        """The players whose session some of the open reservations depend on."""
        return {kept.by for _, kept in self._open() if kept.needs_maker}

    def expired(self, now: float) -> list[PlayerId]:
        return [player_id for player_id, kept in self._open() if kept.until <= now]

    @property
    def next_expiry(self) -> float | None:
        return min((kept.until for _, kept in self._open()), default=None)

    def _open(self) -> Iterator[tuple[PlayerId, Reservation]]:
        return ((player_id, kept) for player_id, kept in self.reservations.items() if player_id not in self._in_use)

    def position(self, player_id: str) -> int:
        """On the waitlist: 1 for the player who is next, 0 for one who does not wait."""
        return next((place for place, each in enumerate(self.waitlist, 1) if each == player_id), 0)


class RoomContext:
    """Everything about a room that is not the game's. The room refers to it; games do not see it."""

    __slots__ = (
        *(
            "_commands",
            "_make_commands",
            "broadcasts",
            "host",
            "is_locked",
            "limits",
            "listed",
            "listing",
            "grouping",
            "objects",
        ),
        *("phase", "properties", "random", "room_id", "seats", "spectators", "successor", "turn"),
    )

    def __init__(
        self,
        room_id: str,
        limits: Limits,
        random: "Random",
        *,
        listed: Callable[[], None],
        make_commands: Callable[[], RoomCommands],
    ) -> None:
        self.room_id = room_id
        self.limits = limits
        self.random = random
        self.listed = listed
        """Called when what the directory shows of the room has changed."""
        self._make_commands = make_commands
        self._commands: RoomCommands | None = None
        self.turn: Transaction | None = None
        """The turn that the room takes now, if it is transactional."""
        self.broadcasts = Broadcasts(limits)
        self.seats = Seats(listed)
        self.spectators: SeatRegistry | None = None
        """Their places; None until somebody watches the room."""
        self.listing = RoomListing()
        self.properties = PropertyDict({}, self.entry_changed)
        self.objects: Ownership[Any] = Ownership(limits)
        self.grouping: Grouping | None = None
        """Who is in which group; None until there is one."""
        self.phase: Phase = "lobby"
        self.host: Player[Any] | None = None
        """The player with the host's role; theirs until they leave for good."""
        self.successor = ""
        self.is_locked = False

    @property
    def commands(self) -> RoomCommands:
        """Made when the game first gives one: many rooms never do."""
        if self._commands is None:
            self._commands = self._make_commands()
        return self._commands

    def replace_commands(self, **others: Callable[..., Any]) -> None:
        """Carry out some commands of the game in another way."""
        self._commands = replace(self.commands, **others)

    @property
    def everybody(self) -> tuple[Seat, ...]:
        """The seats that are taken or held, and then the places of spectators."""
        return (*self.seats.occupied, *self.spectators.occupied) if self.spectators else self.seats.occupied

    @property
    def places(self) -> SeatRegistry:
        """The places of spectators, to add one."""
        if self.spectators is None:
            self.spectators = SeatRegistry(self.listed, self.seats)
        return self.spectators

    @property
    def is_closing(self) -> bool:
        return self.listing.status not in (RoomStatus.CREATING, RoomStatus.ACTIVE)

    def set_properties(self, values: Mapping[str, Any]) -> None:
        """Begin, or continue, with these properties: that is no change."""
        self.properties = PropertyDict(values, self.entry_changed)

    def entry_changed(self) -> None:
        """The game changed what the directory shows of the room."""
        if (turn := self.transaction) is not None:
            turn.undo(setattr, self.listing, "version", self.listing.version)
        self.listing.version += 1
        self.show()

    # In a transactional turn

    @property
    def transaction(self) -> Transaction | None:
        """The turn that the calling code is a part of; None if this room is not transactional, or it is no part."""
        turn = self.turn
        return turn if turn is not None and current_transaction() is turn else None

    def later(self, act: Callable[..., Any], *args: Any) -> None:
        """Call this when the turn has succeeded; now if it cannot be undone."""
        turn = self.transaction
        if turn is None:
            act(*args)
        else:
            turn.hold(act, *args)

    def show(self) -> None:
        """The directory is to show what the game has changed."""
        turn = self.transaction
        if turn is None:
            self.listed()
        elif turn.mark(self.listed):
            turn.hold(self.listed)

    def note(self, what: Ownership[Any] | Grouping) -> None:
        """The game is about to change this: it is what it was if the turn fails."""
        turn = self.transaction
        if turn is not None and turn.mark(what):
            turn.undo(what.note())

    def set(self, name: str, value: Any) -> None:
        """Change a value of the room; it is what it was if the turn fails."""
        if (turn := self.transaction) is not None:
            turn.undo(setattr, self, name, getattr(self, name))
        setattr(self, name, value)
