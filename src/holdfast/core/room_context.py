"""The engine's half of a room: its state that is not the game's, and what it asks of the server that runs it."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.limits import Limits
from holdfast.core.ownership import Ownership
from holdfast.core.player import Player, Seat
from holdfast.core.reasons import Reason
from holdfast.core.room_listing import PropertyDict, RoomListing
from holdfast.core.seats import Seats
from holdfast.core.session import PlaceRunner, PlayerId
from holdfast.schemas.requests import Update

if TYPE_CHECKING:
    from random import Random

Phase = Literal["lobby", "playing"]


class Timer(Protocol):
    """A pending `after`."""

    def cancel(self) -> None:
        """Do not call it any more."""


class Runner(PlaceRunner, Protocol):
    """What a room asks of the server that runs it."""

    @property
    def limits(self) -> Limits:
        """The server's."""

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        """Run a hook as a turn of its own, right after the current one."""

    def free(self, seat: Seat, reason: Reason, message: str = "") -> None:
        """Free a seat, with all that follows."""

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> Timer:
        """Call a method of the room later, as a turn."""

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run outside work beside the room; its result comes back as a turn."""

    def effect(self, name: str, payload: Any) -> None:
        """Have something done outside after the current turn."""

    def started(self) -> None:
        """A round has begun."""

    def close(self) -> None:
        """End the room after the current turn."""

    def listed(self) -> None:
        """What the directory shows of the room has changed."""

    def update(self, request: Update) -> None:
        """Change the room's entry in the directory."""

    def name_host(self, player: Player[Any] | None) -> None:
        """Make a player the host."""


class RoomSettings(Protocol):
    """The settings of a room that decide who may take a seat. A game may change them while it runs."""

    max_players: int
    duplicate: Any


class RoomContext:
    """Everything about a room that is not the game's own. The room refers to it; the game never sees it."""

    __slots__ = (
        "host",
        "is_closing",
        "is_locked",
        "listing",
        "objects",
        "phase",
        "properties",
        "random",
        "room_id",
        "runner",
        "seats",
        "settings",
        "successor",
    )

    settings: RoomSettings
    """The room itself, which sets this when it is made."""

    def __init__(self, room_id: str, runner: Runner, random: "Random") -> None:
        self.room_id = room_id
        self.runner = runner
        self.random = random
        self.seats = Seats(runner.listed)
        self.listing = RoomListing()
        self.properties = PropertyDict({}, self.entry_changed)
        self.objects: Ownership[Any] = Ownership(runner.limits)
        self.phase: Phase = "lobby"
        self.host: Player[Any] | None = None
        """The player with the host's role; theirs until they leave for good."""
        self.successor = ""
        self.is_locked = False
        self.is_closing = False

    def set_properties(self, values: Mapping[str, Any]) -> None:
        """The room begins, or goes on, with these: nothing has changed for anybody."""
        self.properties = PropertyDict(values, self.entry_changed)

    def entry_changed(self) -> None:
        """What the directory shows of the room has changed, by the game's own hand."""
        self.listing.version += 1
        self.runner.listed()

    # Whether there is a seat for somebody new

    def check_open(self, player_id: PlayerId) -> None:
        """Refuse a newcomer if the rules say so; nothing changes."""
        if self.is_closing:
            raise NotFound("the room is closing")
        if self.settings.duplicate != "allow" and self.seats.of(player_id) is not None:
            raise Duplicate("this player is in the room already")
        if not self.seats.is_awaited(player_id):
            self.check_space(1)

    def check_space(self, seats: int) -> None:
        """Refuse if so many newcomers cannot be let in."""
        if self.is_closing:
            raise NotFound("the room is closing")
        if self.is_locked or self.listing.join_policy == "deny_all":
            raise RoomLocked("the room is locked" if self.is_locked else "the room takes nobody new")
        if self.seats.used + seats > self.settings.max_players:
            raise RoomFull(f"all {self.settings.max_players} seats are taken, held or reserved")

    @property
    def open_seats(self) -> int:
        """How many newcomers could join now."""
        if self.is_closing or self.is_locked or self.listing.join_policy == "deny_all":
            return 0
        return max(0, self.settings.max_players - self.seats.used)
