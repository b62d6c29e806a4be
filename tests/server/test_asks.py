"""Asks: a message whose sender waits for the answer, and hears exactly one thing of it, whatever happens."""

import asyncio
from math import inf
from typing import Any

import pytest
from msgspec import Struct

from holdfast import (
    ClientRoom,
    ClientSession,
    Failed,
    HoldfastError,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotAllowed,
    NotFound,
    NotSeated,
    Player,
    PlayerData,
    Refused,
    Reset,
    Resynced,
    Room,
    RoomAgent,
    RoomUpdated,
    SessionEnded,
    Throttled,
    Unconfirmed,
    on,
)
from holdfast.core.messages import ASK
from holdfast.core.room import Durability
from holdfast.server.server import SUBPROTOCOLS
from holdfast.testing import FaultyStore, GameFailed, MemoryServer
from tests.saved_sessions import storage_of, suspended
from tests.simulation.stage import a_moment, in_virtual_time


class Buy(Message):
    count: int


class Bought(Message):
    total: int


class Look(Message):
    """Answered with nothing."""


class Steal(Message):
    """For thieves only."""


class Haggle(Message):
    """The handler returns what it should not."""

    kind: str


class Wait(Message):
    """Takes its time."""

    seconds: float


class Flood(Message):
    """Send me more than is kept for me."""


class Goodbye(Message):
    """Takes the seat of its sender."""

    how: str


class Till(Struct):
    total: int = 0
    sold: list[int] = []


class Shop(Room[PlayerData]):
    grace_s = 60.0
    state: Till

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Till()

    def on_resync(self, player: Player[PlayerData]) -> None:
        player.send(Bought(self.state.total))

    @on
    def buy(self, player: Player[PlayerData], buy: Buy) -> Bought:
        if buy.count < 1:
            raise Refused("nothing to buy")
        self.state.total += buy.count
        self.state.sold.append(buy.count)
        return Bought(self.state.total)

    @on
    def look(self, player: Player[PlayerData], look: Look) -> None: ...

    @on(role="thief")
    def steal(self, player: Player[PlayerData], steal: Steal) -> Bought:
        return Bought(0)

    @on
    def haggle(self, player: Player[PlayerData], haggle: Haggle) -> Any:
        if haggle.kind == "raises":
            raise ZeroDivisionError
        return {"number": 5, "dict": {}, "class": Bought, "large": Haggle("x" * 100_000)}[haggle.kind]

    @on
    async def wait(self, player: Player[PlayerData], wait: Wait) -> Bought:
        await asyncio.sleep(wait.seconds)
        self.state.sold.append(-1)
        return Bought(self.state.total)

    @on
    def flood(self, player: Player[PlayerData], flood: Flood) -> Bought:
        for number in range(200):
            player.send(Bought(number))
        return Bought(-1)

    @on
    def goodbye(self, player: Player[PlayerData], goodbye: Goodbye) -> Bought:
        if goodbye.how == "kick":
            player.kick("thieves are not welcome")
        elif goodbye.how == "close":
            self.close()
        else:
            player.session.end("enough")
        return Bought(-1)


class Ledger(Shop):
    durability: Durability = "commit"


class Notes(Shop):
    durability: Durability = "checkpoint"
    checkpoint_s = 5.0


def serve(**options: Any) -> MemoryServer:
    return MemoryServer([Shop, Ledger, Notes], **{"store": FaultyStore(), **options})


async def shopper(server: MemoryServer, kind: str = "shop", **options: Any) -> tuple[ClientSession, ClientRoom]:
    session = await server.connect("ada", messages=[Bought, Haggle], **options)
    return session, await session.join_or_create(kind)


def shop(server: MemoryServer, room: ClientRoom) -> Shop:
    found = server.rooms.get(room.id)
    assert isinstance(found, Shop)
    return found


# The answer


@pytest.mark.parametrize("kind", ["shop", "ledger", "notes"])
@pytest.mark.parametrize("codec", [each.name for each in SUBPROTOCOLS])
@in_virtual_time
async def test_what_a_handler_returns_is_the_answer(kind: str, codec: str) -> None:
    async with serve() as server:
        _, room = await shopper(server, kind, codec=codec)

        assert await room.ask(Buy(3)) == Bought(3)
        assert await room.ask(Look()) is None
        assert await room.ask(Wait(1.0)) == Bought(3)
        assert await asyncio.gather(*(room.ask(Buy(1)) for _ in range(20))) == [Bought(n) for n in range(4, 24)]
        assert room.poll() == []


@in_virtual_time
async def test_only_an_ask_is_answered() -> None:
    async with serve() as server:
        _, room = await shopper(server)

        await room.send(Buy(3))
        await room.send(Haggle("number"))
        await room.flush()

        assert room.poll() == []
        assert shop(server, room).state.sold == [3]


@in_virtual_time
async def test_an_answer_does_not_wait_for_messages_that_nobody_reads_and_is_acknowledged_after_them() -> None:
    async with serve() as server:
        session, room = await shopper(server)
        await room.send(Flood())

        assert await room.ask(Buy(3)) == Bought(3)
        assert room.received == 0
        session.cut()
        assert await room.ask(Buy(4)) == Bought(7)

        assert [await room.receive() for _ in range(200)] == [Bought(number) for number in range(200)]
        assert room.poll() == []
        await a_moment()
        (seat,) = server.sessions
        assert seat.channel is not None
        assert seat.channel.kept == 0


@in_virtual_time
async def test_an_answer_whose_type_is_not_listed_arrives_as_plain_data(caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as server:
        session = await server.connect("ada")
        room = await session.join_or_create("shop")

        assert (await room.ask(Buy(3))).body == {"total": 3}
        assert "its class is missing" in caplog.text


@in_virtual_time
async def test_an_unconfirmed_ask_shows_the_message_that_asks() -> None:
    async with serve() as server:
        session, room = await shopper(server, saved=storage_of(None))
        server.link(session).stall()
        asking = asyncio.create_task(room.ask(Haggle("number"), timeout_s=1.0))
        await a_moment()

        assert room.unconfirmed == [Unconfirmed(1, Haggle("number"))]
        with pytest.raises(TimeoutError):
            await asking


# Refusals


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (Buy(0), Refused, "nothing to buy"),
        (Steal(), NotAllowed, "requires the role 'thief'"),
        (Bought(1), NotFound, "a shop has no handler for 'bought'"),
        (Haggle("raises"), Failed, "the game's handler failed"),
        (Haggle("number"), Failed, "the game's handler failed"),
        (Haggle("dict"), Failed, "the game's handler failed"),
        (Haggle("class"), Failed, "the game's handler failed"),
        (Haggle("large"), Failed, "the game's handler failed"),
    ],
    ids=repr,
)
@in_virtual_time
async def test_a_refusal_is_raised_as_what_it_is_and_is_no_message(
    message: Message, error: type[Refused], text: str
) -> None:
    async with serve(allow_errors=(ZeroDivisionError, RuntimeError)) as server:
        _, room = await shopper(server)

        with pytest.raises(error, match=text) as raised:
            await room.ask(message)

        assert type(raised.value) is error
        assert await room.ask(Buy(1)) == Bought(1)
        assert room.poll() == []


def test_a_handler_that_returns_no_message_is_a_failure_of_the_game_and_says_why() -> None:
    @in_virtual_time
    async def story() -> None:
        async with serve() as server:
            _, room = await shopper(server)
            with pytest.raises(Failed):
                await room.ask(Haggle("number"))

    with pytest.raises(GameFailed) as failed:
        story()

    assert "the answer to 'haggle' cannot be sent" in failed.value.explained()
    assert "the handler of 'haggle' returned 5: an answer is a Message, or None" in failed.value.explained()


class Wrong(Message):
    wire_name = "buy"
    count: str


@in_virtual_time
async def test_a_message_that_does_not_fit_is_refused() -> None:
    async with serve() as server:
        _, room = await shopper(server)

        with pytest.raises(Invalid, match=r"Expected `int`, got `str`"):
            await room.ask(Wrong("three"))
        with pytest.raises(TypeError, match="send a Message"):
            await room.ask("buy")  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"a 'haggle' of .* bytes is more than"):
            await room.ask(Haggle("x" * 100_000))


@pytest.mark.parametrize("body", [3, [], ["buy"], ["", {}], [5, {}], ["n" * 65, {}], ["buy", {}, 1], {"buy": {}}])
@in_virtual_time
async def test_an_ask_that_is_none_is_refused(body: Any) -> None:
    async with serve() as server:
        session, room = await shopper(server)

        session.protocol.push(room.channel, ASK, session.protocol.codec.encode(body))
        refused = await room.receive(MessageRefused)

        assert refused == MessageRefused(
            1, ASK, "invalid", "the body of 'holdfast.ask' is a list of a message's type and its body"
        )


@in_virtual_time
async def test_an_ask_in_an_ask_is_refused() -> None:
    async with serve() as server:
        session, room = await shopper(server)

        session.protocol.push(room.channel, ASK, session.protocol.codec.encode([ASK, ["buy", {"count": 1}]]))

        assert (await room.receive(MessageRefused)).code == "not_found"
        assert shop(server, room).state.sold == []


@in_virtual_time
async def test_asks_are_messages_for_the_rate_limit() -> None:
    limits = Limits(messages_per_s=1.0, messages_burst=5, violations_warned_max=1, violations_per_s=0.001)
    async with serve(limits=limits) as server:
        _, room = await shopper(server)

        answers = await asyncio.gather(*(room.ask(Buy(1)) for _ in range(20)), return_exceptions=True)

        throttled = [answer for answer in answers if isinstance(answer, Throttled)]
        assert throttled
        bought = [answer for answer in answers if isinstance(answer, Bought)]
        assert len(throttled) + len(bought) == 20
        assert shop(server, room).state.total == len(bought)


# Deadlines


@in_virtual_time
async def test_after_the_deadline_the_message_is_not_taken_back_and_its_answer_is_dropped() -> None:
    async with serve() as server:
        _, room = await shopper(server)

        with pytest.raises(TimeoutError, match="no answer to 'wait' within 2 s"):
            await room.ask(Wait(5.0), timeout_s=2.0)
        with pytest.raises(TimeoutError, match="no answer to 'wait' within 5 s"):
            await room.ask(Wait(25.0), timeout_s=5.0)
        assert await room.ask(Buy(1)) == Bought(1)

        assert shop(server, room).state.sold == [-1, -1, 1]
        assert room.poll() == []


@in_virtual_time
async def test_without_a_deadline_it_is_that_of_the_limits() -> None:
    async with serve(limits=Limits(ask_s=3.0)) as server:
        _, room = await shopper(server)

        with pytest.raises(TimeoutError, match="within 3 s"):
            await room.ask(Wait(20.0))
        assert await room.ask(Wait(20.0), timeout_s=inf) == Bought(0)


@in_virtual_time
async def test_a_cancelled_caller_is_not_waited_for() -> None:
    async with serve() as server:
        _, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Wait(5.0)))
        await asyncio.sleep(1.0)

        asking.cancel()

        assert await room.ask(Buy(1)) == Bought(1)
        assert asking.cancelled()
        assert room.poll() == []


@in_virtual_time
async def test_as_many_asks_may_be_unanswered_as_the_limit_says() -> None:
    async with serve(limits=Limits(asks_max=3)) as server:
        _, room = await shopper(server)
        asking = [asyncio.create_task(room.ask(Wait(5.0))) for _ in range(3)]
        await asyncio.sleep(1.0)

        with pytest.raises(Throttled, match="3 asks have no answer yet"):
            await room.ask(Buy(1))

        await asyncio.gather(*asking)
        assert await room.ask(Buy(1)) == Bought(1)


# Drops and crashes


@in_virtual_time
async def test_asks_are_answered_once_across_drops() -> None:
    async with serve() as server:
        session, room = await shopper(server)
        answers: list[Any] = []

        async def ask() -> None:
            for _ in range(30):
                answers.append(await room.ask(Buy(1)))
                await asyncio.sleep(0.1)

        asking = asyncio.create_task(ask())
        for number in range(6):
            await asyncio.sleep(0.5)
            server.link(session).cut_next("client" if number % 2 else "server")
        await asking

        assert answers == [Bought(number) for number in range(1, 31)]
        assert session.drops >= 3


@in_virtual_time
async def test_an_answer_of_a_commit_room_leaves_when_its_turn_is_saved() -> None:
    async with serve(store=FaultyStore(latency_s=0.2)) as server:
        _, room = await shopper(server, "ledger")
        await asyncio.sleep(10.0)
        asking = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(0.1)
        assert shop(server, room).state.total == 3
        assert not asking.done()

        await asyncio.sleep(0.2)

        assert asking.done()
        assert await asking == Bought(3)


@pytest.mark.parametrize("at_s", [0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05])
@in_virtual_time
async def test_a_commit_room_answers_once_across_a_crash(at_s: float) -> None:
    async with serve(store=FaultyStore(latency_s=0.01)) as server:
        server.network.latency_s = 0.005
        session, room = await shopper(server, "ledger")
        assert await room.ask(Buy(1)) == Bought(1)
        asking = [asyncio.create_task(room.ask(Buy(1))) for _ in range(3)]
        await asyncio.sleep(at_s)

        server.crash()
        await server.start()

        assert await asyncio.gather(*asking) == [Bought(2), Bought(3), Bought(4)]
        assert await room.ask(Buy(1)) == Bought(5)
        assert session.outcome is not None
        assert session.outcome.kind == "resumed"
        assert shop(server, room).state.sold == [1, 1, 1, 1, 1]


@in_virtual_time
async def test_a_memory_room_that_is_lost_resets_its_asks() -> None:
    async with serve() as server:
        _, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Wait(10.0)))
        await asyncio.sleep(1.0)

        server.crash()
        await server.start()

        with pytest.raises(Reset) as error:
            await asking
        assert error.value.reason == "expired"
        with pytest.raises(NotSeated):
            await room.ask(Buy(1))


@in_virtual_time
async def test_a_checkpoint_room_answers_what_it_has_not_applied_and_resets_what_it_had() -> None:
    async with serve() as server:
        session, room = await shopper(server, "notes")
        await asyncio.sleep(6.0)
        server.link(session).stop_reading("client")
        had = asyncio.create_task(room.ask(Buy(1)))
        await asyncio.sleep(1.0)
        assert shop(server, room).state.sold == [1]

        server.crash()
        await server.start()

        # The room is as it was before, and has never heard of the message: it is sent again.
        assert await had == Bought(1)
        assert shop(server, room).state.sold == [1]


SMALL = Limits(kept_messages_max=64, window_messages_max=16)


@pytest.mark.parametrize("kind", ["shop", "ledger"])
@in_virtual_time
async def test_an_answer_that_was_lost_with_its_stream_is_reset_and_what_was_not_applied_is_answered(kind: str) -> None:
    async with serve(limits=SMALL) as server:
        session, room = await shopper(server, kind)
        flooded = asyncio.create_task(room.ask(Flood()))
        await a_moment()
        server.link(session).cut()
        after = asyncio.create_task(room.ask(Buy(3)))

        with pytest.raises(Reset) as error:
            await flooded
        assert error.value.reason == "resynced"
        assert await after == Bought(3)
        assert [type(message) for message in room.poll()][:2] == [Resynced, Bought]


@in_virtual_time
async def test_an_answer_that_comes_after_its_reset_is_dropped() -> None:
    async with serve(limits=SMALL) as server:
        session, room = await shopper(server)
        waiting = asyncio.create_task(room.ask(Wait(5.0)))
        behind = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(1.0)
        found = shop(server, room)
        for number in range(200):
            found.players[0].send(Bought(number))

        for each in (waiting, behind):
            with pytest.raises(Reset):
                await each
        await asyncio.sleep(10.0)
        assert found.state.sold == [-1, 3]
        assert await room.ask(Buy(1)) == Bought(4)

        assert [type(message) for message in room.poll()][:2] == [Resynced, Bought]
        assert room.poll() == []
        assert session.drops > 0


# The seat goes


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("kick", NotSeated, "thieves are not welcome"),
        ("close", NotSeated, "room_closed"),
        ("end", SessionEnded, "enough"),
    ],
)
@in_virtual_time
async def test_an_ask_that_costs_its_sender_the_seat_is_told_so(
    how: str, error: type[HoldfastError], text: str
) -> None:
    async with serve() as server:
        _, room = await shopper(server)

        with pytest.raises(error, match=text):
            await room.ask(Goodbye(how))


@in_virtual_time
async def test_an_ask_that_waits_when_its_seat_is_freed_is_told_so() -> None:
    async with serve() as server:
        _, room = await shopper(server)
        asking = [asyncio.create_task(room.ask(message)) for message in (Wait(5.0), Buy(3))]
        await asyncio.sleep(1.0)

        server.machine.call(shop(server, room).players[0].kick, "out")

        for each in asking:
            with pytest.raises(NotSeated, match="out"):
                await each


@in_virtual_time
async def test_an_ask_of_a_session_whose_seat_was_taken_over_is_told_so() -> None:
    async with serve() as server:
        first, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Wait(5.0)))
        await asyncio.sleep(1.0)

        second = await server.connect("ada", messages=[Bought])
        again = await second.rejoin()

        with pytest.raises((NotSeated, SessionEnded)):
            await asking
        assert await again.ask(Buy(3)) == Bought(3)
        assert [type(message) for message in again.poll()] == [Bought, RoomUpdated]  # the state
        assert first.room is None


@in_virtual_time
async def test_what_was_asked_before_leaving_is_answered_and_what_is_asked_after_is_not() -> None:
    async with serve() as server:
        session, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(0)

        await room.leave()

        assert await asking == Bought(3)
        with pytest.raises(NotSeated):
            await room.ask(Buy(3))
        room = await session.join_or_create("shop")
        asking = asyncio.create_task(room.ask(Wait(5.0)))
        await asyncio.sleep(1.0)
        await session.close()
        with pytest.raises(SessionEnded):
            await asking


# Agents


@pytest.mark.parametrize("kind", ["shop", "ledger"])
@in_virtual_time
async def test_an_agent_asks_as_a_client_does(kind: str) -> None:
    async with serve(allow_errors=(ZeroDivisionError, TypeError)) as server:

        async def story() -> None:
            agent = server.open_agent("npc")
            room = await agent.join(await agent.create(kind))

            assert await room.ask(Buy(3)) == Bought(3)
            assert await room.ask(Look()) is None
            assert await room.ask(Wait(1.0)) == Bought(3)
            refusals = [(Buy(0), Refused), (Steal(), NotAllowed), (Bought(1), NotFound), (Wrong("three"), Invalid)]
            for message, error in [*refusals, (Haggle("raises"), Failed), (Haggle("number"), Failed)]:
                with pytest.raises(error):
                    await room.ask(message)
            with pytest.raises(TimeoutError, match="no answer to 'wait' within 2 s"):
                await room.ask(Wait(5.0), timeout_s=2.0)
            with pytest.raises(TypeError, match="send a Message"):
                await room.ask("buy")  # type: ignore[arg-type]
            with pytest.raises(NotSeated, match="lost its seat before the answer came"):
                await room.ask(Goodbye("kick"))
            assert [message async for message in room] == []
            with pytest.raises(NotSeated):
                await room.ask(Buy(3))

        await server.machine.do(story())


@in_virtual_time
async def test_an_agent_whose_seat_is_freed_while_it_waits_is_told_so() -> None:
    async with serve() as server:

        async def story() -> None:
            agent = server.open_agent("npc")
            room = await agent.join(await agent.create("shop"))
            asking = [asyncio.create_task(room.ask(message)) for message in (Wait(5.0), Buy(3))]
            await asyncio.sleep(1.0)
            found = server.rooms.get(room.id)
            assert found is not None
            found.players[0].kick("out")
            for each in asking:
                with pytest.raises(NotSeated, match="lost its seat before the answer came"):
                    await each

        await server.machine.do(story())


class Tavern(Shop):
    """Opens an agent that asks."""

    answers: list[Any]

    def on_created(self) -> None:
        self.answers = []
        self.open_agent("bot", self.play)

    async def play(self, agent: RoomAgent[PlayerData]) -> None:
        self.answers.append(await agent.ask(Buy(3)))
        try:
            await agent.ask(Buy(0))
        except Refused as refusal:
            self.answers.append(str(refusal))
        try:
            await agent.ask(Wait(5.0), timeout_s=2.0)
        except TimeoutError as late:
            self.answers.append(str(late))
        await agent.receive()


@in_virtual_time
async def test_an_agent_of_the_room_asks_it() -> None:
    async with MemoryServer([Tavern]) as server:
        room = await (await server.connect("ada", messages=[Bought])).join_or_create("tavern")
        await asyncio.sleep(10.0)
        found = server.rooms.get(room.id)
        assert isinstance(found, Tavern)

        assert found.answers == [Bought(3), "nothing to buy", "no answer to 'wait' within 2 s"]


# Another process


@in_virtual_time
async def test_the_answers_to_what_an_earlier_process_asked_arrive_as_messages() -> None:
    async with serve() as server:
        first, room = await shopper(server, saved=storage_of(None))
        asking = [asyncio.create_task(room.ask(message)) for message in (Wait(2.0), Buy(3), Buy(0), Look())]
        await asyncio.sleep(1.0)
        state = await suspended(first)
        for each in asking:
            with pytest.raises(SessionEnded):
                await each

        second = await server.connect("ada", messages=[Bought], saved=storage_of(state))
        assert second.room is not None
        heard = [await second.room.receive() for _ in range(3)]
        assert await second.room.ask(Buy(1)) == Bought(4)

        assert heard == [Bought(0), Bought(3), MessageRefused(3, "buy", "refused", "nothing to buy")]
        assert second.room.poll() == []
        assert shop(server, second.room).state.sold == [-1, 3, 1]


@in_virtual_time
async def test_an_ask_that_cannot_be_saved_was_not_sent() -> None:
    class Full:
        def __init__(self) -> None:
            self.is_full = False
            self._inner = storage_of(None)

        def __getattr__(self, name: str) -> Any:
            if self.is_full and name in {"append", "replace"}:
                raise OSError("disk full")
            return getattr(self._inner, name)

    storage = Full()
    async with serve() as server:
        _, room = await shopper(server, saved=storage)
        storage.is_full = True

        with pytest.raises(OSError, match="disk full"):
            await room.ask(Buy(3))

        storage.is_full = False
        assert await room.ask(Buy(1)) == Bought(1)
