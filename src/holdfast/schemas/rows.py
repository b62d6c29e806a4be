"""What the nodes of a cluster tell each other of their rooms, so that a search on one of them finds those of all.

Fields are only ever added, with defaults: nodes of two versions hear each other.
"""

from msgspec import Struct

from holdfast.schemas.room import RoomInfo


class RoomRow(Struct, frozen=True, array_like=True):
    """A room of another node, as it is listed there. The code is beside it: searches must not find it."""

    info: RoomInfo
    code: str = ""
    epoch: int = 0
    """Of the record of a durable room: of two nodes that list the same one, the higher is right."""
    is_durable: bool = False
    members: list[str] = []
    """Of a private room: the players who may find it, besides its creator."""


class RowsTold(Struct, frozen=True, array_like=True):
    """What has changed among the rooms of a node since it last said so."""

    life: str
    number: int
    """Counts what this life has told: whoever misses one asks for all rows."""
    rows: list[RoomRow] = []
    removed: list[str] = []


class RowsAsked(Struct, frozen=True, array_like=True):
    """Which rooms do you have? Those with ids after this one."""

    after: str = ""


class NumberedRow(Struct, frozen=True, array_like=True):
    """A row, and the number of what was told when it last changed."""

    number: int
    row: RoomRow


class RowsPage(Struct, frozen=True, array_like=True):
    """Some of the rooms of a node, in the order of their ids."""

    number: int
    """Of what was told last."""
    rows: list[NumberedRow] = []
    after: str = ""
    """Ask for those after this id; empty if these are all."""
