"""What differs between a room that ends with its process and one that outlives it: a strategy of its runner."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.session import Seat, Session
from holdfast.core.tokens import printable
from holdfast.observability.metrics import TurnMeter
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.schemas.room import EffectRecord
from holdfast.server.rooms.outlet import ChannelOutlet, OutletOptions
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import Turns
from holdfast.stores.port import Write

_EFFECT_ID_BYTES = 9

Follow = Callable[[Callable[..., Any], tuple[Any, ...]], None]
"""Runs something right after the current turn."""


class Persistence:
    """How a room is kept: this one, in memory only. One object serves all rooms that end with their process.

    `StorePersistence` is for durable rooms, of which nothing leaves the server before it is saved.
    """

    survives_stop = False
    """Whether the room continues after its server has stopped: then it is suspended, not ended."""

    def __init__(self, services: RoomServices) -> None:
        self._services = services
        body_bytes_max = services.context.limits.payload_bytes_max - FRAME_HEAD_BYTES
        self._options = OutletOptions(body_bytes_max, services.lifecycle.overflowed)

    def make_turns(self, meter: TurnMeter) -> Turns:
        """The turns of a new room."""
        context = self._services.context
        return Turns(context.clock.loop, meter, turn_s=context.limits.turn_s)

    @property
    def is_stalled(self) -> bool:
        """Whether the room takes no turns because the store does not save."""
        return False

    def claim(self, writes: Sequence[Write]) -> None:
        """Write these with the first record of a new room: if another server has them, it is lost."""

    async def saved(self) -> None:
        """Wait until the changes survive a crash."""

    def once_saved(self, then: Callable[[], None]) -> None:
        """Call `then` when the changes survive a crash; never if the room is lost before."""
        then()

    def ended(self) -> None:
        """The room has ended: delete its record."""

    async def forgotten(self) -> None:
        """Wait until the record of a room that ends is deleted."""

    # Seats

    def arriving(self, session: Session) -> None:
        """A client is about to take a seat; its request is answered later."""
        self._services.stored.seated_in_memory(session)

    def spectating(self, session: Session) -> None:
        """A client is about to watch the room; its request is answered later."""
        # A saved session remembers that the channel was opened, if nothing else: its client knows the number.
        self._services.stored.hold(session)

    def promoted(self, session: Session) -> None:
        """A spectator is about to take a seat, by no request of theirs."""
        self._services.stored.seated_in_memory(session)

    def heard_of(self, session: Session) -> None:
        """The room hears now of a session that has taken a seat, or a place as a spectator."""

    def leaving(self, session: Session, seat: Seat) -> None:
        """A client is about to give its seat or place back; its request is answered later."""

    def changing(self, session: Session) -> None:
        """A client has changed the room's entry; its request is answered later."""

    def answered(self, session: Session) -> None:
        """The client's request is answered."""

    def unseated(self, seat: Seat) -> None:
        """The seat's session has lost it."""

    def unspectated(self, place: Seat) -> None:
        """A spectator's session has lost its place."""
        self._services.stored.hold(place.session)

    def keep_seated(self, session: Session) -> None:
        """Save a session together with the room of its seat."""

    def keep_spectator(self, session: Session) -> None:
        """Save a session together with the room that it watches."""

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """Where messages to a client on a seat go."""
        return ChannelOutlet(session, channel, self._options)

    # What the game asks for

    def timer_arguments(self, method: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        """The arguments of a timer as they are saved; `TypeError` if they cannot be."""
        return []

    @property
    def effects_waiting(self) -> int:
        """How many effects wait for the next commit."""
        return 0

    def effect(self, record: EffectRecord, follow: Follow) -> None:
        """Carry out an effect once the current turn is over, and saved where the room is."""
        key = f"effect/{record.room}/{printable(self._services.context.random.randbytes(_EFFECT_ID_BYTES))}"
        follow(self._services.outbox.start, (key, record, None))
