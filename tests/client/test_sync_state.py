"""What a room shares, in programs with threads: read anywhere, and heard of where the program polls."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.client.sync import ClientRoom
from holdfast.schemas.frames import Frame
from holdfast.sync import connect
from tests.client.desk import room
from tests.client.fake_server import URL
from tests.client.test_state import SEAT, Board, Hand, Played, Table, data, played, turned, view
from tests.deadlines import DEADLINE_S


class Seat:
    """A blocking client's room, and the server's side of it."""

    def __init__(self, room: ClientRoom, table: Table) -> None:
        self.room = room
        self._table = table

    def hear(self, *frames: Frame) -> None:
        """The server says this, and the client has heard it."""

        async def say() -> None:
            self._table.link.say(*frames)

        self.room._background.run(say)  # noqa: SLF001 - the fake server lives in the session's thread


@contextmanager
def seated(**options: Any) -> Iterator[Seat]:
    table = Table()
    with connect(URL, dial=table.dial, messages=[Played]) as session:
        joining = session.later(session.join, "room-1", **options)

        async def answer() -> None:
            asked = await table.asked("join", room="room-1")
            asked.link.say(SEAT, asked.reply(room(1)))

        session._background.run(answer)  # noqa: SLF001 - as above
        yield Seat(joining.result(DEADLINE_S), table)


def test_the_state_is_read_without_reading_messages() -> None:
    with seated(state=Board, data=Hand) as seat:
        before = (seat.room.state, seat.room.players, seat.room.mine)
        seat.hear(view(1), turned(2, 3))

        assert before == (None, {}, None)
        assert (seat.room.state, seat.room.mine) == (Board(3), Hand(1))
        assert seat.room.players == {"ada": Hand(1), "bot": Hand(2)}


def test_what_was_read_does_not_change_under_its_reader() -> None:
    with seated() as seat:
        seat.hear(view(1))
        state, players, mine = seat.room.state, seat.room.players, seat.room.mine
        seat.hear(turned(2, 3), data(3, "holdfast.state", [0, [[], ["players", [[], ["ada", [["score", 9]]]]]]]))

        assert (state["turn"], players["ada"], mine) == (0, {"score": 1}, {"score": 1})
        assert (seat.room.state["turn"], seat.room.mine) == (3, {"score": 9})


def test_a_reader_sees_the_state_of_its_turn() -> None:
    with seated() as seat:
        seat.hear(view(1))
        for turn in range(1, 6):
            seat.hear(turned(2 * turn, turn), played(2 * turn + 1, turn))

        seen = [(seat.room.receive(Played).turn, seat.room.state["turn"]) for _ in range(5)]

        assert seen == [(turn, turn) for turn in range(1, 6)]


def test_poll_calls_listeners_turn_by_turn_with_the_state_of_each() -> None:
    heard: list[Any] = []
    with seated(state=Board) as seat:
        seat.room.on(Played)(lambda message: heard.append((message.turn, seat.room.state.turn)))
        seat.room.on_change("state.turn", heard.append)
        seat.hear(view(1))
        for turn in range(1, 4):
            seat.hear(turned(3 * turn - 1, turn), played(3 * turn, turn), data(3 * turn + 1, "other", {}))
        seat.hear(turned(11, 4))

        before = list(heard)
        rest = seat.room.poll()
        polled, heard[:] = heard[:], []
        seat.room.poll()

        assert (before, polled) == ([], [0, 1, (1, 1), 2, (2, 2), 3, (3, 3)])
        assert len(rest) == 3
        assert heard == [4]


def test_listeners_are_called_in_the_thread_that_reads() -> None:
    threads: list[threading.Thread] = []
    with seated() as seat:
        undo = seat.room.on_change(lambda _: threads.append(threading.current_thread()))
        seat.hear(view(1), played(2, 1))

        assert seat.room.receive() == Played(1)
        assert threads == [threading.current_thread()]
        seat.hear(turned(3, 2))
        assert seat.room.poll() == []
        assert len(threads) == 2
        undo()
        seat.hear(turned(4, 3))
        assert (seat.room.poll(), seat.room.state["turn"]) == ([], 3)
        assert len(threads) == 2


def test_a_listener_that_raises_does_not_stop_the_game(caplog: pytest.LogCaptureFixture) -> None:
    with seated() as seat:
        seat.room.on_change(lambda _: 1 / 0)
        seat.hear(view(1), played(2, 1))

        assert seat.room.poll() == [Played(1)]
        assert "a listener failed" in caplog.text


def test_the_state_can_be_read_when_the_session_is_over() -> None:
    with seated(state=Board) as seat:
        seat.hear(view(1, 4))

    assert seat.room.state == Board(4)


def test_many_threads_read_while_the_state_changes() -> None:
    done = threading.Event()
    failures: list[BaseException] = []
    with seated() as seat:
        seat.hear(view(1, players={f"p{number}": {"score": number} for number in range(50)}))

        def read() -> None:
            try:
                while not done.is_set():
                    assert len(seat.room.players) in range(50, 252)
                    assert dict(seat.room.state)
            except BaseException as failure:  # noqa: BLE001 - the test tells of it
                failures.append(failure)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(2, 200):
            joined = ["players", [[f"n{number}", {"score": number}]]]
            seat.hear(data(number, "holdfast.state", [0, [[], [*joined, "state", [[f"k{number}", number]]]]]))
        done.set()
        for reader in readers:
            reader.join()

        assert failures == []
        assert len(seat.room.players) == 248
