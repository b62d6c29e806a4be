"""What rooms of one type share, compiled from their annotations: for everybody, and for each client."""

from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

from holdfast.core.handlers import annotation_of
from holdfast.core.room import Room, player_data_type
from holdfast.state import AreaPlan, Audience, SharedPlan, Unshareable, area_plans, has_private, is_secret


class RoomPlan:
    """What rooms of one type share."""

    def __init__(self, room_type: type[Room[Any]]) -> None:
        """`Unshareable` if it cannot be."""
        self.has_view = room_type.view is not Room.view
        """Whether `state` is made for each player."""
        self.areas: list[AreaPlan] = []
        data = player_data_type(room_type)
        common: dict[str, Any] = {}
        own: dict[str, Any] = {}
        audiences = {"state": Audience.EVERYBODY, "mine": Audience.OWNER}
        if "state" in room_type.shares:
            kind = _view_type(room_type) if self.has_view else _state_type(room_type)
            (own if self.has_view else common)["state"] = kind
            self.areas = [] if self.has_view else area_plans(kind)
            if self.areas:
                _check_area_hooks(room_type, self.areas[0])
        elif self.has_view:
            raise Unshareable('it is what players see as `state`: name that, as in shares = ("state",)', ("view",))
        if "players" in room_type.shares:
            common["players"] = dict[str, data]  # type: ignore[valid-type]  # known at run time only
        # Without what a view has in its place.
        self.spectators = SharedPlan(own, is_strict=True) if own else None
        """What is made for all spectators together; None if it is what everybody sees."""
        if "players" in room_type.shares:
            own["mine"] = data
        self.roots = tuple(common)
        self.common = SharedPlan(common, areas_in="state")
        """What everybody sees."""
        players = SharedPlan(own, audiences, is_strict=self.has_view)
        self.players = None if players.is_empty else players
        """What is made for each player: their view, and their data with the private fields; None for nothing."""
        self.is_common = self.spectators is None and self.players is None and not self.areas
        """Whether everybody sees the same."""


def _state_type(room_type: type[Room[Any]]) -> Any:
    kind = get_type_hints(room_type).get("state", Any)
    if kind is Any:
        raise Unshareable("say of which type the room's state is, as in `state: Board`", ("state",))
    if is_secret(get_type_hints(room_type, include_extras=True)["state"]):
        raise Unshareable('nobody may see it, and it is named in `shares`: leave out "state" there', ("state",))
    if has_private(kind):
        raise Unshareable("a room's state belongs to nobody: use Hidden, or keep it in players' data", ("state",))
    return kind


def _view_type(room_type: type[Room[Any]]) -> Any:
    try:
        kind = annotation_of(room_type, room_type.view, "return")
    except (KeyError, NameError, AttributeError, SyntaxError, TypeError):
        kind = Any
    if kind is Any or kind is None:
        raise Unshareable("say what it returns, as in `def view(self, player) -> BoardView`", ("view",))
    if has_private(kind):
        raise Unshareable("what it returns is seen by one player anyway: use Hidden, or leave it out", ("view",))
    return kind


def _check_area_hooks(room_type: type[Room[Any]], areas: AreaPlan) -> None:
    for hook, how in (("area", "def area(self, entity) -> str"), ("sees", "def sees(self, player) -> list[str]")):
        if getattr(room_type, hook) is getattr(Room, hook):
            raise Unshareable(f"who sees which areas is not said: write `{how}`", ("state", areas.attribute))


_plans: WeakKeyDictionary[type[Room[Any]], RoomPlan | None] = WeakKeyDictionary()


def plan_of(room_type: type[Room[Any]]) -> RoomPlan | None:
    """What rooms of this type share; None for nothing."""
    if room_type not in _plans:
        _plans[room_type] = RoomPlan(room_type) if room_type.shares else None
    return _plans[room_type]
