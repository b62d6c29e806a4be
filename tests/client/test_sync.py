"""The blocking client: the same calls in a program without an event loop."""

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.sync
from holdfast import (
    AlreadySeated,
    Announcement,
    Auth,
    Drop,
    Invalid,
    Limits,
    Message,
    NotFound,
    NotSeated,
    Outcome,
    Reason,
    Refused,
    RoomUpdated,
    Server,
    SessionEnded,
)
from holdfast.client import sync
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession
from holdfast.client.subscriptions import Placement, RoomWatch
from holdfast.client.sync import Background
from holdfast.sync import connect
from holdfast.testing import MemoryStorage
from tests.client.game import AtOnce, Echo, Kick, Measure, Measured, Said, Say, Slow, Spam, serve, url_of
from tests.client.server_thread import ServerThread
from tests.deadlines import DEADLINE_S


@pytest.fixture(scope="module")
def running() -> Iterator[ServerThread]:
    running = ServerThread(serve())
    yield running
    running.stop()


@pytest.fixture
def url(running: ServerThread) -> str:
    return running.url


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in set(threading.enumerate()) - before if "holdfast session" in thread.name]
    assert left == []


def join(url: str, **options: Any) -> tuple[sync.ClientSession, sync.ClientRoom]:
    session = connect(url, messages=[Said], random=AtOnce(), **options)
    return session, session.join_or_create("echo")


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, Said)]


# The same face


def test_it_takes_the_same_arguments_as_the_other() -> None:
    blocking, awaited = inspect.signature(connect), inspect.signature(holdfast.connect)

    assert list(blocking.parameters.values()) == list(awaited.parameters.values())


PAIRS = [
    (sync.ClientSession, ClientSession),
    (sync.ClientRoom, ClientRoom),
    (sync.RoomWatch, RoomWatch),
    (sync.Placement, Placement),
]
# Who awaits, limits the time from outside.
WITH_A_TIMEOUT = {"receive", "done"}


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_it_has_the_same_methods_with_the_same_arguments(blocking: type[Any], awaited: type[Any]) -> None:
    ours = {name for name in dir(awaited) if not name.startswith("_")} - {"open"}

    assert ours <= set(dir(blocking))
    for name in ours:
        method = getattr(awaited, name)
        if inspect.isfunction(method):
            expected, actual = inspect.signature(method), inspect.signature(getattr(blocking, name))
            timeout = ["timeout"] if name in WITH_A_TIMEOUT else []
            assert list(actual.parameters) == [*expected.parameters, *timeout], name
            assert list(actual.parameters.values())[: len(expected.parameters)] == list(expected.parameters.values())


def test_it_is_exported_where_the_documentation_says() -> None:
    assert holdfast.sync.connect is sync.connect
    assert (holdfast.sync.ClientSession, holdfast.sync.ClientRoom) == (sync.ClientSession, sync.ClientRoom)


# Every call


def test_a_message_goes_to_the_room_and_comes_back(url: str) -> None:
    with connect(url, messages=[Said]) as session:
        room = session.join_or_create("echo")
        room.send(Say("hello"))

        assert room.receive(timeout=DEADLINE_S) == Said("hello")
        assert session.connected
        assert session.outcome == Outcome("new")
        assert session.latency_ms >= 0.0


def test_rooms_are_created_found_and_joined(url: str) -> None:
    with connect(url) as session:
        made = session.create("echo", properties={"map": "castle"}, max_players=2)
        found = session.search("echo", limit=100)
        room = session.join(made.id)

        assert made.id in [info.id for info in found]
        assert (room.id, room.kind) == (made.id, "echo")
        assert session.room is not None
        assert session.room.id == room.id


def test_a_refusal_is_raised_where_it_was_asked_for(url: str) -> None:
    with connect(url) as session, pytest.raises(NotFound, match="unknown kind of room"):
        session.create("chess")


def test_messages_are_iterated_until_the_seat_is_gone(url: str) -> None:
    with connect(url, messages=[Said]) as session:
        room = session.join_or_create("echo")
        room.send(Say("a"))
        room.send(Kick("out"))

        assert texts(list(room)) == ["a", "one more thing"]
        assert room.left is not None
        assert room.left.message == "out"
        with pytest.raises(NotSeated):
            room.poll()
        assert session.room is None


def test_a_receive_that_takes_too_long_is_a_timeout(url: str) -> None:
    session, room = join(url)
    with session:
        with pytest.raises(TimeoutError, match=r"no message within 0\.01 s"):
            room.receive(timeout=0.01)
        with pytest.raises(TimeoutError):
            room.receive(timeout=0)

        room.send(Say("after"))
        assert room.receive(timeout=DEADLINE_S) == Said("after")


def test_a_game_loop_polls_once_per_frame(url: str) -> None:
    session, room = join(url)
    with session:
        heard: list[str] = []
        frames = 0
        while len(heard) < 30:
            if frames < 30:
                room.send(Say(str(frames)))
            heard += texts(room.poll())
            frames += 1

        assert heard == [str(number) for number in range(30)]
        assert room.poll() == []


def test_unreliable_messages_are_sent(url: str) -> None:
    session, room = join(url)
    with session:
        room.send_latest(Say("maybe"))

        assert room.receive(timeout=DEADLINE_S) == Said("maybe")


def test_a_flush_waits_until_everything_was_applied(running: ServerThread) -> None:
    session, room = join(running.url)
    with session:
        for number in range(100):
            room.send(Say(str(number)))
        room.flush()

        echo = running.server.rooms.get(room.id)
        assert isinstance(echo, Echo)
        assert echo.heard[-100:] == [str(number) for number in range(100)]


def test_a_seat_is_left(url: str) -> None:
    session, room = join(url)
    with session:
        room.leave()

        assert room.left is not None
        assert room.left.reason == Reason.LEFT
        with pytest.raises(NotSeated):
            room.send(Say("late"))
        assert "left" in repr(room)


def test_a_lost_connection_is_replaced_while_the_program_is_busy(url: str) -> None:
    session, room = join(url)
    with session:
        session.cut()
        room.send(Say("still here"))

        assert room.receive(timeout=DEADLINE_S) == Said("still here")
        assert session.drops == 1


def test_a_suspended_session_goes_on(url: str, tmp_path: Path) -> None:
    saved = tmp_path / "ada.session"
    first, room = join(url, saved=saved)
    room.send(Say("a"))
    room.flush()
    first.suspend()

    with connect(url, messages=[Said], saved=saved) as second:
        assert (second.id, second.player_id, second.credential) == (first.id, first.player_id, first.credential)
        assert second.room is not None
        assert second.room.receive(timeout=DEADLINE_S) == Said("a")


def test_a_saved_session_goes_on_where_it_was_acknowledged(url: str) -> None:
    storage = MemoryStorage()
    first, room = join(url, give_up_s=0.0, saved=storage)
    room.send(Say("a"))
    assert room.receive(timeout=DEADLINE_S) == Said("a")
    room.acknowledge()
    room.flush()
    killed = MemoryStorage(storage.written)
    first.cut()

    with connect(url, messages=[Said], saved=killed) as second:
        assert second.room is not None
        second.room.send(Say("b"))
        assert second.room.receive(timeout=DEADLINE_S) == Said("b")
    first.close()


def test_a_credential_makes_the_same_player(url: str) -> None:
    with connect(url) as first:
        pass
    with connect(url, auth=Auth("guest", first.credential)) as again:
        assert again.player_id == first.player_id


# Ends


def test_a_closed_session_says_so_whatever_is_asked(url: str) -> None:
    session, room = join(url)
    session.close()
    session.close()

    calls: list[Callable[[], Any]] = [
        session.search,
        session.suspend,
        session.cut,
        room.poll,
        room.receive,
        room.leave,
        lambda: room.send(Say("late")),
        lambda: list(room),
    ]
    for call in calls:
        with pytest.raises(SessionEnded, match="closed by this program"):
            call()
    assert not session.connected


def test_a_crash_in_the_block_closes_the_session(running: ServerThread) -> None:
    with pytest.raises(ZeroDivisionError), connect(running.url) as session:
        raise ZeroDivisionError

    assert running.do(lambda: running.server.sessions.get(session.id)) is None


@contextmanager
def interrupted_soon() -> Iterator[None]:
    """Ctrl-C, as soon as the block waits for something."""
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    # A shell starts what runs in the background deaf to Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_wait_and_the_session_can_go_on(url: str) -> None:
    session, room = join(url)
    with session:
        with interrupted_soon():
            room.receive()
        room.send(Say("after"))

        assert room.receive(timeout=DEADLINE_S) == Said("after")


def test_ctrl_c_in_the_block_closes_the_session(running: ServerThread) -> None:
    session, room = join(running.url)

    with interrupted_soon(), session:
        room.receive()

    assert running.do(lambda: running.server.sessions.get(session.id)) is None


def test_ctrl_c_while_connecting_leaves_nothing_behind() -> None:
    async def dial(*_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    with interrupted_soon():
        connect("ws://127.0.0.1:1", dial=dial)


def test_nobody_at_the_address_is_an_oserror_and_leaves_nothing_behind() -> None:
    with pytest.raises(OSError, match="cannot be reached"):
        connect("ws://127.0.0.1:1")
    with pytest.raises(Invalid, match="unknown codec"):
        connect("ws://127.0.0.1:1", codec="holdfast.v0")


# A frame loop: listeners and futures


def test_listeners_run_in_poll_in_the_thread_that_calls_it(url: str) -> None:
    told: list[Any] = []

    def tell(what: Any) -> None:
        told.append((what, threading.current_thread()))

    session, room = join(url, on_drop=tell)
    with session:
        session.on_resume(tell)
        session.cut()
        room.send(Say("back"))
        assert room.receive(Said, timeout=DEADLINE_S) == Said("back")
        assert told == []

        session.poll()

        assert [type(what) for what, _ in told] == [Drop, Outcome]
        assert {thread for _, thread in told} == {threading.current_thread()}
        session.poll()
        assert len(told) == 2
    session.poll()


def test_a_listener_may_wait_for_an_answer_and_raise(url: str, caplog: pytest.LogCaptureFixture) -> None:
    session, room = join(url)
    with session:
        rooms: list[str] = []

        @session.on_resume
        def look(outcome: Outcome) -> None:
            rooms.extend(info.id for info in session.my_rooms())
            raise ZeroDivisionError

        session.cut()
        room.send(Say("back"))
        room.receive(timeout=DEADLINE_S)
        room.poll()

        assert rooms == [room.id]
        assert caplog.text.count("a listener failed") == 1


def test_messages_go_to_their_listeners_and_the_others_are_returned(url: str) -> None:
    with connect(url, messages=[Said]) as session:
        room = session.join(session.create("echo").id)
        heard: list[str] = []
        assert session.room is not None

        @session.room.on(Said)
        def said(message: Said) -> None:
            heard.append(message.text)

        room.update(name="Ada's")
        room.send(Say("hello"))
        rest: list[Message] = []
        while not heard:
            rest += room.poll()

        assert heard == ["hello"]
        assert [type(message) for message in rest] == [RoomUpdated]
        room.on(Said).remove(said)
        room.send(Say("again"))
        assert room.receive(timeout=DEADLINE_S) == Said("again")


def test_a_call_can_be_begun_and_looked_at_later(url: str) -> None:
    with connect(url, messages=[Said]) as session:
        joining = session.later(session.join_or_create, "echo", properties={"map": "castle"})
        told: list[Any] = []
        joining.add_done_callback(lambda done: told.append((done, threading.current_thread())))

        room = joining.result(DEADLINE_S)
        assert told == []
        session.poll()
        assert told == [(joining, threading.current_thread())]
        numbers = [session.later(room.send, Say(str(number))) for number in range(20)]
        assert [number.result(DEADLINE_S) for number in numbers] == list(range(1, 21))
        with pytest.raises(AlreadySeated):
            session.later(session.join, "nowhere").result(DEADLINE_S)


def test_an_ask_is_answered_at_once_or_later(url: str) -> None:
    with connect(url, messages=[Measured]) as session:
        room = session.join_or_create("echo")
        told: list[Any] = []

        assert room.ask(Measure("four")) == Measured(4)
        with pytest.raises(Refused, match="nothing to measure"):
            room.ask(Measure(""))
        with pytest.raises(TimeoutError, match="no answer to 'slow' within"):
            room.ask(Slow(0.2), timeout_s=0.01)
        asking = session.later(room.ask, Measure("seven!!"))
        asking.add_done_callback(lambda done: told.append(done.result()))

        assert asking.result(DEADLINE_S) == Measured(7)
        room.poll()
        assert told == [Measured(7)]


def test_a_call_that_was_begun_can_be_cancelled(url: str) -> None:
    with connect(url) as session:
        waiting = session._background.begin(asyncio.Event().wait, bool)  # noqa: SLF001 - nothing public takes that long

        assert waiting.cancel()

        assert session.my_rooms() == []
        assert waiting.cancelled()


def test_a_call_that_was_begun_is_told_when_the_session_closes(url: str) -> None:
    session, room = join(url)
    reading = session.later(room.flush)
    forever = session._background.begin(asyncio.Event().wait, bool)  # noqa: SLF001 - nothing public takes that long
    session.close()

    with pytest.raises(SessionEnded):
        forever.result(DEADLINE_S)
    assert reading.done()
    with pytest.raises(SessionEnded):
        session.later(room.flush)


@pytest.mark.parametrize("method", [print, Echo.say, "join"])
def test_what_is_no_call_of_the_session_cannot_be_begun(url: str, method: Any) -> None:
    with connect(url) as session, connect(url) as other:
        for each in (method, other.my_rooms):
            with pytest.raises(TypeError, match="later takes a method of this session or its rooms"):
                session.later(each)


def test_a_program_that_never_polls_keeps_the_newest_events(url: str) -> None:
    session, room = join(url, limits=Limits(unpolled_events_max=2))
    with session:
        told: list[Any] = []
        session.on_drop(told.append)
        session.on_resume(told.append)
        for _ in range(3):
            session.cut()
            room.send(Say("back"))
            room.receive(timeout=DEADLINE_S)

        session.poll()

        assert [type(each) for each in told] == [Drop, Outcome]


# Threads


def test_two_sessions_live_side_by_side_in_one_program(url: str) -> None:
    with connect(url, messages=[Said]) as one, connect(url, messages=[Said]) as other:
        here, there = one.join_or_create("echo"), other.join_or_create("echo")
        here.send(Say("here"))
        there.send(Say("there"))

        assert here.receive(timeout=DEADLINE_S) == Said("here")
        assert there.receive(timeout=DEADLINE_S) == Said("there")
        assert one.player_id != other.player_id


def test_another_thread_that_waits_is_told_when_the_session_closes(url: str) -> None:
    session, room = join(url)
    errors: list[BaseException] = []
    is_waiting = threading.Event()

    def read() -> None:
        is_waiting.set()
        try:
            room.receive()
        except SessionEnded as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    is_waiting.wait()
    session.close()
    reader.join(DEADLINE_S)

    assert len(errors) == 1


def test_whoever_still_waits_when_the_loop_stops_is_told() -> None:
    background = Background("holdfast session for a test")
    errors: list[BaseException] = []
    has_begun = threading.Event()

    async def forever() -> None:
        has_begun.set()
        await asyncio.get_running_loop().create_future()

    def wait() -> None:
        try:
            background.run(forever)
        except SessionEnded as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    has_begun.wait()
    background.stop()
    waiting.join(DEADLINE_S)

    assert len(errors) == 1
    with pytest.raises(SessionEnded):
        background.run(forever)


def test_one_thread_reads_while_another_sends(url: str) -> None:
    session, room = join(url)
    with session:
        heard: list[str] = []

        def read() -> None:
            while len(heard) < 200:
                message = room.receive(timeout=DEADLINE_S)
                assert isinstance(message, Said)
                heard.append(message.text)

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(200):
            room.send(Say(str(number)))
            if number == 100:
                session.cut()
        reader.join(DEADLINE_S)

        assert heard == [str(number) for number in range(200)]


def test_more_than_a_window_waits_for_a_program_that_does_not_read(url: str) -> None:
    session, room = join(url)
    with session:
        room.send(Spam(3000))
        room.flush()

        heard: list[str] = []
        while len(heard) < 3000:
            heard += texts(room.poll())
        assert heard == [str(number) for number in range(3000)]
        assert session.drops == 0


async def test_it_also_works_beside_a_loop_in_another_thread(server: Server) -> None:
    def play() -> Message:
        with connect(url_of(server), messages=[Said]) as session:
            room = session.join_or_create("echo")
            room.send(Say("from a thread"))
            return room.receive(timeout=DEADLINE_S)

    assert await asyncio.to_thread(play) == Said("from a thread")


# Messages to the session itself


def test_messages_to_the_session_are_received_and_wait_for_one(running: ServerThread, url: str) -> None:
    with connect(url, messages=[Said]) as session:

        def send(*messages: Message) -> None:
            own = running.server.sessions.get(session.id)
            assert own is not None
            for message in messages:
                own.send(message)

        running.do(lambda: send(Said("one"), Announcement("soon"), Said("two")))

        assert session.receive(timeout=DEADLINE_S) == Said("one")
        assert session.receive(Announcement, timeout=DEADLINE_S) == Announcement("soon")
        assert session.receive() == Said("two")
        with pytest.raises(TimeoutError):
            session.receive(timeout=0.01)


def test_listeners_of_messages_to_the_session_run_in_poll(running: ServerThread, url: str) -> None:
    heard: list[tuple[Message, str]] = []
    with connect(url, messages=[Said]) as session:
        running.do(lambda: running.server.broadcast(Said("before")))
        session.poll()
        session.on_message(lambda message: heard.append((message, threading.current_thread().name)))
        room = session.join_or_create("echo")
        running.do(lambda: running.server.broadcast(Said("after")))
        while len(heard) < 2:
            room.poll()

    assert heard == [(Said(text), threading.current_thread().name) for text in ("before", "after")]
    session.poll()


def test_a_listener_that_takes_itself_away_leaves_the_rest_for_the_next(running: ServerThread, url: str) -> None:
    heard: list[Message] = []
    with connect(url, messages=[Said]) as session:

        def once(message: Message) -> None:
            heard.append(message)
            session.on_message.remove(once)

        for message in (Said("one"), Said("two"), Announcement("soon")):
            running.do(partial(running.server.broadcast, message))
        session.receive(Announcement, timeout=DEADLINE_S)  # and so the others are there

        session.on_message(once)
        session.poll()

        assert heard == [Said("one")]
        assert session.receive(timeout=DEADLINE_S) == Said("two")


def test_a_listener_for_what_never_arrives_is_refused(url: str) -> None:
    session, room = join(url)
    with session:
        with pytest.raises(Invalid, match="Measured would never arrive"):
            room.on(Measured)
        with pytest.raises(TypeError, match="name a Message class"):
            room.on("said")  # type: ignore[arg-type]  # what is refused
