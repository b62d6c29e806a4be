"""The directory through the blocking client, against a real server."""

import threading
from collections.abc import Iterator

import pytest

from holdfast import NotFound, RoomFull, SessionEnded
from holdfast.client import sync
from holdfast.core.errors import Conflict, Expired, WrongPassword
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.schemas.room import RoomsChanged
from holdfast.sync import connect
from tests.client.game import AtOnce
from tests.client.hall import serve_halls
from tests.client.server_thread import ServerThread
from tests.deadlines import DEADLINE_S


@pytest.fixture
def running() -> Iterator[ServerThread]:
    running = ServerThread(serve_halls())
    yield running
    running.stop()


@pytest.fixture
def ada(running: ServerThread) -> Iterator[sync.ClientSession]:
    with connect(running.url, random=AtOnce()) as session:
        yield session


@pytest.fixture
def bob(running: ServerThread) -> Iterator[sync.ClientSession]:
    with connect(running.url, random=AtOnce()) as session:
        yield session


def test_rooms_are_made_found_and_joined(ada: sync.ClientSession, bob: sync.ClientSession) -> None:
    made = ada.create("hall", name="Ada's", properties={"level": 2}, password="sesame", visibility="private")
    ada.create("hall", properties={"level": 1})

    assert [info.name for info in ada.search("hall", where="properties.level = 2")] == ["Ada's"]
    assert bob.search("hall", where="properties.level = 2") == []
    with pytest.raises(WrongPassword):
        bob.join(made.id)
    room = bob.join(code=made.code, password="sesame")
    assert room.info is not None
    assert (room.id, room.info.name) == (made.id, "Ada's")
    assert ada.join_or_create("hall", where="properties.level = 1").id != made.id


def test_pages_follow_each_other(ada: sync.ClientSession) -> None:
    made = [ada.create("hall").id for _ in range(3)]

    first = ada.search("hall", limit=2)
    second = ada.search("hall", limit=2, cursor=first.cursor)

    assert [info.id for info in [*first, *second]] == made
    assert second.cursor == ""
    assert [info.id for info in ada.search_all("hall")] == made


def test_seats_are_reserved_and_released(ada: sync.ClientSession, bob: sync.ClientSession) -> None:
    made = ada.create("hall", max_players=1)
    assert ada.reserve(made.id).players == [ada.player_id]

    with pytest.raises(RoomFull):
        bob.join(made.id)
    ada.release(made.id)

    assert bob.join(made.id).id == made.id


def test_a_waitlist_is_waited_in(ada: sync.ClientSession, bob: sync.ClientSession) -> None:
    room = ada.join(ada.create("hall", max_players=1).id)
    with pytest.raises(TimeoutError, match="no seat in room"):
        bob.wait_for_seat(room.id, timeout_s=0.01)
    stands = threading.Event()

    def leave() -> None:
        stands.wait(DEADLINE_S)
        room.leave()

    leaving = threading.Thread(target=leave)
    leaving.start()

    assert bob.wait_for_seat(room.id, timeout_s=DEADLINE_S, on_position=lambda _: stands.set()).id == room.id
    leaving.join()


def test_a_player_comes_back(ada: sync.ClientSession) -> None:
    with pytest.raises(NotFound):
        ada.rejoin()
    room = ada.join_or_create("hall")

    assert [info.id for info in ada.my_rooms()] == [room.id]
    assert ada.rejoin().id == room.id


def test_an_entry_is_changed(ada: sync.ClientSession) -> None:
    room = ada.join_or_create("hall")

    shown = room.update(name="new")

    messages = [room.receive(timeout=DEADLINE_S)]
    while not isinstance(messages[-1], RoomUpdated):
        messages.append(room.receive(timeout=DEADLINE_S))
    assert all(isinstance(message, RoomUpdated | HostChanged) for message in messages)
    assert room.info is not None
    assert room.info.name == shown.name == "new"
    assert room.host == ada.player_id
    assert ada.update_room(room.id, name="newer").name == "newer"
    with pytest.raises(Conflict):
        room.update(name="newest", if_version=shown.version)


def test_a_watch_is_polled_and_read(ada: sync.ClientSession, bob: sync.ClientSession) -> None:
    with bob.watch("hall") as watch:
        assert watch.poll() == RoomsChanged()
        assert watch.poll() is None
        made = ada.create("hall")
        assert [info.id for info in watch.receive(timeout=DEADLINE_S).changed] == [made.id]
        assert list(watch.rooms) == [made.id]
        with pytest.raises(TimeoutError, match="no change within"):
            watch.receive(timeout=0.01)
        ada.join(made.id)
        assert [info.players for info in next(watch).changed] == [1]

    assert list(watch) == []
    assert watch.is_closed
    with pytest.raises(Expired):
        watch.poll()


def test_a_watch_catches_up_after_a_drop(ada: sync.ClientSession, bob: sync.ClientSession) -> None:
    watch = bob.watch("hall")
    watch.poll()
    bob.cut()
    made = ada.create("hall")

    assert [info.id for info in watch.receive(timeout=DEADLINE_S).changed] == [made.id]


def test_a_watch_outlives_its_session_in_peace(running: ServerThread) -> None:
    heard: list[object] = []

    def read() -> None:
        try:
            heard.extend(watch)
        except SessionEnded as error:
            heard.append(error.reason)

    with connect(running.url) as session:
        watch = session.watch("hall")
        reading = threading.Thread(target=read)
        reading.start()
    reading.join(DEADLINE_S)

    assert heard[-1] in {"bye", "closed"}
    with pytest.raises(SessionEnded):
        watch.receive()
    watch.close()
    assert watch.rooms == {}


def test_a_placement_is_waited_for_and_stopped(ada: sync.ClientSession) -> None:
    placed = ada.place("here", "hall", players=ada.player_id).done(timeout=DEADLINE_S)
    waits = ada.place("moon", "hall")

    assert placed.room is not None
    assert ada.join(placed.room.id).id == placed.room.id
    with pytest.raises(TimeoutError, match="no end of it within"):
        waits.done(timeout=0.01)
    assert waits.info.status == "pending"
    assert waits.stop().status == "cancelled"
    assert waits.done().status == "cancelled"
