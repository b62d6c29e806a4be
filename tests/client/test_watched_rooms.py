"""The board of a watch: the rooms as they are, and what its reader does not know yet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from holdfast.client.subscriptions import WatchedRooms
from holdfast.core.errors import ProtocolError
from holdfast.schemas.requests import Watch
from holdfast.schemas.room import RoomInfo, RoomsChanged
from tests.client.desk import page, room


def changes(*changed: RoomInfo, removed: tuple[str, ...] = ()) -> RoomsChanged:
    return RoomsChanged(list(changed), list(removed))


def told(board: WatchedRooms, *rooms: RoomInfo) -> None:
    board.told(to_builtins(page(*rooms)))


def noticed(board: WatchedRooms, *changed: RoomInfo, removed: tuple[str, ...] = ()) -> None:
    board.noticed(to_builtins(changes(*changed, removed=removed)))


@pytest.fixture
def board() -> WatchedRooms:
    return WatchedRooms(Watch("w1"))


def test_the_first_look_shows_all_rooms_also_if_there_are_none(board: WatchedRooms) -> None:
    assert board.take() is None

    told(board)

    assert board.take() == changes()
    assert board.take() is None


def test_a_look_shows_what_is_new_what_is_other_and_what_is_gone(board: WatchedRooms) -> None:
    told(board, room(1), room(2), room(3))
    board.take()

    noticed(board, room(2, players=5), room(4), removed=("room-3",))

    assert board.take() == changes(room(2, players=5), room(4), removed=("room-3",))
    assert list(board.rooms) == ["room-1", "room-2", "room-4"]


def test_what_changed_several_times_is_told_once_as_it_is(board: WatchedRooms) -> None:
    told(board, room(1))
    board.take()

    for players in range(2, 8):
        noticed(board, room(1, players=players))
    noticed(board, room(2), removed=("room-9",))
    noticed(board, removed=("room-2",))

    assert board.take() == changes(room(1, players=7))


def test_what_changed_and_changed_back_is_nothing(board: WatchedRooms) -> None:
    told(board, room(1))
    board.take()

    noticed(board, removed=("room-1",))
    noticed(board, room(1))

    assert board.is_touched
    assert board.take() is None
    assert not board.is_touched


def test_a_new_page_replaces_what_was_known(board: WatchedRooms) -> None:
    told(board, room(1), room(2))
    board.take()

    told(board, room(2), room(3))

    assert board.take() == changes(room(3), removed=("room-1",))


@pytest.mark.parametrize("content", [None, [], {"changed": [{"id": 1}]}, {"removed": [1]}])
def test_a_notice_that_makes_no_sense_is_the_servers_fault(board: WatchedRooms, content: Any) -> None:
    with pytest.raises(ProtocolError, match="notice of rooms"):
        board.noticed(content)


ROOMS = st.builds(room, st.integers(1, 6), players=st.integers(1, 3))
STEPS: st.SearchStrategy[tuple[str, list[RoomInfo]]] = st.one_of(
    st.tuples(st.just("told"), st.lists(ROOMS, unique_by=lambda info: info.id)),
    st.tuples(st.just("changed"), st.lists(ROOMS)),
    st.tuples(st.just("removed"), st.lists(ROOMS)),
    st.just(("take", [])),
)


@given(st.lists(STEPS, max_size=40))
def test_whoever_adds_up_what_is_told_has_the_rooms_as_they_are(steps: list[tuple[str, list[RoomInfo]]]) -> None:
    board = WatchedRooms(Watch("w1"))
    added_up: dict[str, RoomInfo] = {}
    for step, rooms in [*steps, ("take", [])]:
        match step:
            case "told":
                told(board, *rooms)
            case "changed":
                noticed(board, *rooms)
            case "removed":
                noticed(board, removed=tuple(info.id for info in rooms))
            case "take" if (news := board.take()) is not None:
                added_up |= {info.id: info for info in news.changed}
                for room_id in news.removed:
                    del added_up[room_id]

    assert added_up == board.rooms
