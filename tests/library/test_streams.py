"""`PlayerStreams` over sockets that are not ours, with our client: hooks, handlers, who comes in, and the end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

import holdfast
from holdfast import (
    Auth,
    ClientRoom,
    ClientSession,
    Failed,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotAllowed,
    NotFound,
    Outcome,
    PlayerStream,
    PlayerStreams,
    Refused,
    SessionEnded,
    on,
)
from holdfast.core.codecs import CODECS
from holdfast.library.streams import Engine


class Say(Message):
    text: str


class Heard(Message):
    text: str


class Mute(Message):
    player: str


class Work(Message):
    number: int


class Await(Message):
    later: bool


class Hall(PlayerStreams):
    """Writes down what happens; works only when it is let."""

    grace_s = 30.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.told: list[str] = []
        self.changed = asyncio.Event()
        self.may_work = asyncio.Semaphore(0)

    def tell(self, text: str) -> None:
        self.told.append(text)
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    def authenticate(self, auth: Auth) -> Any:
        match auth.credential:
            case "":
                return super().authenticate(auth)
            case "wrong":
                raise Refused("no such ticket")
            case "slow":
                return self.later("slow")
            case "never":
                return asyncio.Event().wait()
            case "broken":
                raise RuntimeError("with a secret in it")
            case "nobody":
                return None
            case name:
                return name

    async def later(self, name: str) -> str:
        await asyncio.sleep(0)
        return name

    def on_join(self, player: PlayerStream) -> None:
        self.tell(f"join {player.id}")

    def on_drop(self, player: PlayerStream) -> None:
        self.tell(f"drop {player.id}")

    def on_rejoin(self, player: PlayerStream) -> None:
        self.tell(f"rejoin {player.id}")

    def on_resync(self, player: PlayerStream) -> None:
        self.tell(f"resync {player.id}")
        player.send(Heard("state"))

    def on_leave(self, player: PlayerStream, reason: str) -> None:
        self.tell(f"leave {player.id} {reason}")

    @on(Say)
    def said(self, player: PlayerStream, say: Say) -> None:
        if say.text == "oops":
            raise RuntimeError("oops")
        if say.text == "no":
            raise Invalid("not that")
        self.broadcast(Heard(say.text), exclude=[player])

    @on(Mute, role="gm")
    def muted(self, player: PlayerStream, mute: Mute) -> None:
        muted = self.get(mute.player)
        assert muted is not None
        muted.kick("be nice")

    @on(Await)
    def awaited(self, player: PlayerStream, message: Await) -> Any:
        """Something that was cancelled, though not by us: looked at, or awaited."""
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        return cancelled if message.later else cancelled.result()

    @on(Work)
    async def worked(self, player: PlayerStream, work: Work) -> None:
        self.tell(f"begin {work.number}")
        await self.may_work.acquire()
        self.tell(f"end {work.number}")
        player.send(Heard(str(work.number)))


@asynccontextmanager
async def served(hall: Hall, **options: Any) -> AsyncIterator[str]:
    """The hall on a plain server of `websockets`; its URL."""

    async def serve_socket(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await hall.serve(socket, socket.send, socket.close, subprotocol=socket.subprotocol, **options)

    subprotocols = [Subprotocol(name) for name in hall.subprotocols]
    async with serve(serve_socket, "127.0.0.1", 0, subprotocols=subprotocols, close_timeout=1.0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await hall.stop()


def joined(url: str, credential: str = "", **options: Any) -> AbstractAsyncContextManager[ClientSession]:
    auth = Auth("ticket", credential) if credential else None
    return holdfast.connect(url, messages=[Heard], auth=auth, retry_first_s=0.01, **options)


def seat_of(session: ClientSession) -> ClientRoom:
    assert session.room is not None
    return session.room


# Coming and going


async def test_a_player_joins_drops_returns_and_leaves() -> None:
    hall = Hall()
    async with served(hall) as url:
        async with joined(url, "ada") as ada:
            assert (ada.player_id, ada.outcome.kind if ada.outcome else "") == ("ada", "new")
            room = await ada.join_or_create("hall")
            assert room is ada.room
            ada.cut()
            await hall.until(lambda: "rejoin ada" in hall.told)
            assert [player.id for player in hall.players] == ["ada"]
            await room.send(Say("hello"))
            await room.flush()
        await hall.until(lambda: hall.told[-1].startswith("leave"))

        assert hall.told == ["join ada", "drop ada", "rejoin ada", "leave ada bye"]
        assert hall.players == ()
        assert hall.get("ada") is None


async def test_the_same_calls_as_in_a_room_of_a_server_lead_to_the_place() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url) as guest:
        assert guest.player_id.startswith("guest-")
        assert (await guest.join("hall")).id == seat_of(guest).id == "hall"
        assert [info.players for info in await guest.my_rooms()] == [1]
        with pytest.raises(NotFound, match="one room, 'hall', and no directory"):
            await guest.search()
        with pytest.raises(NotAllowed, match="close the session"):
            await seat_of(guest).leave()


async def test_a_player_who_stays_away_is_forgotten_and_told_so() -> None:
    class Brief(Hall):
        grace_s = 0.0

    hall = Brief()
    async with served(hall) as url, joined(url, "ada", retry_longest_s=0.1) as ada:
        seat = seat_of(ada)
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        ada.on_resume(outcomes.put_nowait)
        ada.cut()

        outcome = await outcomes.get()

        assert (outcome.kind, outcome.reason) == ("reset", "expired")
        assert seat.left is not None
        assert hall.told == ["join ada", "drop ada", "leave ada grace_ended", "join ada"]


async def test_the_newest_sign_in_of_a_player_ends_the_one_before() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as first, joined(url, "ada") as second:
        with pytest.raises(SessionEnded) as ended:
            await seat_of(first).receive()

        assert ended.value.reason == "superseded"
        assert hall.told == ["join ada", "leave ada superseded", "join ada"]
        await seat_of(second).send(Say("still here"))
        await seat_of(second).flush()


async def test_a_kicked_player_is_told_why() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada, joined(url, "bob") as bob:
        gm = hall.get("ada")
        assert gm is not None
        await seat_of(ada).send(Mute("bob"))
        refused = await seat_of(ada).receive()
        assert isinstance(refused, MessageRefused)
        assert refused.code == "not_allowed"

        gm.roles = frozenset({"gm"})
        await seat_of(ada).send(Mute("bob"))
        with pytest.raises(SessionEnded, match="be nice") as ended:
            await seat_of(bob).receive()

        assert ended.value.reason == "kicked"
        assert hall.told[-1] == "leave bob kicked"


async def test_messages_that_were_not_kept_are_followed_by_the_state() -> None:
    hall = Hall(limits=Limits(kept_messages_max=64, window_messages_max=32))
    async with served(hall) as url, joined(url, "ada") as ada:
        player = hall.get("ada")
        assert player is not None
        ada.cut()
        await hall.until(lambda: "drop ada" in hall.told)
        for number in range(100):
            player.send(Heard(str(number)))

        while (heard := await seat_of(ada).receive()) != Heard("state"):
            assert isinstance(heard, holdfast.Resynced)

        assert hall.told == ["join ada", "drop ada", "resync ada", "rejoin ada"]


async def test_a_reader_that_is_too_slow_is_cut_and_resynced() -> None:
    hall = Hall(limits=Limits(kept_messages_max=64, window_messages_max=32))
    async with served(hall) as url, joined(url, "ada") as ada:
        player = hall.get("ada")
        assert player is not None

        for number in range(100):
            player.send(Heard(str(number)))
        await hall.until(lambda: "resync ada" in hall.told)

        assert ada.drops <= 1


async def test_a_stopped_hall_ends_its_sessions_and_clients_may_come_back_later() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada:
        dropped = asyncio.Event()
        ada.on_drop(lambda drop: dropped.set())

        await hall.stop()
        await dropped.wait()

        assert hall.told == ["join ada", "leave ada stopping"]


# Messages


@pytest.mark.parametrize("codec", CODECS)
async def test_a_broadcast_reaches_all_but_the_excluded_in_every_codec(codec: str) -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada, joined(url, "bob", codec=codec) as bob:
        await seat_of(ada).send(Say("hello"))
        assert await seat_of(bob).receive() == Heard("hello")
        await seat_of(bob).send(Say("hello back"))
        assert await seat_of(ada).receive() == Heard("hello back")


async def test_unreliable_messages_go_both_ways_the_newest_of_a_key_and_none_while_a_handler_is_at_work() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada, joined(url, "bob") as bob:
        player = hall.get("ada")
        assert player is not None
        for text in ("old", "new"):
            player.send_latest(Heard(text), "position")
        assert await seat_of(ada).receive() == Heard("new")

        await seat_of(ada).send(Work(1))
        await hall.until(lambda: "begin 1" in hall.told)
        seat_of(ada).send_latest(Say("too soon"))
        for _ in range(2):
            await ada.my_rooms()  # until the server has read what was sent before
        hall.may_work.release()
        assert await seat_of(ada).receive() == Heard("1")
        seat_of(ada).send_latest(Say("hello"))
        assert await seat_of(bob).receive() == Heard("hello")


async def test_a_message_that_fails_harms_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    hall = Hall()
    caplog.set_level(logging.ERROR, "holdfast.library")
    async with served(hall) as url, joined(url, "ada") as ada:
        room = seat_of(ada)

        async def refused(message: Message) -> tuple[int, str, str]:
            await room.send(message)
            answer = await room.receive()
            assert isinstance(answer, MessageRefused)
            return answer.seq, answer.code, answer.message

        class Unknown(Message):
            pass

        class Wrong(Message):
            wire_name = "say"
            text: int

        assert await refused(Say("no")) == (1, "invalid", "not that")
        assert await refused(Say("oops")) == (2, "failed", "the handler failed")
        assert await refused(Unknown()) == (3, "not_found", "'hall' has no handler for 'unknown'")
        assert (await refused(Wrong(7)))[:2] == (4, "invalid")
        assert await refused(Await(later=False)) == (5, "failed", "the handler failed")
        assert await refused(Await(later=True)) == (6, "failed", "the handler failed")

        assert [record.getMessage().split(":")[0] for record in caplog.records if "a handler failed" in record.message]


async def test_an_ask_is_answered_with_what_its_handler_returns_across_a_drop() -> None:
    class Adding(Hall):
        @on(Say)
        def said(self, player: PlayerStream, say: Say) -> Any:
            if say.text == "no":
                raise Invalid("not that")
            return {"plain": "data"} if say.text == "wrong" else Heard(say.text) if say.text else None

        @on(Work)
        async def worked(self, player: PlayerStream, work: Work) -> Any:
            self.tell("begin")
            await self.may_work.acquire()
            return Heard(f"worked {work.number}")

    hall = Adding()
    async with served(hall) as url, joined(url, "ada") as ada:
        room = seat_of(ada)
        assert await room.ask(Say("hello")) == Heard("hello")
        assert await room.ask(Say("")) is None
        with pytest.raises(Invalid, match="not that"):
            await room.ask(Say("no"))
        with pytest.raises(Failed):
            await room.ask(Say("wrong"))

        asking = asyncio.create_task(room.ask(Work(7)))
        await hall.until(lambda: "begin" in hall.told)
        ada.cut()
        await hall.until(lambda: "rejoin ada" in hall.told)
        hall.may_work.release()
        assert await asking == Heard("worked 7")


async def test_a_players_messages_are_handled_one_at_a_time_and_go_on_while_the_player_is_away() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada, joined(url, "bob") as bob:
        for number in (1, 2, 3):
            await seat_of(ada).send(Work(number))
        await hall.until(lambda: "begin 1" in hall.told)
        await seat_of(bob).send(Work(10))
        await hall.until(lambda: "begin 10" in hall.told)
        assert "begin 2" not in hall.told, "only others go on meanwhile"
        ada.cut()
        await hall.until(lambda: "rejoin ada" in hall.told)

        for _ in range(4):
            hall.may_work.release()

        assert [await seat_of(ada).receive() for _ in range(3)] == [Heard("1"), Heard("2"), Heard("3")]
        assert [line for line in hall.told if line.split()[0] in {"begin", "end"} and "10" not in line] == [
            "begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3",
        ]  # fmt: skip


async def test_what_was_sent_before_a_goodbye_is_handled() -> None:
    hall = Hall()
    async with served(hall) as url:
        async with joined(url, "ada") as ada:
            await seat_of(ada).send(Work(1))
            await seat_of(ada).send(Work(2))
            await hall.until(lambda: "begin 1" in hall.told)
        hall.may_work.release()
        hall.may_work.release()
        await hall.until(lambda: hall.told[-1].startswith("leave"))

        assert hall.told == ["join ada", "begin 1", "end 1", "begin 2", "end 2", "leave ada bye"]


async def test_a_message_that_no_payload_can_carry_is_refused_where_it_is_sent() -> None:
    hall = Hall()
    async with served(hall) as url, joined(url, "ada") as ada:
        player = hall.get("ada")
        assert player is not None
        with pytest.raises(Invalid, match="send it in parts"):
            player.send(Heard("x" * 70_000))
        with pytest.raises(TypeError, match="send a Message"):
            player.send({"text": "hello"})  # type: ignore[arg-type]
        player.send(Heard("fits"))

        assert await seat_of(ada).receive() == Heard("fits")
        assert player.connected


async def test_a_hook_that_raises_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hall):
        kind = "hall"

        def on_join(self, player: PlayerStream) -> None:
            raise RuntimeError("broken")

    async with served(Broken()) as url, joined(url, "ada") as ada:
        await seat_of(ada).send(Say("hello"))
        await seat_of(ada).flush()

    assert [record for record in caplog.records if "a hook failed" in record.message]


# Who comes in


@pytest.mark.parametrize(
    ("credential", "reason", "problem"),
    [("wrong", "refused", "refused"), ("broken", "unreachable", ""), ("nobody", "unreachable", "")],
)
async def test_who_is_not_authenticated_does_not_come_in(
    credential: str, reason: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    hall = Hall()
    async with served(hall) as url:
        with pytest.raises(SessionEnded) as ended:
            await holdfast.connect(url, auth=Auth("ticket", credential), give_up_s=0.2)

        assert (ended.value.reason, ended.value.problem) == (reason, problem)
        assert hall.told == []
        assert not [record for record in caplog.records if "secret" in record.getMessage()]


async def test_authentication_may_take_its_time_but_not_forever() -> None:
    hall = Hall(limits=Limits(auth_s=0.1))
    async with served(hall) as url:
        async with joined(url, "slow") as slow:
            assert slow.player_id == "slow"
        with pytest.raises(SessionEnded):
            await holdfast.connect(url, auth=Auth("ticket", "never"), give_up_s=0.2)


async def test_a_server_may_know_already_who_is_there() -> None:
    hall = Hall()
    async with served(hall, player_id="ada") as url, joined(url, "wrong") as ada:
        assert ada.player_id == "ada"


async def test_a_full_hall_takes_nobody_new_but_its_own_back() -> None:
    hall = Hall(limits=Limits(sessions_max=1))
    async with served(hall) as url, joined(url, "ada") as ada:
        with pytest.raises(SessionEnded) as ended:
            await holdfast.connect(url, auth=Auth("ticket", "bob"), give_up_s=0.2)
        ada.cut()
        await hall.until(lambda: "rejoin ada" in hall.told)

        assert ended.value.reason == "unreachable", "it is told to come back later, and gives up"


async def test_a_socket_without_our_subprotocol_is_the_servers_mistake() -> None:
    async def nothing(*_: Any) -> None:
        pass

    with pytest.raises(Invalid, match="accept one of holdfast"):
        await Hall().serve(_silence(), nothing, nothing, subprotocol=None)


async def test_a_peer_that_takes_nothing_is_given_up() -> None:
    hall = Hall(limits=Limits(silence_s=0.05, ping_s=0.01))
    closed: list[int] = []

    async def stuck(_: Any) -> None:
        await asyncio.Event().wait()

    async def close(code: int, _reason: str) -> None:
        closed.append(code)

    async with asyncio.timeout(10):
        engine = Engine(hall, Limits(silence_s=0.05, hello_s=0.01))
        await engine.serve(_silence(), stuck, close, codec=next(iter(CODECS.values())), player_id="")

    assert closed == [4013]


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""
