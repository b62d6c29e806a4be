"""Asks: a message whose sender waits for the answer, and hears exactly one thing of it."""

import asyncio
from math import inf
from typing import Any

import pytest

from holdfast import (
    Failed,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotAllowed,
    NotFound,
    Refused,
    Throttled,
    Unconfirmed,
)
from holdfast.core.messages import ASK
from holdfast.server.server import SUBPROTOCOLS
from holdfast.testing import GameFailed
from tests.saved_sessions import storage_of
from tests.server.asks.shop import Bought, Buy, Flood, Haggle, Look, Steal, Wait, Wrong, serve, shop, shopper
from tests.simulation.stage import a_moment, in_virtual_time

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
        (Bought(1), NotFound, "rooms of the kind 'shop' have no handler for 'bought'"),
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


@in_virtual_time
async def test_a_message_that_does_not_fit_is_refused() -> None:
    async with serve() as server:
        _, room = await shopper(server)

        with pytest.raises(Invalid, match=r"Expected `int`, got `str`"):
            await room.ask(Wrong("three"))
        with pytest.raises(TypeError, match="send a Message"):
            await room.ask("buy")  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"'haggle' has .* bytes, more than"):
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
