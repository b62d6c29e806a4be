"""A misspelt setting or hook is an error when the class is made; a game's own names are its own."""

from typing import Any

import pytest

from holdfast import Message, Player, Room, on
from holdfast.core.room import room_handlers
from tests.cases import every_case


class Hit(Message):
    damage: int = 1


def room_class(**members: Any) -> type[Room[Any]]:
    return type("Arena", (Room,), members)


def method(*parameters: str) -> Any:
    """A method with these parameters beside `self`."""
    names = ", ".join(("self", *parameters))
    return eval(f"lambda {names}: None")  # noqa: S307 - of the names in this file


@every_case(
    ("name", "value", "meant"),
    [
        ("grace", 30, "grace_s"),
        ("grace_seconds", 30, "grace_s"),
        ("grace_ms", 30_000, "grace_s"),
        ("tick", 20, "tick_hz"),
        ("tick_rate", 20, "tick_hz"),
        ("empty_ttl", 5.0, "empty_ttl_s"),
        ("max_player", 4, "max_players"),
        ("max_palyers", 4, "max_players"),
        ("maxPlayers", 4, "max_players"),
        ("durablity", "commit", "durability"),
        ("keep_before_strat", False, "keep_before_start"),
    ],
)
def test_a_misspelt_setting_is_an_error_that_names_the_right_one(name: str, value: object, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"Arena\.{name} .*did you mean {meant}\?"):
        room_class(**{name: value})


@every_case(
    ("name", "meant"),
    [
        ("on_joined", "on_join"),
        ("on_joins", "on_join"),
        ("on_jion", "on_join"),
        ("on_dropped", "on_drop"),
        ("on_leaving", "on_leave"),
        ("on_left", "on_leave"),
        ("on_spectator", "on_spectate"),
        ("on_disconnect", "on_drop"),
        ("on_ticks", "on_tick"),
        ("onJoin", "on_join"),
        ("on_resynch", "on_resync"),
        ("on_recovered", "on_recover"),
        ("snaphsot", "snapshot"),
    ],
)
def test_a_misspelt_hook_is_an_error_that_names_the_right_one(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"Arena\.{name} .*did you mean {meant}\?"):
        room_class(**{name: method()})


@every_case(
    "members",
    [
        {"max_hp": 100},
        {"max_layers": 3},
        {"max_teams": 2},
        {"tick": 0},
        {"tick": method()},
        {"checkpoints": [1, 2]},
        {"duplicates": 3},
        {"on_fire": method()},
        {"on_kick": method("player")},
        {"on_send": method()},
        {"on_stop": method()},
        {"on_message": method("message")},
        {"saved": 1},
        {"_grace": 30},
    ],
)
def test_a_name_of_the_games_own_stays_legal(members: dict[str, Any]) -> None:
    assert room_class(**members)


def test_a_setting_that_a_base_class_of_the_game_adds_may_be_set_in_its_heirs() -> None:
    base = room_class(max_hp=100)

    duel: Any = type("Duel", (base,), {"max_hp": 10, "max_players": 2})

    assert (duel.max_hp, duel.max_players) == (10, 2)


@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    [
        ("on_join", (), "(self, player)"),
        ("on_leave", ("player",), "(self, player, reason)"),
        ("on_tick", (), "(self, dt_s)"),
        ("on_start", ("player",), "(self)"),
        ("heir", ("player",), "(self, player, object_id)"),
    ],
)
def test_a_hook_with_the_wrong_parameters_is_an_error(name: str, parameters: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(TypeError) as caught:
        room_class(**{name: method(*parameters)})

    assert f"Arena.{name} takes" in str(caught.value)
    assert wanted in str(caught.value)


def test_a_hook_may_take_more_if_it_has_defaults_or_takes_anything() -> None:
    assert room_class(on_join=lambda self, player, *rest: None, on_leave=lambda *args: None)


def test_a_handler_with_the_wrong_parameters_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Arena\.hit takes \(self, hit\), but is called with \(self, player, hit\)"):

        class Arena(Room[Any]):
            @on(Hit)
            def hit(self, hit: Hit) -> None: ...


def test_a_handler_that_has_the_name_of_a_hook_is_an_error() -> None:
    with pytest.raises(TypeError, match="on_drop is a hook: give the handler another name"):

        class Arena(Room[Any]):
            @on(Hit)
            def on_drop(self, player: Player[Any], hit: Hit) -> None: ...  # type: ignore[override] # what is wrong with it


def test_a_handler_may_have_a_name_that_is_near_a_hooks() -> None:
    class Arena(Room[Any]):
        @on(Hit)
        def on_ticks(self, player: Player[Any], hit: Hit) -> None: ...

    assert set(room_handlers(Arena)) == {"hit"}


def test_a_value_in_the_place_of_a_hook_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"on_join is a hook: write it as a method, `def on_join\(self, player\)`"):
        room_class(on_join=3)


@pytest.mark.parametrize("name", ["heir", "snapshot", "restore", "view", "area", "sees"])
def test_a_hook_whose_answer_is_needed_at_once_cannot_be_async(name: str) -> None:
    async def hook(*args: Any) -> None: ...

    with pytest.raises(TypeError, match=f"{name} has to answer at once and cannot be `async def`"):
        room_class(**{name: hook})


@every_case(
    ("name", "value"),
    [
        ("players", {}),
        ("broadcast", method("message")),
        ("update", method("dt")),
        ("start", method("countdown")),
        ("close", True),
        ("own", method("player")),
    ],
)
def test_a_name_that_the_room_needs_cannot_be_taken_for_something_else(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"Arena\.{name} hides {name} of Room, which it needs"):
        room_class(**{name: value})


def test_a_method_of_the_room_may_be_extended() -> None:
    class Arena(Room[Any]):
        def broadcast(self, message: Message, exclude: Any = (), **whom: Any) -> None:
            super().broadcast(message, exclude, **whom)

        def update(self, **changes: Any) -> None:
            super().update(**changes)

    assert Arena.kind == "arena"
