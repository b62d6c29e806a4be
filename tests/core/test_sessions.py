import gc
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import Duplicate, Invalid, Throttled
from holdfast.core.sessions import Connected, Sessions


@dataclass(eq=False)
class Hero:
    hp: int = 100
    name: str = ""

    def reset(self) -> None:
        self.hp = 100


def in_the_game(**options: Any) -> Sessions[Hero]:
    sessions = Sessions[Hero](**options)
    sessions.start()
    return sessions


# Boss Room's rules: each row of SessionManager's table, in its order.


def test_only_a_player_with_a_live_connection_is_connected() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero())
    sessions.connect(2, "bob", Hero())

    sessions.disconnect(2)

    assert sessions.is_connected("ada")
    assert not sessions.is_connected("bob")
    assert not sessions.is_connected("nobody")


def test_a_refused_duplicate_changes_nothing_for_the_holder() -> None:
    sessions = in_the_game()
    hero = Hero()
    sessions.connect(1, "ada", hero)

    with pytest.raises(Duplicate):
        sessions.connect(2, "ada", Hero(hp=1))

    assert sessions.get_by_connection(1) is hero
    assert sessions.player_id_of(1) == "ada"
    assert sessions.player_id_of(2) is None
    assert len(sessions) == 1


def test_on_return_the_kept_data_wins_over_the_data_passed() -> None:
    sessions = in_the_game()
    hero = Hero()
    sessions.connect(1, "ada", hero)
    hero.hp = 7
    sessions.disconnect(1)

    connected = sessions.connect(2, "ada", Hero())

    assert connected == Connected(hero, returned=True)
    assert sessions.get("ada") is hero
    assert sessions.get_by_connection(2) is hero
    assert hero.hp == 7


def test_an_unknown_player_is_known_with_the_data_passed() -> None:
    sessions = Sessions[Hero]()
    hero = Hero(hp=42)

    connected = sessions.connect(1, "ada", hero)

    assert connected == Connected(hero, returned=False)
    assert sessions.get("ada") is hero
    assert sessions.get_by_connection(1) is hero
    assert sessions.player_id_of(1) == "ada"
    assert sessions.is_connected("ada")


def test_a_drop_in_the_game_keeps_the_player() -> None:
    sessions = in_the_game()
    hero = Hero()
    sessions.connect(1, "ada", hero)

    assert sessions.disconnect(1)

    assert sessions.get("ada") is hero
    assert not sessions.is_connected("ada")
    assert sessions.player_id_of(1) is None


def test_a_drop_in_the_lobby_forgets_the_player() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero(hp=1))

    assert sessions.disconnect(1)

    assert sessions.get("ada") is None
    assert "ada" not in sessions
    assert not sessions.connect(2, "ada", Hero()).returned


def test_a_drop_in_the_lobby_keeps_the_player_if_told_to() -> None:
    sessions = Sessions[Hero](keep_before_start=True)
    hero = Hero()
    sessions.connect(1, "ada", hero)

    sessions.disconnect(1)

    assert sessions.connect(2, "ada", Hero()) == Connected(hero, returned=True)


def test_the_unknown_is_none_and_not_an_error() -> None:
    sessions = Sessions[Hero]()

    assert sessions.get("nobody") is None
    assert sessions.get_by_connection(1) is None
    assert sessions.player_id_of(1) is None
    assert not sessions.disconnect(1)


def test_the_holder_of_the_connection_replaces_the_data() -> None:
    sessions = Sessions[int]()
    sessions.connect(1, "ada", 100)

    assert sessions.set(1, 50)

    assert sessions.get("ada") == 50


def test_a_write_never_brings_back_a_forgotten_player() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero())
    sessions.disconnect(1)

    assert not sessions.set(1, Hero())

    assert len(sessions) == 0


def test_start_turns_lobby_drops_into_kept_ones() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero())

    sessions.start()

    sessions.disconnect(1)
    assert "ada" in sessions


def test_the_end_forgets_the_dropped_and_resets_the_connected() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero(hp=3, name="Ada"))
    sessions.connect(2, "bob", Hero(hp=3))
    sessions.disconnect(2)

    sessions.end()

    ada = sessions.get("ada")
    assert ada is not None
    assert (ada.hp, ada.name) == (100, "Ada")
    assert "bob" not in sessions
    assert not sessions.connect(3, "bob", Hero()).returned


def test_after_the_end_it_is_the_lobby_again() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero())

    sessions.end()

    sessions.disconnect(1)
    assert "ada" not in sessions


@pytest.mark.parametrize("data", [7, None, {"hp": 3}, "text"])
def test_data_without_a_reset_stays_as_it_is_at_the_end(data: object) -> None:
    sessions = Sessions[object]()
    sessions.connect(1, "ada", data)
    sessions.start()

    sessions.end()

    assert "ada" in sessions
    assert sessions.get("ada") is data


def test_a_field_named_reset_is_not_called() -> None:
    @dataclass
    class Timer:
        reset: bool = False

    sessions = Sessions[Timer]()
    sessions.connect(1, "ada", Timer())

    sessions.end()

    assert sessions.get("ada") == Timer()


def test_clear_forgets_everyone_and_is_the_lobby_again() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero())
    sessions.connect(2, "bob", Hero())
    sessions.disconnect(2)

    sessions.clear()

    assert list(sessions) == []
    assert not sessions.is_connected("ada")
    assert not sessions.disconnect(1)
    sessions.connect(1, "ada", Hero())  # a new server may count its connections from the start again
    sessions.disconnect(1)
    assert "ada" not in sessions


def test_clear_leaves_nobody_to_purge_or_to_forget() -> None:
    sessions = in_the_game(purge_s=30.0)
    sessions.connect(1, "ada", Hero())
    sessions.disconnect(1)
    sessions.advance(0.0)

    sessions.clear()

    sessions.end()
    assert sessions.advance(30.0) == {}


# Boss Room's bugs, by their number in its analysis.


def test_join_start_drop_return_end_leave_start_end_works() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero())
    sessions.start()
    sessions.disconnect(1)
    sessions.connect(2, "ada", Hero())
    sessions.end()
    sessions.disconnect(2)
    sessions.start()

    sessions.end()  # bug 1: the stale 1 → ada made this fail, and every later one

    assert len(sessions) == 0
    sessions.connect(3, "ada", Hero())
    sessions.disconnect(3)
    assert "ada" not in sessions


def test_the_old_connection_neither_reads_nor_writes_nor_drops_the_returned_player() -> None:
    sessions = in_the_game()
    hero = Hero(name="Ada")
    sessions.connect(1, "ada", hero)
    sessions.disconnect(1)
    sessions.connect(2, "ada", Hero())

    assert not sessions.set(1, Hero(name="late"))  # bug 2: the late save of the old object won
    assert not sessions.disconnect(1)

    assert sessions.get_by_connection(1) is None
    assert sessions.player_id_of(1) is None
    assert sessions.get("ada") is hero
    assert sessions.is_connected("ada")


def test_a_write_after_the_drop_changes_nothing() -> None:
    sessions = in_the_game()
    hero = Hero()
    sessions.connect(1, "ada", hero)
    sessions.disconnect(1)

    assert not sessions.set(1, Hero(name="late"))

    assert sessions.get("ada") is hero


def test_two_writers_share_one_object_and_lose_nothing() -> None:
    sessions = in_the_game()
    sessions.connect(1, "ada", Hero())
    character, profile = sessions.get("ada"), sessions.get_by_connection(1)
    assert character is not None
    assert profile is not None

    character.hp = 9
    profile.name = "Ada"  # bug 3: writing whole copies, the last writer undid the first

    kept = sessions.get("ada")
    assert kept is not None
    assert (kept.hp, kept.name) == (9, "Ada")


def test_a_takeover_lets_a_crashed_player_in_before_the_ghost_is_noticed() -> None:
    sessions = in_the_game(duplicate="takeover")
    hero = Hero()
    sessions.connect(1, "ada", hero)

    connected = sessions.connect(2, "ada", Hero())  # bugs 4 and 5: locked out until the ghost's time-out

    assert connected == Connected(hero, returned=True, replaced=1)
    assert sessions.player_id_of(2) == "ada"


def test_after_a_takeover_the_old_connection_is_stale() -> None:
    sessions = Sessions[Hero](duplicate="takeover")
    hero = Hero()
    sessions.connect(1, "ada", hero)
    sessions.connect(2, "ada", Hero())

    assert not sessions.set(1, Hero(name="late"))
    assert not sessions.disconnect(1)

    assert sessions.get_by_connection(1) is None
    assert sessions.get_by_connection(2) is hero
    assert sessions.is_connected("ada")


def test_the_end_of_a_refused_connection_does_not_throw_the_holder_out() -> None:
    sessions = Sessions[Hero]()
    sessions.connect(1, "ada", Hero())
    with pytest.raises(Duplicate):
        sessions.connect(2, "ada", Hero())

    assert not sessions.disconnect(2)  # bug 7: sending someone's id threw the victim out

    assert sessions.player_id_of(1) == "ada"
    assert sessions.is_connected("ada")


def test_a_refused_connection_may_try_again_when_the_holder_is_gone() -> None:
    sessions = in_the_game()
    hero = Hero()
    sessions.connect(1, "ada", hero)
    with pytest.raises(Duplicate):
        sessions.connect(2, "ada", Hero())
    sessions.disconnect(1)

    assert sessions.connect(2, "ada", Hero()).data is hero


def test_a_stranger_cannot_take_a_dropped_players_place() -> None:
    sessions = in_the_game(players_max=2)
    sessions.connect(1, "ada", Hero())
    sessions.connect(2, "bob", Hero())
    sessions.disconnect(1)

    with pytest.raises(Throttled):  # bug 9: only the connected were counted
        sessions.connect(3, "stranger", Hero())

    assert "stranger" not in sessions
    assert sessions.connect(4, "ada", Hero()).returned


def test_a_reset_that_raises_stops_neither_the_end_nor_the_other_resets() -> None:
    class Broken(Hero):
        def reset(self) -> None:
            raise RuntimeError("broken")

    sessions = in_the_game()
    sessions.connect(1, "ada", Broken())
    sessions.connect(2, "bob", Hero(hp=1))

    with pytest.raises(ExceptionGroup) as raised:  # bug 14: players not yet reset took old hit points along
        sessions.end()

    assert [str(failure) for failure in raised.value.exceptions] == ["broken"]
    bob = sessions.get("bob")
    assert bob is not None
    assert bob.hp == 100
    sessions.disconnect(1)
    assert "ada" not in sessions


# Beyond Boss Room: ids, limits and time.


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


# Any order of events, against a model that knows nothing of indexes.


@dataclass
class Known:
    """What the model knows of one player; `away_since` is the time of the first advance after the drop."""

    hp: int
    connection_id: int | None
    away_since: float | None = None


@dataclass
class Model:
    players: dict[Hashable, Known] = field(default_factory=dict)
    started: bool = False
    now: float = 0.0

    def connected(self) -> list[Hashable]:
        return [name for name, known in self.players.items() if known.connection_id is not None]

    def holder(self, connection_id: int) -> Hashable | None:
        return next((name for name, known in self.players.items() if known.connection_id == connection_id), None)


PLAYERS = st.sampled_from(["ada", "bob", "cyd", "dan"])
HP = st.integers(1, 99)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.used = 0  # connection ids 1 .. used were current at some time since the last clear
        self.heroes: list[weakref.ref[Hero]] = []

    @initialize(
        purge_s=st.sampled_from([None, 0.0, 3.0, 10.0]),
        takeover=st.booleans(),
        keep_before_start=st.booleans(),
        players_max=st.integers(2, 4),
    )
    def settings_are(self, *, purge_s: float | None, takeover: bool, keep_before_start: bool, players_max: int) -> None:
        self.purge_s = purge_s
        self.takeover = takeover
        self.keep_before_start = keep_before_start
        self.players_max = players_max
        self.sessions = Sessions[Hero](
            purge_s=purge_s,
            duplicate="takeover" if takeover else "reject",
            keep_before_start=keep_before_start,
            players_max=players_max,
        )

    def hero(self, hp: int) -> Hero:
        hero = Hero(hp=hp)
        self.heroes.append(weakref.ref(hero))
        return hero

    @rule(player_id=PLAYERS, hp=HP)
    def connect(self, player_id: str, hp: int) -> None:
        new, known = self.used + 1, self.model.players.get(player_id)
        refusal: type[Exception] | None = None
        if known is None and len(self.model.players) == self.players_max:
            refusal = Throttled
        if known is not None and known.connection_id is not None and not self.takeover:
            refusal = Duplicate
        if refusal is not None:
            with pytest.raises(refusal):
                self.sessions.connect(new, player_id, self.hero(hp))
            return

        connected = self.sessions.connect(new, player_id, self.hero(hp))

        self.used = new
        assert connected.returned == (known is not None)
        assert connected.replaced == (known.connection_id if known else None)
        assert connected.data.hp == (known.hp if known else hp)
        self.model.players[player_id] = Known(connected.data.hp, new)

    @precondition(lambda self: self.model.connected())
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        player_id = data.draw(st.sampled_from(self.model.connected()))
        known = self.model.players[player_id]

        assert self.sessions.disconnect(known.connection_id)

        known.connection_id = None
        if not (self.model.started or self.keep_before_start):
            del self.model.players[player_id]

    @precondition(lambda self: self.model.connected())
    @rule(data=st.data(), hp=HP)
    def set(self, data: st.DataObject, hp: int) -> None:
        known = self.model.players[data.draw(st.sampled_from(self.model.connected()))]

        assert self.sessions.set(known.connection_id, self.hero(hp))

        known.hp = hp

    @precondition(lambda self: not self.model.started)
    @rule()
    def start(self) -> None:
        self.sessions.start()
        self.model.started = True

    @precondition(lambda self: len(self.model.players) > 1)  # seldom, or nothing ever builds up
    @rule()
    def end(self) -> None:
        self.sessions.end()
        self.model.started = False
        self.model.players = {
            name: Known(100, known.connection_id)
            for name, known in self.model.players.items()
            if known.connection_id is not None
        }

    @precondition(lambda self: len(self.model.players) > 2)  # seldom, or nothing ever builds up
    @rule()
    def clear(self) -> None:
        self.sessions.clear()
        self.model.started = False
        self.model.players = {}
        self.used = 0

    @rule(seconds=st.integers(0, 12))
    def advance(self, seconds: int) -> None:
        self.model.now += seconds
        due = set()
        for name, known in self.model.players.items():
            if known.connection_id is None and self.purge_s is not None:
                known.away_since = self.model.now if known.away_since is None else known.away_since
                if self.model.now - known.away_since >= self.purge_s:
                    due.add(name)

        purged = self.sessions.advance(self.model.now)

        assert {name: hero.hp for name, hero in purged.items()} == {
            name: self.model.players.pop(name).hp for name in due
        }

    @invariant()
    def players_are_known_as_they_should_be(self) -> None:
        seen = {name: self.sessions.get(name) for name in self.sessions}

        assert {name: hero.hp for name, hero in seen.items() if hero} == {
            name: known.hp for name, known in self.model.players.items()
        }
        assert len(self.sessions) == len(seen) == len(self.model.players) <= self.players_max
        for name, known in self.model.players.items():
            assert name in self.sessions
            assert self.sessions.is_connected(name) == (known.connection_id is not None)

    @invariant()
    def both_directions_agree(self) -> None:
        for connection_id in range(1, self.used + 2):
            holder = self.model.holder(connection_id)
            assert self.sessions.player_id_of(connection_id) == holder
            found = self.sessions.get_by_connection(connection_id)
            assert found is (None if holder is None else self.sessions.get(holder))

    @invariant()
    def stale_connections_change_nothing(self) -> None:
        stale = [used for used in range(1, self.used + 1) if self.model.holder(used) is None]

        assert not any(self.sessions.set(connection_id, Hero()) for connection_id in stale)
        assert not any(self.sessions.disconnect(connection_id) for connection_id in stale)
        if stale:
            with pytest.raises(Invalid):
                self.sessions.connect(stale[-1], "ada", Hero())

    @invariant()
    def only_the_data_of_known_players_is_alive(self) -> None:
        if sum(hero() is not None for hero in self.heroes) > len(self.model.players):
            gc.collect()  # a refusal's traceback may still hold the data that was refused
        self.heroes = [hero for hero in self.heroes if hero() is not None]
        assert len(self.heroes) == len(self.model.players)


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
