"""Beyond Boss Room: ids, limits and time."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import Invalid, Throttled
from holdfast.core.sessions import Sessions
from tests.core.sessions_samples import Hero, in_the_game


def test_a_connection_id_is_refused_while_it_is_current() -> None:
    sessions = Sessions[Hero](duplicate="takeover")
    sessions.connect(1, "ada", Hero())

    for player_id in ("ada", "bob"):
        with pytest.raises(Invalid, match="used before"):
            sessions.connect(1, player_id, Hero())

    assert sessions.player_id_of(1) == "ada"
    assert list(sessions) == ["ada"]


def drop(sessions: Sessions[Hero]) -> None:
    sessions.disconnect(1)


def take_over(sessions: Sessions[Hero]) -> None:
    sessions.connect(2, "ada", Hero())


@pytest.mark.parametrize("make_stale", [drop, take_over])
def test_a_stale_connection_id_is_never_current_again(make_stale: Callable[[Sessions[Hero]], None]) -> None:
    sessions = Sessions[Hero](duplicate="takeover")
    sessions.connect(1, "ada", Hero())
    make_stale(sessions)

    with pytest.raises(Invalid, match="used before"):
        sessions.connect(1, "bob", Hero())

    assert "bob" not in sessions


@pytest.mark.parametrize(("connection_id", "player_id"), [(None, "ada"), (1, None)])
def test_none_is_nobodys_id(connection_id: int | None, player_id: str | None) -> None:
    sessions = Sessions[Hero]()

    with pytest.raises(Invalid):
        sessions.connect(connection_id, player_id, Hero())

    assert len(sessions) == 0


def test_any_hashable_is_an_id() -> None:
    sessions = Sessions[Hero]()
    socket = object()

    sessions.connect(socket, ("steam", 765), Hero())

    assert sessions.player_id_of(socket) == ("steam", 765)
    assert list(sessions) == [("steam", 765)]


def test_a_freed_place_can_be_taken() -> None:
    sessions = Sessions[Hero](players_max=1)
    sessions.connect(1, "ada", Hero())
    with pytest.raises(Throttled):
        sessions.connect(2, "bob", Hero())

    sessions.disconnect(1)

    assert not sessions.connect(2, "bob", Hero()).returned


def test_a_full_house_still_lets_a_player_take_over() -> None:
    sessions = Sessions[Hero](players_max=1, duplicate="takeover")
    sessions.connect(1, "ada", Hero())

    assert sessions.connect(2, "ada", Hero()).replaced == 1


def test_a_dropped_player_is_purged_when_the_time_is_up_and_not_before() -> None:
    sessions = in_the_game(purge_s=30.0)
    hero = Hero()
    sessions.connect(1, "ada", hero)
    sessions.disconnect(1)
    sessions.advance(1000.0)

    assert sessions.advance(1029.9) == {}
    assert "ada" in sessions
    assert sessions.advance(1030.0) == {"ada": hero}
    assert "ada" not in sessions


def test_a_drop_long_after_the_last_advance_is_not_purged_early() -> None:
    sessions = in_the_game(purge_s=30.0)
    sessions.connect(1, "ada", Hero())
    sessions.advance(0.0)
    sessions.disconnect(1)

    assert sessions.advance(59.0) == {}

    assert "ada" in sessions


def test_a_return_stops_the_purge_and_a_second_drop_starts_it_anew() -> None:
    sessions = in_the_game(purge_s=30.0)
    sessions.connect(1, "ada", Hero())
    sessions.disconnect(1)
    sessions.advance(0.0)
    sessions.connect(2, "ada", Hero())

    assert sessions.advance(100.0) == {}
    sessions.disconnect(2)
    sessions.advance(110.0)

    assert sessions.advance(139.0) == {}
    assert list(sessions.advance(140.0)) == ["ada"]


def test_players_dropped_at_different_times_are_purged_each_in_their_turn() -> None:
    sessions = in_the_game(purge_s=30.0)
    for connection_id, player_id in enumerate(["ada", "bob", "cyd"]):
        sessions.connect(connection_id, player_id, Hero())
    sessions.disconnect(1)
    sessions.advance(0.0)
    sessions.disconnect(0)
    sessions.advance(10.0)
    sessions.disconnect(2)
    sessions.advance(10.0)

    assert list(sessions.advance(30.0)) == ["bob"]
    assert list(sessions.advance(40.0)) == ["ada", "cyd"]


def test_without_a_purge_time_a_dropped_player_is_kept_until_the_end() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero())
    sessions.disconnect(1)

    sessions.advance(0.0)
    sessions.advance(1e9)

    assert "ada" in sessions


@pytest.mark.parametrize("now", [9.9, float("nan"), float("inf")])
def test_time_only_moves_forward(now: float) -> None:
    sessions = in_the_game(purge_s=5.0)
    sessions.connect(1, "ada", Hero())
    sessions.disconnect(1)
    sessions.advance(10.0)

    with pytest.raises(ValueError, match="monotonic"):
        sessions.advance(now)

    assert list(sessions.advance(15.0)) == ["ada"]


@pytest.mark.parametrize(
    "options",
    [{"purge_s": -1.0}, {"purge_s": float("nan")}, {"duplicate": "allow"}, {"players_max": 0}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        Sessions[Hero](**options)


def test_a_loop_over_the_players_may_drop_them() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero())
    sessions.connect(2, "bob", Hero())

    for connection_id, player_id in enumerate(sessions, start=1):
        assert sessions.player_id_of(connection_id) == player_id
        sessions.disconnect(connection_id)

    assert len(sessions) == 0


def test_two_managers_share_nothing() -> None:
    red, blue = Sessions[Hero](), Sessions[Hero]()

    red.connect(1, "ada", Hero())
    red.start()

    assert "ada" not in blue
    assert not blue.connect(1, "ada", Hero()).returned
    blue.disconnect(1)
    assert "ada" not in blue


class Socket:
    """A connection id that shows whether it is still remembered."""


def test_ten_thousand_connections_leave_at_most_a_thousand_ids_behind() -> None:
    sessions = in_the_game(duplicate="takeover")
    remembered: weakref.WeakSet[Socket] = weakref.WeakSet()

    def come_and_go(*, drops: bool) -> Socket:
        socket = Socket()
        remembered.add(socket)
        sessions.connect(socket, "ada", Hero())
        if drops:
            sessions.disconnect(socket)
        return socket

    for turn in range(10_000):
        come_and_go(drops=turn % 2 == 1)
    gc.collect()

    assert len(remembered) <= 1024
    latest = come_and_go(drops=True)
    with pytest.raises(Invalid):
        sessions.connect(latest, "bob", Hero())


def test_clear_remembers_no_id_and_no_data() -> None:
    sessions = in_the_game()
    socket, hero = Socket(), Hero()
    sessions.connect(socket, "ada", hero)
    sessions.disconnect(socket)
    remains: list[weakref.ref[Any]] = [weakref.ref(socket), weakref.ref(hero)]

    sessions.clear()
    del socket, hero
    gc.collect()

    assert [remain() for remain in remains] == [None, None]
