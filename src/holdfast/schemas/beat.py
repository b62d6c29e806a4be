"""What a node of a cluster says of itself to the others, several times a second, and when it goes."""

from msgspec import Struct


class Beat(Struct, frozen=True, kw_only=True):
    """A sign of life. Fields are only ever added, with defaults: nodes of two versions hear each other."""

    life: str
    """This run of the process; a restart is another life."""
    number: int
    """Counts the beats of this life."""
    name: str = ""
    version: str = ""
    """Of Holdfast."""
    addresses: tuple[str, ...] = ()
    """Where other nodes reach it."""
    kinds: tuple[str, ...] = ()
    """The kinds of rooms that it can host."""
    load: float = 0.0
    """How busy it is, from 0 to 1."""
    is_draining: bool = False
    """It takes no more rooms, and will end."""
    loop_age_s: float = 0.0
    """How long ago its event loop last had a turn: a handler that blocks the loop does not stop the beats."""
    rows: int = 0
    """The number of the last change of its rooms that it has told."""
    is_drained: bool = False
    """It has handed over everything that can go on elsewhere."""
    news: int = 0
    """The number of the last news that it has told."""
    region: str = ""
    address: str = ""
    """Where clients reach this node and no other, if they can."""
    started_at: float = 0.0
    """In seconds since 1970, on its own clock."""
    rooms: int = 0
    rooms_max: int = 0
    sessions: int = 0
    """Connected, or held."""
    connections: int = 0
    """To clients, also those that it relays."""
    reasons: tuple[str, ...] = ()
    """Why it is not healthy, or not ready."""
    wall_clock: float = 0.0
    """When it was said, on this node's clock; 0 if it does not say."""


class Goodbye(Struct, frozen=True):
    """The last words of a life: its rooms are saved, and others may have them."""

    life: str
