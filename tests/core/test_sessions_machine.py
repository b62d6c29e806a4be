"""Any order of events, against a model that knows nothing of indexes."""

import gc
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import Duplicate, Invalid, Throttled
from holdfast.core.sessions import Sessions
from tests.core.sessions_samples import Hero


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

    @precondition(lambda self: self.model.players)
    @rule(data=st.data(), hp=HP)
    def set_by_player(self, data: st.DataObject, hp: int) -> None:
        player_id = data.draw(st.sampled_from(list(self.model.players)))

        assert self.sessions.set_by_player(player_id, self.hero(hp))

        self.model.players[player_id].hp = hp

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
            assert self.sessions.connection_of(name) == known.connection_id

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


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase
