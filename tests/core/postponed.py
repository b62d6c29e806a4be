"""A room whose annotations are text, as `from __future__ import annotations` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.handlers import on
from holdfast.core.messages import Message
from holdfast.core.room import Room

if TYPE_CHECKING:
    from holdfast.core.session import Player


class Step(Message):
    pass


class Hop(Message):
    pass


class Postponed(Room[Any]):
    @on
    def stepped(self, player: Player[Any], step: Step) -> None: ...

    @on()
    async def hopped(self, player: Player[Any], hop: "Hop") -> None: ...  # noqa: UP037 - text in text works too
