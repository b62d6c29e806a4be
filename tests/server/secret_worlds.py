"""Random worlds full of secrets: each text names who may see it, wherever it is, so that any byte that leaves can be
judged by itself."""

import re
import types
from itertools import count
from random import Random
from typing import Any

import msgspec

from holdfast import Areas, Hidden, Player, PlayerData, Private, Room

NOBODY, EVERYBODY, WATCHING = "nobody", "everybody", "watching"
_MARKER = re.compile(rb"~([^~ ]+) \d+~")
_DEPTH_MAX = 4
# Who sees which areas.
SEES = {"ada": ["a", "b"], "bob": ["b", "c"], WATCHING: ["c"]}

Spec = tuple[Any, ...]


def owners_in(payload: bytes) -> set[str]:
    """Who may see what is in these bytes."""
    return {owner.decode() for owner in _MARKER.findall(payload)}


def allowed(name: str) -> set[str]:
    """Whose texts this client may be sent."""
    seen = SEES.get(WATCHING if name == "eve" else name, [])
    return {EVERYBODY, WATCHING if name == "eve" else name, *(f"area.{area}" for area in seen)}


class Secrets:
    """Types, and values of them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._number = count()

    # Types. A spec is ("text",), ("list", spec), ("dict", spec), ("union", specs) or
    # ("struct", type, {name: (marker, spec)}).

    def struct(self, depth: int, markers: list[str], *, base: type = msgspec.Struct, tag: bool = False) -> Spec:
        fields = {}
        for number in range(self.random.randint(1, 4)):
            fields[f"f{number}"] = (self.random.choice(markers), self._spec(depth + 1, markers))
        name = f"S{next(self._number)}"
        made = [
            (each, _annotated(marker, self.type_of(spec)), self._default(spec))
            for each, (marker, spec) in fields.items()
        ]
        return ("struct", msgspec.defstruct(name, made, bases=(base,), tag=name if tag else None), fields)

    def _spec(self, depth: int, markers: list[str]) -> Spec:
        kind = self.random.choice(["text"] if depth >= _DEPTH_MAX else ["text", "list", "dict", "struct", "union"])
        match kind:
            case "list" | "dict":
                return (kind, self._spec(depth + 1, markers))
            case "struct":
                return self.struct(depth, markers)
            case "union":
                return ("union", [self.struct(depth, markers, tag=True) for _ in range(2)])
            case _:
                return ("text",)

    def type_of(self, spec: Spec) -> Any:
        match spec:
            case ("list", inner):
                return list[self.type_of(inner)]  # type: ignore[misc]  # known at run time only
            case ("dict", inner):
                return dict[str, self.type_of(inner)]  # type: ignore[misc]  # the same
            case ("union", (one, other)):
                return one[1] | other[1]
            case ("struct", kind, _):
                return kind
            case _:
                return str

    def _default(self, spec: Spec) -> Any:
        return msgspec.field(default_factory=lambda: self.value(spec, NOBODY))

    # Values

    def text(self, owner: str) -> str:
        return f"~{owner} {next(self._number)}~"

    def value(self, spec: Spec, owner: str, player: str = NOBODY) -> Any:
        """A value; `owner` may see what is public in it, and `player` what is private."""
        random = self.random
        match spec:
            case ("list", inner):
                return [self.value(inner, owner, player) for _ in range(random.randint(0, 3))]
            case ("dict", inner):
                return {self.text(owner): self.value(inner, owner, player) for _ in range(random.randint(0, 3))}
            case ("union", kinds):
                return self.value(random.choice(kinds), owner, player)
            case ("struct", kind, fields):
                made = {name: self._field(field, owner, player) for name, field in fields.items()}
                return kind(**made)
            case _:
                return self.text(owner)

    def _field(self, field: tuple[str, Spec], owner: str, player: str) -> Any:
        marker, spec = field
        seen_by = owner
        if marker == "hidden" or owner == NOBODY:
            seen_by = player = NOBODY
        elif marker == "private":
            seen_by = player
        return self.value(spec, seen_by, player)

    def change(self, spec: Spec, value: Any, owner: str, player: str = NOBODY) -> Any:
        """Change something in a value, in place where that can be; the value to put in its place."""
        random = self.random
        if random.random() < 1 / 4:
            return self.value(spec, owner, player)
        match spec:
            case ("list", inner):
                self._change_list(inner, value, owner, player)
            case ("dict", inner):
                if value and random.random() < 1 / 2:
                    key = random.choice(list(value))
                    value[key] = self.change(inner, value[key], owner, player)
                elif value and random.random() < 1 / 2:
                    del value[random.choice(list(value))]
                else:
                    value[self.text(owner)] = self.value(inner, owner, player)
            case ("union", kinds):
                return self.change(next(each for each in kinds if each[1] is type(value)), value, owner, player)
            case ("struct", _, fields):
                self._change_field(fields, value, owner, player)
            case _:
                return self.text(owner)
        return value

    def _change_list(self, inner: Spec, value: list[Any], owner: str, player: str) -> None:
        random = self.random
        match random.randrange(4):
            case 0:
                value.insert(random.randint(0, len(value)), self.value(inner, owner, player))
            case 1 if value:
                del value[random.randrange(len(value))]
            case 2:
                random.shuffle(value)
            case _ if value:
                place = random.randrange(len(value))
                value[place] = self.change(inner, value[place], owner, player)
            case _:
                pass

    def _change_field(self, fields: dict[str, tuple[str, Spec]], value: Any, owner: str, player: str) -> None:
        name = self.random.choice(list(fields))
        marker, spec = fields[name]
        seen_by = owner
        if marker == "hidden" or owner == NOBODY:
            seen_by = player = NOBODY
        elif marker == "private":
            seen_by = player
        setattr(value, name, self.change(spec, getattr(value, name), seen_by, player))


_MARKS: dict[str, Any] = {"hidden": Hidden, "private": Private}
_ROOM: Any = Room


def _annotated(marker: str, kind: Any) -> Any:
    return _MARKS[marker][kind] if marker in _MARKS else kind


class Entity(msgspec.Struct):
    """Its text is for those who see the area where it is."""

    at: str
    text: str
    plan: Hidden[str] = ""


class Vault(Room[PlayerData]):
    """A room full of secrets; its types come from `vault`."""

    shares = ("state", "players")
    max_spectators = 4
    grace_s = 600.0
    secrets: Secrets
    specs: dict[str, Spec]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = self.secrets.value(self.specs["state"], self._state_owner)
        self.on_recover()

    def on_recover(self) -> None:
        self.views: dict[str, Any] = {}
        self.is_blind = False

    @property
    def _state_owner(self) -> str:
        return NOBODY if "view" in self.specs else EVERYBODY

    def on_join(self, player: Player[Any]) -> None:
        player.data = self.secrets.value(self.specs["data"], EVERYBODY, player.id)

    def turn(self) -> None:
        """Some of it changes."""
        secrets, random = self.secrets, self.secrets.random
        if random.random() < 1 / 2:
            self.state = secrets.change(self.specs["state"], self.state, self._state_owner)
        for player in self.players:
            if random.random() < 1 / 2:
                player.data = secrets.change(self.specs["data"], player.data, EVERYBODY, player.id)
        for name in self.views:
            self.views[name] = secrets.change(self.specs["view"], self.views[name], name)
        if "view" not in self.specs and "world" in self.specs:
            self._move()

    def _move(self) -> None:
        secrets, random = self.secrets, self.secrets.random
        world = self.state.world
        place = random.choice("abcd")
        match random.randrange(3):
            case 0:
                world[secrets.text(f"area.{place}")] = self._entity(place)
            case 1 if world:
                del world[random.choice(list(world))]
            case _ if world:
                # Its key names nobody: it may be seen where it was and where it is.
                world[f"e{random.randrange(5)}"] = self._entity(place)
            case _:
                pass

    def _entity(self, place: str) -> Entity:
        return Entity(place, self.secrets.text(f"area.{place}"), self.secrets.text(NOBODY))

    def spoil(self) -> None:
        """Something secret is where it cannot be shared: the log may say where, but not what."""
        for player in self.players:
            for name, (marker, _) in self.specs["data"][2].items():
                if marker == "private":
                    setattr(
                        player.data, name, {self.secrets.text(player.id): object(), 7.5: self.secrets.text(player.id)}
                    )


def vault(random: Random, durability: str) -> type[Vault]:
    """A kind of rooms with types of its own."""
    secrets = Secrets(random)
    public = ["public", "public", "hidden"]
    specs = {
        "state": secrets.struct(0, public),
        "data": secrets.struct(0, [*public, "private", "private"], base=PlayerData),
    }
    body: dict[str, Any] = {"secrets": secrets, "specs": specs, "durability": durability, "checkpoint_s": 2.0}
    body["record"] = random.choice(["off", "game"])
    how = random.choice(["common", "view", "areas"])
    if how == "view":
        specs["view"] = secrets.struct(0, public)
        body["view"] = _view(specs["view"])
    elif how == "areas":
        _, kind, fields = specs["state"]
        land = msgspec.defstruct("Land", [("world", Areas[Entity], msgspec.field(default_factory=dict))], bases=(kind,))
        specs["state"] = ("struct", land, fields)
        specs["world"] = ()
        body |= {"area": _area, "sees": _sees}
    body["__annotations__"] = {"state": specs["state"][1]}
    made: type[Vault] = types.new_class("Vault", (Vault, _ROOM[specs["data"][1]]), {}, lambda names: names.update(body))
    return made


def _view(spec: Spec) -> Any:
    def view(self: Vault, player: Player[Any] | None) -> Any:
        if self.is_blind:
            raise RuntimeError("nothing to see")
        name = WATCHING if player is None else player.id
        if name not in self.views:
            self.views[name] = self.secrets.value(spec, name)
        return self.views[name]

    view.__annotations__["return"] = spec[1]
    return view


def _area(self: Vault, entity: Entity) -> str:
    return entity.at


def _sees(self: Vault, player: Player[Any] | None) -> list[str]:
    if self.is_blind:
        raise RuntimeError("nothing to see")
    return SEES.get(WATCHING if player is None else player.id, [])
