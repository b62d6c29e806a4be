"""What differs between a room that ends with its process and one that outlives it: a strategy of its runner."""

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from holdfast.core.channel import Channel
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.schemas.room import EffectRecord
from holdfast.server.rooms.effects import Outbox
from holdfast.server.rooms.outlet import ChannelOutlet

_EFFECT_ID_BYTES = 9

Follow = Callable[[Callable[..., Any], tuple[Any, ...]], None]
"""Has something done right after the current turn."""


class Persistence(Protocol):
    """How one room is kept. Nothing of a durable room may be heard of before it is saved."""

    @property
    def survives_stop(self) -> bool:
        """Whether the room goes on when its server stops: then it is suspended, not ended."""

    @property
    def is_stalled(self) -> bool:
        """Whether the room takes no turns because the store does not save."""

    @property
    def turn_ended(self) -> Callable[[], None] | None:
        """What to call at the end of every turn, if anything."""

    @property
    def effects_waiting(self) -> int:
        """How many effects wait for the next commit."""

    async def saved(self) -> None:
        """Wait until what was changed survives a crash."""

    def once_saved(self, then: Callable[[], None]) -> None:
        """Call `then` when what was changed survives a crash; never if the room is lost before."""

    def ended(self) -> None:
        """The room has ended: whatever is kept of it may go."""

    async def forgotten(self) -> None:
        """Wait until nothing is kept of a room that ends."""

    # Seats

    def arriving(self, session: Session) -> None:
        """A client is about to take a seat; its request is answered later."""

    def leaving(self, session: Session) -> None:
        """A client is about to give its seat back; its request is answered later."""

    def changing(self, session: Session) -> None:
        """A client has changed the room's entry; its request is answered later."""

    def answered(self, session: Session) -> None:
        """The client has its answer."""

    def unseated(self, session: Session) -> None:
        """A session has lost its seat."""

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """Where messages to a client on a seat go."""

    # What the game asks for

    def timer_arguments(self, method: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        """The arguments of a timer as they are saved; `TypeError` if they cannot be."""

    def effect(self, record: EffectRecord, follow: Follow) -> None:
        """Carry out an effect once the current turn is saved."""


class InMemory:
    """How a room is kept that ends with its process. One serves all of them."""

    survives_stop = False
    is_stalled = False
    turn_ended = None
    effects_waiting = 0

    def __init__(
        self,
        outbox: Outbox,
        random: Random,
        *,
        make_outlet: Callable[[Session, Channel], ChannelOutlet],
        forget_session: Callable[[Session], None],
    ) -> None:
        """`forget_session` is called with each session that takes a seat: it must not return without it."""
        self._outbox = outbox
        self._random = random
        self._forget_session = forget_session
        self.outlet_of = make_outlet

    async def saved(self) -> None:
        pass

    def once_saved(self, then: Callable[[], None]) -> None:
        then()

    def ended(self) -> None:
        pass

    async def forgotten(self) -> None:
        pass

    def arriving(self, session: Session) -> None:
        self._forget_session(session)

    def leaving(self, session: Session) -> None:
        pass

    def changing(self, session: Session) -> None:
        pass

    def answered(self, session: Session) -> None:
        pass

    def unseated(self, session: Session) -> None:
        pass

    def timer_arguments(self, method: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        return []

    def effect(self, record: EffectRecord, follow: Follow) -> None:
        key = f"effect/{record.room}/{printable(self._random.randbytes(_EFFECT_ID_BYTES))}"
        follow(self._outbox.start, (key, record, None))
