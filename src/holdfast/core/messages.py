"""The messages of games: typed structs with a wire name, and Holdfast's own messages in a stream."""

import re
from typing import Any, ClassVar

import msgspec

from holdfast.schemas.frames import NAME_CHARS_MAX, Body
from holdfast.schemas.room import RoomInfo

RESERVED = "holdfast."
"""Wire names with this prefix are reserved."""

ASK = RESERVED + "ask"
"""The type of a message whose sender waits for the answer; its body is the message's own type and body."""

STATE = RESERVED + "state"
"""The type of the messages that keep a client's copy of a room's shared state up to date."""

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(class_name: str) -> str:
    """A class's name on the wire: `ChatLine` is "chat_line"."""
    return _HUMPS.sub("_", class_name).lower()


class Message(msgspec.Struct):
    """Base of a game's messages. The wire name is the class's in snake case: `class Move` is "move"."""

    wire_name: ClassVar[str] = "message"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "wire_name" not in cls.__dict__:
            cls.wire_name = snake_case(cls.__name__)
        if not 0 < len(cls.wire_name) <= NAME_CHARS_MAX:
            raise TypeError(
                f"{cls.__name__}: a wire name must have 1 to {NAME_CHARS_MAX} characters; set a shorter wire_name"
            )


def check_message(message: object) -> None:
    """Refuse anything but a message, such as a dict or a class."""
    if not isinstance(message, Message):
        raise TypeError(f"send a Message, as in `class Move(Message)` and send(Move(1, 2)); got {message!r}")


class Untyped(Message):
    """A message whose type the client does not know: its wire name and plain data."""

    type: str
    body: Any


class MessageRefused(Message):
    """The server's answer, in the stream, to a message that was not carried out."""

    wire_name: ClassVar[str] = RESERVED + "refused"

    seq: int
    type: str
    code: str
    message: str


class MessageAnswered(Message):
    """The room's answer, in the stream, to a message whose sender asked for one."""

    wire_name: ClassVar[str] = RESERVED + "answer"

    seq: int
    type: str
    """Empty if the handler returned nothing."""
    body: Body = None


class SeatLeft(Message):
    """The last message of every channel: why the seat was freed."""

    wire_name: ClassVar[str] = RESERVED + "left"

    reason: str
    message: str = ""


class RoomUpdated(Message):
    """The room's listing changed: its name, properties, seats or policy."""

    wire_name: ClassVar[str] = RESERVED + "updated"

    room: RoomInfo


class HostChanged(Message):
    """The room has a new host; empty: none."""

    wire_name: ClassVar[str] = RESERVED + "host"

    player: str


class Announcement(Message):
    """A text for the players, from an operator or the game: sent to sessions, as by `holdfast broadcast`."""

    wire_name: ClassVar[str] = RESERVED + "announcement"

    text: str


OWN: tuple[type[Message], ...] = (MessageRefused, MessageAnswered, SeatLeft, RoomUpdated, HostChanged, Announcement)
"""Holdfast's own messages to clients, besides those of the shared state."""


class PlayerData(msgspec.Struct):
    """A player's data, kept across drops; subclass it and give every field a default."""

    def reset(self) -> "PlayerData | None":
        """Called when a round ends: restore the values for a new round, or return the data that replaces this."""
        return None
