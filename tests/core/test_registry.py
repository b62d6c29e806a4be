"""All sessions of a node: found by id, player and connection, whatever the order of events."""

import gc
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.connection import Connection
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session
from holdfast.core.tables import IllegalTransition
from tests.core.samples import a_connection, a_session


def a_registry(*sessions: Session) -> SessionRegistry:
    registry = SessionRegistry()
    for session in sessions:
        registry.add(session)
    return registry


def test_an_empty_registry_finds_nothing() -> None:
    registry = SessionRegistry()

    assert len(registry) == 0
    assert list(registry) == []
    assert registry.get("s-1") is None
    assert registry.of_player("ada") == []
    assert registry.of_connection("c-1") is None


def test_a_session_is_found_by_id_and_player_at_once_and_by_connection_when_attached() -> None:
    session, connection = a_session("s-1", "ada"), a_connection("c-1")
    registry = a_registry(session)

    assert registry.get("s-1") is session
    assert registry.of_player("ada") == [session]
    assert registry.of_connection("c-1") is None

    registry.attach(session, connection, now=1.0)

    assert registry.of_connection("c-1") is session


def test_the_same_session_cannot_be_added_twice() -> None:
    session = a_session("s-1", "ada")
    registry = a_registry(session)

    with pytest.raises(ValueError, match="s-1"):
        registry.add(a_session("s-1", "mallory"))

    assert registry.get("s-1") is session
    assert registry.of_player("mallory") == []


def test_the_sessions_of_a_player_come_oldest_first() -> None:
    first, other, second = a_session("s-9", "ada"), a_session("s-5", "bob"), a_session("s-1", "ada")
    registry = a_registry(first, other, second)

    assert registry.of_player("ada") == [first, second]
    assert list(registry) == [first, other, second]


def test_a_takeover_fences_the_old_connection() -> None:
    session = a_session()
    old, new = a_connection("old"), a_connection("new")
    registry = a_registry(session)
    registry.attach(session, old, now=1.0)

    replaced = registry.attach(session, new, now=2.0)

    assert replaced is old
    assert registry.of_connection("old") is None
    assert registry.of_connection("new") is session


def test_the_late_end_of_a_fenced_connection_drops_nobody() -> None:
    session = a_session()
    old, new = a_connection("old"), a_connection("new")
    registry = a_registry(session)
    registry.attach(session, old, now=1.0)
    registry.attach(session, new, now=2.0)

    dropped = registry.detach(old, now=3.0)

    assert dropped is None
    assert session.status == "connected"
    assert session.connection is new
    assert session.drops == 0


def test_a_connection_that_never_signed_in_drops_nobody() -> None:
    session = a_session()
    registry = a_registry(session)

    assert registry.detach(a_connection("stranger"), now=1.0) is None
    assert session.status == "preconnect"


def test_a_drop_keeps_the_session_and_forgets_the_connection() -> None:
    session, connection = a_session(grace_s=30.0), a_connection("c-1")
    registry = a_registry(session)
    registry.attach(session, connection, now=1.0)

    dropped = registry.detach(connection, now=2.0)

    assert dropped is session
    assert session.status == "disconnected"
    assert session.expires_at == 32.0
    assert registry.of_connection("c-1") is None
    assert registry.get("s-1") is session


def test_a_drop_is_told_once() -> None:
    session, connection = a_session(), a_connection("c-1")
    registry = a_registry(session)
    registry.attach(session, connection, now=1.0)
    registry.detach(connection, now=2.0)

    assert registry.detach(connection, now=3.0) is None
    assert session.drops == 1


def test_an_ended_session_is_forgotten_everywhere() -> None:
    session, connection = a_session("s-1", "ada"), a_connection("c-1")
    registry = a_registry(session)
    registry.attach(session, connection, now=1.0)

    assert registry.end(session, Reason.KICKED)

    assert session.status == "ended"
    assert session.end_reason is Reason.KICKED
    assert len(registry) == 0
    assert registry.get("s-1") is None
    assert registry.of_player("ada") == []
    assert registry.of_connection("c-1") is None
    assert registry.detach(connection, now=2.0) is None


def test_a_session_ends_once() -> None:
    session = a_session()
    registry = a_registry(session)
    registry.end(session, Reason.KICKED)

    assert not registry.end(session, Reason.BYE)
    assert session.end_reason is Reason.KICKED


def test_a_session_that_is_not_known_cannot_be_ended_here() -> None:
    stranger = a_session("s-2")

    assert not a_registry(a_session("s-1")).end(stranger, Reason.KICKED)
    assert stranger.status == "preconnect"


def test_the_end_of_one_session_leaves_the_players_others() -> None:
    first, second = a_session("s-1", "ada"), a_session("s-2", "ada")
    registry = a_registry(first, second)

    registry.end(first, Reason.SUPERSEDED)

    assert registry.of_player("ada") == [second]


def test_nothing_attaches_to_an_ended_session() -> None:
    session, connection = a_session(), a_connection("c-1")
    registry = a_registry(session)
    registry.end(session, Reason.KICKED)

    with pytest.raises(IllegalTransition):
        registry.attach(session, connection, now=1.0)

    assert registry.of_connection("c-1") is None


def test_a_session_whose_grace_ended_while_it_was_away_has_expired() -> None:
    session, connection = a_session(), a_connection()
    registry = a_registry(session)
    registry.attach(session, connection, now=1.0)
    registry.detach(connection, now=2.0)

    assert registry.end(session, Reason.GRACE_ENDED)
    assert session.end_reason is Reason.GRACE_ENDED


class Id(str):
    """An id that shows whether it is still remembered."""


def test_nothing_is_remembered_of_sessions_players_and_connections_that_are_gone() -> None:
    registry = SessionRegistry()
    remembered: list[weakref.ref[Id]] = []

    def come_and_go(number: int) -> None:
        names = [Id(f"s-{number}"), Id(f"p-{number}"), Id(f"old-{number}"), Id(f"new-{number}")]
        remembered.extend(weakref.ref(name) for name in names)
        session = a_session(names[0], names[1])
        registry.add(session)
        registry.attach(session, a_connection(names[2]), now=1.0)
        registry.attach(session, a_connection(names[3]), now=2.0)
        registry.end(session, Reason.KICKED)

    for number in range(10):
        come_and_go(number)
    gc.collect()

    assert [name() for name in remembered if name() is not None] == []


def test_a_loop_over_the_sessions_may_end_them() -> None:
    registry = a_registry(a_session("s-1"), a_session("s-2"), a_session("s-3"))

    for session in registry:
        registry.end(session, Reason.STOPPING)

    assert len(registry) == 0


# Any order of events, against a model that is one list.

PLAYERS = ["ada", "bob", "cyd"]


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = SessionRegistry()
        self.now = 0.0
        self.alive: list[Session] = []
        self.holder: dict[str, Session] = {}  # connection id -> the session it speaks for
        self.connections: list[Connection] = []  # all there ever were; index + 1 is in the id
        self.ended: list[Session] = []

    def new_connection(self) -> Connection:
        connection = a_connection(f"c-{len(self.connections) + 1}", self.now)
        self.connections.append(connection)
        return connection

    def attached(self) -> list[Connection]:
        return [connection for connection in self.connections if connection.id in self.holder]

    def fenced(self) -> list[Connection]:
        return [connection for connection in self.connections if connection.id not in self.holder]

    @rule(player_id=st.sampled_from(PLAYERS))
    def add(self, player_id: str) -> None:
        session = a_session(f"s-{len(self.alive) + len(self.ended)}", player_id, now=self.now, grace_s=10.0)
        self.registry.add(session)
        self.alive.append(session)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def attach_or_take_over(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.alive))
        connection, old, epoch = self.new_connection(), session.connection, session.epoch

        replaced = self.registry.attach(session, connection, self.now)

        assert replaced is old
        assert session.epoch == epoch + 1
        if old is not None:
            del self.holder[old.id]
        self.holder[connection.id] = session

    @precondition(lambda self: self.attached())
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(self.attached()))

        session = self.registry.detach(connection, self.now)

        assert session is self.holder.pop(connection.id)
        assert session.expires_at == self.now + 10.0

    @precondition(lambda self: self.fenced())
    @rule(data=st.data())
    def a_fenced_connection_is_lost_late(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(self.fenced()))

        assert self.registry.detach(connection, self.now) is None

    @precondition(lambda self: len(self.alive) > 1)  # seldom, or nothing ever builds up
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.alive))

        self.finish(session, Reason.KICKED)

    @rule(seconds=st.floats(0.0, 8.0))
    def time_passes_and_the_absent_expire(self, seconds: float) -> None:
        self.now += seconds

        for session in list(self.registry):
            if session.has_expired(self.now):
                assert session.connection is None
                self.finish(session, Reason.GRACE_ENDED)

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def an_ended_session_is_ended_and_attached_again(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.ended))

        assert not self.registry.end(session, Reason.BYE)
        with pytest.raises(IllegalTransition):
            self.registry.attach(session, self.new_connection(), self.now)

    def finish(self, session: Session, reason: Reason) -> None:
        assert self.registry.end(session, reason)
        assert session.end_reason is reason
        self.alive.remove(session)
        self.ended.append(session)
        self.holder = {connection_id: held for connection_id, held in self.holder.items() if held is not session}

    @invariant()
    def every_session_alive_is_found_by_id_and_player_and_no_other_is(self) -> None:
        assert list(self.registry) == self.alive
        assert len(self.registry) == len(self.alive)
        for player_id in PLAYERS:
            assert self.registry.of_player(player_id) == [s for s in self.alive if s.player_id == player_id]
        for session in self.alive:
            assert self.registry.get(session.id) is session
        for session in self.ended:
            assert self.registry.get(session.id) is None

    @invariant()
    def a_connection_finds_the_session_it_speaks_for_and_a_fenced_one_finds_none(self) -> None:
        for connection in self.connections:
            assert self.registry.of_connection(connection.id) is self.holder.get(connection.id)

    @invariant()
    def a_session_and_its_connection_point_at_each_other(self) -> None:
        for session in self.alive:
            expected = "connected" if session.connection else "preconnect" if session.epoch == 0 else "disconnected"
            assert session.status == expected
            if session.connection is not None:
                assert self.registry.of_connection(session.connection.id) is session

    def teardown(self) -> None:
        for session in list(self.alive):
            self.finish(session, Reason.STOPPING)

        assert len(self.registry) == 0
        assert not any(self.registry.of_player(player_id) for player_id in PLAYERS)
        assert not any(self.registry.of_connection(connection.id) for connection in self.connections)


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase


def test_a_connection_speaks_for_one_session_only() -> None:
    registry = SessionRegistry()
    ada, bo = a_session("s-1", "ada"), a_session("s-2", "bo")
    registry.add(ada)
    registry.add(bo)
    connection = a_connection("c-1")
    registry.attach(ada, connection, 0.0)

    with pytest.raises(ValueError, match="c-1"):
        registry.attach(bo, connection, 0.0)

    assert registry.of_connection("c-1") is ada
    assert bo.status == "preconnect"
